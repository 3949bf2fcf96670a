"""Battery: everything that a quality run asks, read from `recipes/quality/<name>.yml`.

Its digest stands in every result: log-probabilities of two batteries are never compared. Every part may be left out.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from tuner.filler import Filler
from tuner.workload import OWN_FIELDS, Plain

Part = Literal["probe", "needle", "tools", "counting", "json", "code", "repeat", "garble", "decode"]
"""What a battery consists of, in the order in which it is asked."""

PARTS: tuple[Part, ...] = get_args(Part)

_LISTS: frozenset[Part] = frozenset({"counting", "json", "code"})

JsonType = Literal["text", "whole", "number", "flag", "list", "object"]

MOST_TOP = 20
"""Alternatives a position: what vLLM gives unless `--max-logprobs` says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One held-out text: the engine is asked how probable it finds each of its tokens."""

    id: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The batch mix: while the texts are scored again, `in_flight` other requests of `max_tokens` are kept running."""

    in_flight: int
    max_tokens: int
    prompts: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.in_flight < 1 or self.max_tokens < 1 or not self.prompts:
            raise ValueError("wanted in_flight and max_tokens of at least 1, and at least one prompt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """The log-probability probe: `top` alternatives at each position of each text, alone and under `load`."""

    top: int
    load: Load
    texts: tuple[Text, ...]

    def __post_init__(self) -> None:
        if not 1 <= self.top <= MOST_TOP:
            raise ValueError(f"top is {self.top}, wanted 1 to {MOST_TOP}")
        if len(self.texts) < 2:
            raise ValueError(f"{len(self.texts)} texts, wanted at least 2: one text says little of a model")
        _demand_distinct("texts", [one.id for one in self.texts])


@dataclass(frozen=True, slots=True, kw_only=True)
class Needle:
    """One sentence hidden in made-up words, at each depth (share of the prompt before it) of each length in tokens."""

    lengths: tuple[int, ...]
    depths: tuple[float, ...]
    max_tokens: int
    filler: Filler

    def __post_init__(self) -> None:
        if not self.lengths or not self.depths:
            raise ValueError("wanted at least one length and one depth")
        if min(self.lengths) < 200:
            raise ValueError(f"a length of {min(self.lengths)} tokens, wanted at least 200")
        if not all(0 <= depth <= 1 for depth in self.depths):
            raise ValueError("a depth is a share from 0 to 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that the model may call; `parameters` is its JSON schema."""

    name: str
    about: str
    parameters: Mapping[str, Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A question whose answer is one call of `tool` with exactly these arguments."""

    ask: str
    tool: str
    arguments: Mapping[str, Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Tool-call integrity: every call with all tools on offer."""

    max_tokens: int
    tools: tuple[Tool, ...]
    calls: tuple[Call, ...]

    def __post_init__(self) -> None:
        names = [tool.name for tool in self.tools]
        _demand_distinct("tools", names)
        if missing := sorted({call.tool for call in self.calls} - set(names)):
            raise ValueError(f"no tool is called {', '.join(missing)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A question whose answer is the numbers from `first` to `last` and nothing else."""

    ask: str
    first: int
    last: int
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A question in JSON mode whose answer is one object with these keys, each of its type."""

    ask: str
    keys: Mapping[str, JsonType]
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A question whose answer is Python: it is run with `asserts` behind it."""

    id: str
    ask: str
    asserts: str
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """One greedy question asked `times` times; how many answers differ is recorded and never judged."""

    ask: str
    times: int
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Garble:
    """Open questions kept `in_flight` at once, `rounds` of them at each temperature: is every answer language?"""

    prompts: tuple[str, ...]
    rounds: int
    in_flight: int
    temperatures: tuple[float, ...]
    max_tokens: int

    def __post_init__(self) -> None:
        if not self.prompts or not self.temperatures or self.rounds < 1 or self.in_flight < 1:
            raise ValueError("wanted prompts, temperatures, and rounds and in_flight of at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decode:
    """Replies made within the budget and read whole, `replies` of each arm for each number in flight of `sizes`; see `tuner.quality.budget`."""

    prompts: tuple[str, ...]
    sizes: tuple[int, ...]
    replies: int
    temperature: float
    top: int
    max_tokens: int

    def __post_init__(self) -> None:
        if not self.prompts or not self.sizes or min(self.sizes) < 1 or self.max_tokens < 1:
            raise ValueError("wanted prompts, and sizes and max_tokens of at least 1")
        if self.replies < 2:
            raise ValueError(f"replies is {self.replies}, wanted at least 2 of each arm and size")
        if not 1 <= self.top <= MOST_TOP:
            raise ValueError(f"top is {self.top}, wanted 1 to {MOST_TOP}")
        _demand_distinct("sizes", [str(one) for one in self.sizes])


@dataclass(frozen=True, slots=True, kw_only=True)
class Battery:
    """Everything that a quality run asks; `body` joins every chat request's JSON, `limit_s` bounds one request.

    `most_wrong` says of how many questions of a part the answers may be wrong; 0 where it says nothing.
    """

    schema: Literal[1]
    name: str
    source: str
    limit_s: float
    body: Mapping[str, Plain]
    probe: Scoring | None = None
    needle: Needle | None = None
    tools: Tools | None = None
    counting: tuple[Count, ...] = ()
    json: tuple[Record, ...] = ()
    code: tuple[Program, ...] = ()
    repeat: Repeat | None = None
    garble: Garble | None = None
    decode: Decode | None = None
    most_wrong: Mapping[Part, int]

    def __post_init__(self) -> None:
        if not 0 < self.limit_s < math.inf:
            raise ValueError(f"limit_s is {self.limit_s}, wanted seconds above 0")
        if own := OWN_FIELDS.intersection(self.body):
            raise ValueError(f"body: {', '.join(sorted(own))} is set by the battery itself")
        if not parts(self):
            raise ValueError(f"asks nothing, wanted at least one of {', '.join(PARTS)}")
        _demand_distinct("code", [one.id for one in self.code])


def parts(battery: Battery) -> tuple[Part, ...]:
    """Return the parts that this battery has, in the order in which they are asked."""
    return tuple(part for part in PARTS if getattr(battery, part))


def only(battery: Battery, chosen: Sequence[Part]) -> Battery:
    """Return the battery without the other parts; its digest is not that of the whole.

    Raises:
        ValueError: it has none of these parts.

    """
    without: dict[str, Any] = {part: () if part in _LISTS else None for part in PARTS if part not in chosen}
    return replace(battery, **without)


def digest(battery: Battery) -> str:
    """Return the SHA-256 (hex) of the battery's canonical JSON: sorted keys, no spaces, UTF-8.

    Without `decode` where it has none: batteries are older than that part, and so are references that name their digest.
    """
    plain = {key: value for key, value in asdict(battery).items() if key != "decode" or value is not None}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _demand_distinct(what: str, names: list[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{what}: {', '.join(twice)} stands twice")
