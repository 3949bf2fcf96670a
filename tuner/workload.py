"""What a bench sends, as data: prompts, cells, warm-up and the text of its prefills.

A workload is read from `recipes/prompts/<name>.yml`; its digest stands in every result, so that figures of two workloads are
never compared. What is sent in which order follows from it in `tuner.orders`.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from tuner.filler import Filler

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

WARM_UP, BURST, SENTINEL = "warm-up", "burst", "sentinel"
"""Cell names of the requests around the cells, which no figure is read from; no cell of a workload has one of them."""

LEAST_ANSWERED = 0.5
"""Tokens of a decode reply over its max_tokens, unless a prompt says otherwise; below, the bench is void, not slow.

A slot that idles moves the aggregate of six streams although the line is no slower. Ours, chosen and not fitted: such
a stream would idle longer than it worked. Our prompts ask for more than their max_tokens, so none should come near.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A question; ours have a natural answer longer than `max_tokens`, so that a cell measures decoding, not stopping."""

    id: str
    category: str
    text: str
    max_tokens: int
    least_answered: float = LEAST_ANSWERED

    def __post_init__(self) -> None:
        if self.max_tokens < 2:
            raise ValueError(f"prompt {self.id}: max_tokens is {self.max_tokens}, wanted at least 2")
        if not 0 <= self.least_answered <= 1:
            raise ValueError(
                f"prompt {self.id}: least_answered is {self.least_answered}, wanted a share from 0 to 1"
            )


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
    deal: Literal["streams", "rounds"] = "streams"
    """Whether each stream gets the next prompt, or all streams of a round the same one, so that a round has one category."""
    prompt_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.rounds < 1:
            raise ValueError(f"cell {self.name}: concurrency and rounds must be at least 1")
        if self.name in {WARM_UP, BURST, SENTINEL}:
            raise ValueError(f"cell {self.name}: this name belongs to the bench itself")
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
class WarmUp:
    """One prompt over and over until `agree` replies in a row decode within `within` of each other, `most` times at most.

    First requests read 35 % low, 43 to 69 tok/s within eight (z-lab/dflash#135, ai-dynamo/aisimulate#287, reported): kernels are
    tuned and caches filled by whoever comes first.
    """

    prompt: str
    agree: int = 3
    within: float = 0.03
    most: int = 24

    def __post_init__(self) -> None:
        if not 2 <= self.agree <= self.most:
            raise ValueError(f"warm_up: agree is {self.agree}, wanted 2 up to most ({self.most})")
        if not 0 < self.within < math.inf:
            raise ValueError(f"warm_up: within is {self.within}, wanted a share above 0")


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
    warm_up: WarmUp | None = None
    burst: bool = False
    """Whether a round at the highest concurrency goes out before anything counts."""
    sentinel: str | None = None
    """The prompt that is sent alone before the first and after each cell: the same question must take the same time."""
    body: Mapping[str, Plain]

    def __post_init__(self) -> None:
        if not self.cells:
            raise ValueError("no cells, wanted at least one")
        if not 0 < self.limit_s < math.inf:
            raise ValueError(f"limit_s is {self.limit_s}, wanted seconds above 0")
        if own := OWN_FIELDS.intersection(self.body):
            raise ValueError(f"body: {', '.join(sorted(own))} is set by the bench itself")
        known = {prompt.id for prompt in self.prompts}
        around = {self.warm_up.prompt} if self.warm_up else set()
        around |= {self.sentinel} if self.sentinel is not None else set()
        if unknown := around.union(*(cell.prompts for cell in self.cells)) - known:
            raise ValueError(f"no prompt has the id {', '.join(sorted(unknown))}")
        names = [cell.name for cell in self.cells]
        if len(known) < len(self.prompts) or len(set(names)) < len(names):
            raise ValueError("two prompts or two cells have the same name")
        if len(quantities(self)) < sum(len(cell.metrics) for cell in self.cells):
            raise ValueError("two cells give a metric of the same name")
        if self.burst and not any(cell.prompts for cell in self.cells):
            raise ValueError("burst: no cell names prompts to send")


def quantities(workload: Workload) -> Mapping[str, Quantity]:
    """Return every metric that this workload measures, by name, with what it is read from."""
    return {name: quantity for cell in workload.cells for name, quantity in cell.metrics.items()}


def asked(workload: Workload) -> Mapping[str, Prompt]:
    """Return the prompts by their id."""
    return {prompt.id: prompt for prompt in workload.prompts}


def canonical(workload: Workload) -> str:
    """Return the workload as canonical JSON: sorted keys, no spaces."""
    return json.dumps(asdict(workload), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(workload: Workload) -> str:
    """Return the SHA-256 (hex) of the workload's canonical JSON in UTF-8."""
    return hashlib.sha256(canonical(workload).encode()).hexdigest()
