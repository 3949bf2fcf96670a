"""A workload of two short sessions of agents with pauses of tools and of people, and the parts it is made of."""

SESSION = """
  - id: {name}
    about: a short one
    turns:
      - {{who: user, max_tokens: 80, text: "Look at the {name} and say what you would read first. {words}"}}
      - {{who: tool, tool: cat {name}.txt, wait_s: 3, max_tokens: 80, text: "{words}"}}
      - {{who: user, wait_s: 40, max_tokens: 80, text: "Go on with the {name}. {words}"}}
      - {{who: tool, tool: tail {name}.log, wait_s: 2, max_tokens: 80, text: "{words}"}}
"""
HEAD = """
schema: 1
name: short
source: a test
limit_s: 300
shares_system: true
body: {chat_template_kwargs: {thinking: false}}
system: You look after a harbour's machines and read their journals with care.
sessions:
"""
JOURNALS = (
    "The pump {n} began at dawn, drew {n} litres, and stopped when its filter was full of weed.",
    "Crane {n} lifted {n} crates, then its brake warmed up and the foreman let it rest for an hour.",
    "Lamp {n} flickered; the keeper changed a fuse and wrote down {n} volts at the far end of the pier.",
)


def words(seed: int) -> str:
    """Some hundred tokens of a journal, no two alike."""
    return " ".join(JOURNALS[n % 3].format(n=seed * 100 + n) for n in range(24))


def text() -> str:
    """The whole file."""
    return HEAD + "".join(
        SESSION.format(name=name, words=words(n)) for n, name in enumerate(("pump", "crane"), 1)
    )
