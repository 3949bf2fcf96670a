"""What a bench sends: prompts, cells and the plan of every single request.

A workload is read from `recipes/prompts/<name>.yml`; its digest stands in every result, so that figures of two
workloads are never compared. Each request carries a tag at the very front of its prompt that is unique to the run,
cell, round and stream: no prefix of one request can be found in a cache that another one filled.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Literal

Plain = bool | int | float | str | list[object] | dict[str, object]
"""What may stand in a request body besides the fields that the bench sets itself."""

Quantity = Literal["per_stream", "aggregate", "prefill", "ttft"]
"""What a metric is read from: see `tuner.metrics`."""

SPEEDS: frozenset[Quantity] = frozenset({"per_stream", "aggregate", "prefill"})
"""The quantities of which more is better, which is what every bar and every verdict takes for granted."""

READ_FROM: Mapping[str, frozenset[Quantity]] = {
    "decode": frozenset({"per_stream", "aggregate", "ttft"}),
    "prefill": frozenset({"prefill", "ttft"}),
}
"""What each kind of cell can tell: a prefill's only token has no rate, a question is too short to time its reading."""

OWN_FIELDS = frozenset(
    {"model", "messages", "max_tokens", "max_completion_tokens", "n", "stream", "stream_options"}
)
"""The fields of a request that its figures rest on; a workload's `body` leaves them alone."""

LEAST_PROMPT_TOKENS = 100
"""Of a prefill cell; ours: tag and chat template take some tens of tokens and must not be what is measured."""

Place = tuple[str, int, int]
"""Cell, round and stream: where a request stands in a bench."""

WARM_UP = "warm-up"
"""The cell name of the requests that are sent first and not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A question whose natural answer is longer than `max_tokens`, so that a cell measures decoding, not stopping."""

    id: str
    category: str
    text: str
    max_tokens: int

    def __post_init__(self) -> None:
        if self.max_tokens < 2:
            raise ValueError(f"prompt {self.id}: max_tokens is {self.max_tokens}, wanted at least 2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Requests measured under one condition: `rounds` times `concurrency` streams released together.

    A decode cell goes round its `prompts` in order; a prefill cell sends one made-up prompt of about `prompt_tokens`
    tokens and asks for one token. `metrics` maps the names of the metrics read here to what they are read from.
    """

    name: str
    kind: Literal["decode", "prefill"]
    concurrency: int
    rounds: int
    metrics: Mapping[str, Quantity]
    prompts: tuple[str, ...] = ()
    prompt_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.rounds < 1:
            raise ValueError(f"cell {self.name}: concurrency and rounds must be at least 1")
        if self.name == WARM_UP:
            raise ValueError(f"cell {self.name}: this name belongs to the warm-up")
        if (self.kind == "decode") != bool(self.prompts):
            raise ValueError(f"cell {self.name}: a decode cell names prompts, a prefill cell none")
        if (self.kind == "prefill") != (self.prompt_tokens is not None):
            raise ValueError(f"cell {self.name}: a prefill cell gives prompt_tokens, a decode cell does not")
        if self.prompt_tokens is not None and self.prompt_tokens < LEAST_PROMPT_TOKENS:
            raise ValueError(
                f"cell {self.name}: prompt_tokens is {self.prompt_tokens}, wanted at least {LEAST_PROMPT_TOKENS}"
            )
        if not self.metrics:
            raise ValueError(f"cell {self.name}: gives no metric, wanted at least one")
        if odd := set(self.metrics.values()) - READ_FROM[self.kind]:
            raise ValueError(
                f"cell {self.name}: a {self.kind} cell gives no {', '.join(sorted(odd))}, "
                f"only {', '.join(sorted(READ_FROM[self.kind]))}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Filler:
    """What prefill prompts are made of.

    `words` is one text of many different words (rows of an n-gram table get hot when words repeat), and
    `characters_a_token` is a planning figure only: what is reported is the server's own count.
    """

    words: str
    characters_a_token: float

    def __post_init__(self) -> None:
        if len(set(self.words.split())) < 100:
            raise ValueError(f"filler: {len(set(self.words.split()))} different words, wanted at least 100")
        if not 0 < self.characters_a_token < math.inf:
            raise ValueError(
                f"filler: characters_a_token is {self.characters_a_token}, wanted a number above 0"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Everything a bench sends.

    `body` joins every request's JSON, short of `OWN_FIELDS`; `limit_s` bounds one request, in the line's seconds.
    """

    schema: Literal[1]
    name: str
    source: str
    limit_s: float
    prompts: tuple[Prompt, ...]
    cells: tuple[Cell, ...]
    filler: Filler
    warm_up: tuple[str, ...] = ()
    body: Mapping[str, Plain]

    def __post_init__(self) -> None:
        if not self.cells:
            raise ValueError("no cells, wanted at least one")
        if not 0 < self.limit_s < math.inf:
            raise ValueError(f"limit_s is {self.limit_s}, wanted seconds above 0")
        if own := OWN_FIELDS.intersection(self.body):
            raise ValueError(f"body: {', '.join(sorted(own))} is set by the bench itself")
        known = {prompt.id for prompt in self.prompts}
        named = set(self.warm_up).union(*(cell.prompts for cell in self.cells))
        if named - known:
            raise ValueError(f"no prompt has the id {', '.join(sorted(named - known))}")
        names = [cell.name for cell in self.cells]
        if len(known) < len(self.prompts) or len(set(names)) < len(names):
            raise ValueError("two prompts or two cells have the same name")
        if len(quantities(self)) < sum(len(cell.metrics) for cell in self.cells):
            raise ValueError("two cells give a metric of the same name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One request to be sent; `text` is the whole prompt with its tag. Rounds and streams count from 0."""

    cell: str
    round: int
    stream: int
    prompt: str
    tag: str
    text: str
    max_tokens: int


def quantities(workload: Workload) -> Mapping[str, Quantity]:
    """Return every metric that this workload measures, by name, with what it is read from."""
    return {name: quantity for cell in workload.cells for name, quantity in cell.metrics.items()}


def digest(workload: Workload) -> str:
    """Return the SHA-256 (hex) of the workload's canonical JSON: sorted keys, no spaces, UTF-8."""
    text = json.dumps(asdict(workload), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def rounds(workload: Workload, run_tag: str) -> Iterator[tuple[Order, ...]]:
    """Yield the orders that are released together, warm-up first, then cell by cell."""
    for number, prompt in enumerate(workload.warm_up):
        yield (_decode_order(workload, prompt, (WARM_UP, number, 0), run_tag),)
    for cell in workload.cells:
        for number in range(cell.rounds):
            yield tuple(_order(workload, cell, number, stream, run_tag) for stream in range(cell.concurrency))


def filler_text(filler: Filler, seed: str, tokens: int) -> str:
    """Return words and numbers of about `tokens` tokens, a pure function of `seed`.

    Every ninth item is a number below 1000, so that hardly any run of words repeats within a prompt.
    """
    words = sorted(set(filler.words.split()))
    wanted = int(tokens * filler.characters_a_token)
    items: list[str] = []
    length = 0
    for position, draw in enumerate(_draws(seed)):
        item = str(draw % 1000) if position % 9 == 8 else words[draw % len(words)]
        length += len(item) + 1
        if length > wanted:
            break
        items.append(item)
    return " ".join(items)


def _order(workload: Workload, cell: Cell, number: int, stream: int, run_tag: str) -> Order:
    place = (cell.name, number, stream)
    if cell.prompt_tokens is None:
        turn = (number * cell.concurrency + stream) % len(cell.prompts)
        return _decode_order(workload, cell.prompts[turn], place, run_tag)
    text = filler_text(workload.filler, _tag(run_tag, place), cell.prompt_tokens)
    return _placed(place, run_tag, prompt="filler", text=text, max_tokens=1)


def _decode_order(workload: Workload, wanted: str, place: Place, run_tag: str) -> Order:
    prompt = next(prompt for prompt in workload.prompts if prompt.id == wanted)
    return _placed(place, run_tag, prompt=prompt.id, text=prompt.text, max_tokens=prompt.max_tokens)


def _placed(place: Place, run_tag: str, *, prompt: str, text: str, max_tokens: int) -> Order:
    tag = _tag(run_tag, place)
    cell, number, stream = place
    return Order(
        cell=cell,
        round=number,
        stream=stream,
        prompt=prompt,
        tag=tag,
        text=f"{tag} {text}",
        max_tokens=max_tokens,
    )


def _tag(run_tag: str, place: Place) -> str:
    cell, number, stream = place
    return f"[{run_tag} {cell} r{number} s{stream}]"


def _draws(seed: str) -> Iterator[int]:
    """Yield 16-bit numbers from SHA-256 in counter mode: the same on every machine and Python."""
    counter = 0
    while True:
        block = hashlib.sha256(f"{seed}/{counter}".encode()).digest()
        yield from (int.from_bytes(block[at : at + 2]) for at in range(0, len(block), 2))
        counter += 1
