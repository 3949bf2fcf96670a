"""What a request asks the truth server to do: the key `truth` of its body, and from that when which tokens are sent."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """How one request is answered; everything but speed is a trouble and off by default. Tokens count from 1.

    The first chunk holds `first` tokens, one as an engine's prefill makes it, every other one between the two numbers of
    `chunk`. Token n is due (n - 1) / rate after the first and a chunk with its last token, whatever became of the chunks
    before: nothing adds up.
    """

    rate: float = 60.0
    """Tokens a second."""
    first_s: float = 0.05
    """From the receipt of the request to its first token."""
    chunk: tuple[int, int] = (1, 1)
    """Fewest and most tokens of a chunk."""
    first: int = 1
    seed: int = 0
    only: str = ""
    """Who has this text in the prompt has the troubles; everybody else is answered without."""

    refuse: int = 0
    """HTTP status to refuse with."""
    drop_at: int = 0
    """The connection breaks after this token."""
    end_at: int = 0
    """The stream ends in good order after this token, without a word why."""
    error_at: int = 0
    """The stream tells of an error after this token, as vLLM does when its engine dies."""
    stall_at: int = 0
    """Nothing more comes after this token."""
    stop_at: int = 0
    """The answer ends of itself with this token."""
    delay_at: int = 0
    """The chunk with this token comes late, and those that follow as soon as they are due."""
    delay_s: float = 0.0
    role_s: float = 0.0
    """How long before the first token the event with the role comes."""
    tail_s: float = 0.0
    """How long after the last token usage and end come."""
    cached: int = 0
    """Prompt tokens that came from the cache; -1 are all."""
    usage: str = "asked"
    """`asked` is as vLLM does: in every chunk where continuous_usage_stats asks for it; else `every`, `end` or `none`."""
    nulls: int = 0
    """Events with a null content before the first token."""
    keep_alive_s: float = 0.0
    """A comment every so often, until the last token."""
    pack: int = 1
    """Chunks that go into one write."""
    cut: int = 0
    """Bytes of a write: events come in pieces, a few milliseconds apart."""
    crlf: bool = False
    """Lines end with CR LF."""
    escape: bool = False
    """Everything beyond ASCII is escaped, as Python's own json writes it."""
    neighbour: int = 0
    """Tokens that the counters grow by for somebody else's request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Tokens that are sent together: the number of the last, how many, and when, in seconds after the first token."""

    last: int
    tokens: int
    due_s: float


def asked(body: dict[str, Any], prompt: str) -> Script:
    """Return the script of a request; an unknown key is a fault of the test and raises TypeError."""
    wanted: dict[str, Any] = dict(body.get("truth", {}))
    if wanted.get("only", "") not in prompt:
        wanted = {name: wanted[name] for name in ("rate", "first_s", "chunk", "seed") if name in wanted}
    if "chunk" in wanted:
        fewest, most = wanted["chunk"]
        wanted["chunk"] = (fewest, most)
    script = Script(**wanted)
    if script.usage != "asked":
        return script
    options = body.get("stream_options") or {}
    return replace(script, usage="every" if options.get("continuous_usage_stats") else "end")


def chunks(script: Script, tokens: int) -> Iterator[Chunk]:
    """Yield the chunks of an answer of so many tokens."""
    draw = random.Random(script.seed)
    last, size = 0, min(script.first, tokens)
    while size:
        last += size
        due_s = (last - script.first) / script.rate
        if last - size < script.delay_at <= last:
            due_s += script.delay_s
        yield Chunk(last=last, tokens=size, due_s=due_s)
        size = min(draw.randint(*script.chunk), tokens - last)
