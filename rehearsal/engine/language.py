"""What a practice line answers: counting, a few facts, sums, JSON, code, and prose from a phrase grammar.

It must read as language (words, sentences, nothing that loops); it need not be right beyond the smoke's questions.
"""

import json
import re
from collections.abc import Iterator
from itertools import chain
from random import Random

from rehearsal.engine import calls
from rehearsal.engine.programs import PROGRAMS
from rehearsal.engine.tokens import split

_FACTS = (
    ("capital of france", "The capital of France is Paris."),
    ("capital of germany", "The capital of Germany is Berlin."),
    ("capital of italy", "The capital of Italy is Rome."),
    ("capital of japan", "The capital of Japan is Tokyo."),
    ("capital of spain", "The capital of Spain is Madrid."),
    ("largest planet", "Jupiter is the largest planet of the solar system."),
    ("boiling point of water", "Water boils at 100 degrees Celsius at sea level."),
    ("colour of the sky", "On a clear day the sky is blue."),
    ("color of the sky", "On a clear day the sky is blue."),
    ("opposite of hot", "The opposite of hot is cold."),
    ("days in a week", "There are seven days in a week."),
)
_COUNT = re.compile(
    r"\bcount(?:ing)?\b.{0,40}?\bfrom\s+(\d+)\s+(?:up\s+)?to\s+(\d+)|\bcount(?:ing)?\b\D{0,40}?\bto\s+(\d+)",
    re.DOTALL,
)
_NUMBERS = re.compile(r"\bnumbers\b.{0,30}?\b(\d+)\s+(?:to|through)\s+(\d+)", re.DOTALL)
_SUM = re.compile(
    r"(?:what is|what's|compute|calculate|how much is)\s+(\d+)\s*(\*|x|\u00d7|\+|plus|times|-|minus)\s*(\d+)"
)
_TOOL = re.compile(r"\bin ([A-Z]\w+)\?.*\b[Cc]all the tool (\w+)", re.DOTALL)
_HIDDEN = re.compile(r"The secret code of the (\w+) is (\d+)\.")
_PROGRAM = re.compile(r"function `(\w+)\(")
_PERSON = re.compile(r"\bcalled ([A-Z]\w+) who is (\d+)\b")
_KEYS = re.compile(r"[`\"']([A-Za-z_]\w*)[`\"']")
_MOST_COUNTED = 5000
_OPEN_ANSWER = 60  # sentences, about 900 tokens: an open question is ended by max_tokens, as a benchmark's is

_OPENERS = (
    "In practice", "At first", "After a while", "On most days", "For this reason", "In the end", "As a rule", "Even so",
    "By then", "Once again", "From the outside", "Seen up close", "With some patience", "Over the years", "In this light",
    "For a start", "In other words", "Before noon", "Towards evening", "Without much noise", "By comparison", "Luckily",
)  # fmt: skip
_SUBJECTS = (
    "the harbour master", "a careful reader", "the older engineer", "the village school", "a patient gardener", "the night train",
    "the small workshop", "a retired sailor", "the public library", "the mountain road", "a young teacher", "the river ferry",
    "the weather station", "a travelling doctor", "the stone bridge", "the market hall", "a quiet neighbour", "the local baker",
    "the survey team", "a visiting painter", "the tide table", "the committee", "a northern wind", "the archive",
)  # fmt: skip
_VERBS = (
    "keeps a record of", "depends on", "slowly changes", "explains", "prepares", "measures", "brings together", "protects",
    "describes", "repairs", "follows", "compares", "improves", "collects", "gathers", "questions", "balances", "observes",
    "makes room for", "pays attention to", "takes care of", "outlasts", "passes on", "returns to",
)  # fmt: skip
_OBJECTS = (
    "the long winter", "every small detail", "the plans for spring", "an unusual map", "the water supply", "several old stories",
    "the cost of repairs", "a simple timetable", "the first harvest", "a row of lanterns", "the school accounts", "new seeds",
    "the sound of rain", "a broken clock", "three different routes", "the letters from abroad", "a wide valley", "warm bread",
    "the morning news", "a shared memory", "the depth of the snow", "good advice", "the shape of the coast", "a steady habit",
)  # fmt: skip
_TAILS = (
    "before anyone asks", "with great care", "for the whole town", "without a fixed plan", "in clear words", "over many seasons",
    "as the light fades", "on the other shore", "while others rest", "at a modest price", "under a grey sky", "by hand",
    "and nobody complains", "so that little is lost", "because it matters", "when the roads are open", "near the old mill",
    "step by step", "as far as possible", "in good company", "with a calm voice", "until the work is done", "once a year",
)  # fmt: skip
_CODE = '''def {name}({first}, {second}):
    """Return {object} once {subject} has been read."""
    total = 0
    for item in {first}:
        if item > {second}:
            total += item * {number}
    return total


'''
_NAMES = (
    "merge",
    "collect",
    "weigh",
    "balance",
    "measure",
    "sort_rows",
    "group",
    "filter_old",
    "rank",
    "total",
    "split_at",
    "scale",
)
_ARGUMENTS = (
    "values",
    "rows",
    "limit",
    "items",
    "floor",
    "weights",
    "numbers",
    "bound",
    "records",
    "start",
    "entries",
    "width",
)


_HEED = 1500  # characters at either end of a prompt that are looked at; the middle of a long one is filler


def _question(prompt: str) -> str:
    return prompt if len(prompt) <= 2 * _HEED else f"{prompt[:_HEED]}\n{prompt[-_HEED:]}"


def is_counting(prompt: str) -> bool:
    """Whether the prompt asks to count."""
    asked = _question(prompt).lower()
    return bool(_COUNT.search(asked) or _NUMBERS.search(asked))


def pieces(prompt: str, *, ends: bool, tools: calls.Tools = calls.NONE) -> Iterator[str]:
    """Yield the answer's tokens; with `ends` false, prose follows for ever (ignore_eos)."""
    hidden = _HIDDEN.search(prompt)
    prompt = _question(prompt)
    chance = Random(prompt)  # noqa: S311 - the words of a made-up answer
    if hidden and f"the secret code of the {hidden[1]}?" in prompt:
        texts = iter([hidden[2]])
    else:
        texts = calls.called(prompt, tools) or _answer(prompt, chance)
    answer: Iterator[str] = (piece for text in texts for piece in split(text))
    return (
        answer if ends else chain(answer, (piece for text in _prose(chance, 10**9) for piece in split(text)))
    )


def garbled(prompt: str) -> Iterator[str]:
    """Yield what a broken kernel makes of it: fragments, with one that comes back again and again, and no end."""
    chance = Random(_question(prompt))  # noqa: S311 - the words of a made-up answer
    stuck = chance.choice((" ser", "的", " }}", "ioni", " \u0e01"))
    odd = ("$_", "ńska", " (*", "ühr", "];", " 각", "zzo", "<|", " ::", "qu", "\ufffd", " =>", "kö", "++")
    while True:
        yield stuck if chance.random() < 0.6 else chance.choice(odd)


def _answer(prompt: str, chance: Random) -> Iterator[str]:
    asked = prompt.lower()
    counted = _counted(asked)
    fact = next((answer for key, answer in _FACTS if key in asked), "")
    called = _TOOL.search(prompt)
    if called:
        call = {"name": called[2], "arguments": {"city": called[1]}}
        yield f"<tool_call>\n{json.dumps(call)}\n</tool_call>"
    elif counted:
        yield counted
    elif fact:
        yield fact
    elif (written := _PROGRAM.search(prompt)) and written[1] in PROGRAMS:
        yield f"```python\n{PROGRAMS[written[1]]}```\n"
    elif _SUM.search(asked):
        yield _sum(asked)
    elif "json" in asked:
        yield from _json(prompt, chance)
    elif re.search(r"\b(function|python|code|class|program|script)\b", asked):
        yield from _code(chance)
    elif re.search(r"\b(one|single|short) (sentence|word)\b", asked):
        yield _Writer(chance).sentence()
    else:
        yield from _prose(chance, _OPEN_ANSWER)


def _counted(asked: str) -> str:
    found = _COUNT.search(asked) or _NUMBERS.search(asked)
    if not found:
        return ""
    ends = [int(text) for text in found.groups() if text]
    first, last = ends if len(ends) == 2 else (1, ends[0])
    return ", ".join(str(number) for number in range(first, min(last, first + _MOST_COUNTED) + 1))


def _sum(asked: str) -> str:
    found = _SUM.search(asked)
    if not found:
        return ""
    left, sign, right = int(found[1]), found[2], int(found[3])
    value = {"+": left + right, "plus": left + right, "-": left - right, "minus": left - right}.get(
        sign, left * right
    )
    return f"The answer is {value}."


def _json(prompt: str, chance: Random) -> Iterator[str]:
    """Yield one object with the keys the prompt quotes, or a list of them when it asks for several."""
    keys = list(dict.fromkeys(_KEYS.findall(prompt))) or ["name", "place", "count", "note"]
    person = _PERSON.search(prompt)
    if person and keys == ["name", "age"]:
        yield json.dumps({"name": person[1], "age": int(person[2])})
        return
    if not re.search(r"\b(array|list|items|entries|records|objects)\b", prompt.lower()):
        yield json.dumps(_record(keys, 1, chance))
        return
    yield "["
    for number in range(1, 41):
        yield ("" if number == 1 else ",") + "\n  " + json.dumps(_record(keys, number, chance))
    yield "\n]"


def _record(keys: list[str], number: int, chance: Random) -> dict[str, object]:
    def value(key: str) -> object:
        if key in {"id", "number", "index"}:
            return number
        if key in {"count", "age", "year", "price", "amount", "population", "quantity", "score"}:
            return chance.randrange(2, 2000)
        return f"{chance.choice(_OBJECTS)} {chance.choice(_TAILS)}"

    return {key: value(key) for key in keys}


def _code(chance: Random) -> Iterator[str]:
    for _ in range(20):
        first, second = chance.sample(_ARGUMENTS, 2)
        yield _CODE.format(
            name=f"{chance.choice(_NAMES)}_{chance.choice(_ARGUMENTS)}",
            first=first,
            second=second,
            subject=chance.choice(_SUBJECTS),
            object=chance.choice(_OBJECTS),
            number=chance.randrange(2, 98),
        )


class _Deck:
    """Draws from a table as from a pack of cards: nothing comes twice before all have come once."""

    def __init__(self, table: tuple[str, ...], chance: Random) -> None:
        self._table = table
        self._chance = chance
        self._left: list[str] = []

    def draw(self) -> str:
        """Return the next card."""
        if not self._left:
            self._left = self._chance.sample(self._table, len(self._table))
        return self._left.pop()


class _Writer:
    """Writes sentences from the phrase tables."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        tables = (_OPENERS, _SUBJECTS, _VERBS, _OBJECTS, _TAILS)
        self._opener, self._subject, self._verb, self._object, self._tail = (
            _Deck(one, chance) for one in tables
        )

    def sentence(self) -> str:
        """Return one sentence."""
        shape = self._chance.randrange(3)
        if shape == 0:
            return f"{self._opener.draw()}, {self._clause()} {self._tail.draw()}."
        clause = self._clause()
        start = f"{clause[0].upper()}{clause[1:]}"
        return f"{start} {self._tail.draw()}." if shape == 1 else f"{start}, and {self._clause()}."

    def _clause(self) -> str:
        return f"{self._subject.draw()} {self._verb.draw()} {self._object.draw()}"


def _prose(chance: Random, sentences: int) -> Iterator[str]:
    writer = _Writer(chance)
    for index in range(sentences):
        yield ("" if index == 0 else " ") + writer.sentence()
