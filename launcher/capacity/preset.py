"""Presets: what recipes/hardware and recipes/models say of a machine and of a model, as values. Pure; each file names its sources."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Arithmetic = Literal["fp8", "bf16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From `low` to `high`: what is known of a figure that nobody could state as one number."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"wanted low at most high, found {self.low} and {self.high}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """One GPU: memory in GiB, its bandwidths in GB/s by what they are, dense arithmetic in TFLOP/s by format.

    `outside_gib` is what a node holds beyond the engine's own budget, NCCL's buffers left out; `nccl_gib` those buffers as NCCL
    chooses them, `nccl_small_gib` with NCCL_BUFFSIZE of 1 MiB. All are reports of others, and missing where nobody reported any.
    """

    schema: Literal[1]
    name: str
    about: str
    sources: tuple[str, ...]
    memory_gib: float
    bandwidth_gb_s: Mapping[str, float]
    tflop_s: Mapping[Arithmetic, float]
    outside_gib: Span | None = None
    nccl_gib: float | None = None
    nccl_small_gib: float | None = None

    def __post_init__(self) -> None:
        figures = (self.memory_gib, *self.bandwidth_gb_s.values(), *self.tflop_s.values())
        if not self.bandwidth_gb_s or not self.tflop_s or min(figures) <= 0:
            raise ValueError("wanted memory, at least one bandwidth and one arithmetic rate, all above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """Routed experts: `layers` times `routed` of three matrices hidden x intermediate, of which a token visits `top_k` a layer.

    `bits` are those of a weight with its scales. A visit moves the token in and the result out of HBM: `visit_width` elements
    (None: hidden) of `in_bytes` and `out_bytes`.
    """

    layers: int
    routed: int
    top_k: int
    hidden: int
    intermediate: int
    bits: float
    arithmetic: Arithmetic = "fp8"
    visit_width: int | None = None
    in_bytes: int = 1
    out_bytes: int = 2

    def __post_init__(self) -> None:
        if min(self.layers, self.top_k, self.hidden, self.intermediate, self.bits) <= 0:
            raise ValueError("layers, top_k, hidden, intermediate and bits: wanted numbers above 0")
        if not self.top_k <= self.routed:
            raise ValueError(f"top_k: wanted at most the {self.routed} routed experts, found {self.top_k}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerBits:
    """So many layers whose EXL3 experts have `gate_up` and `down` bits a weight."""

    layers: int
    gate_up: int
    down: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """One reported decode step of a single session: GPU, ranks that share every expert, ms, tokens drafted and accepted, and whose."""

    hardware: str
    ranks: int
    step_ms: float
    drafted: int
    accepted: float
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What boots of this model reported beyond weights and cache, in GiB, and how that was derived."""

    graphs_gib: Span
    rest_gib: Span
    origin: str
    pace: Pace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One build of a model: `folders` are the names under which recipes find it, `config` its config.json as far as it is used."""

    schema: Literal[1]
    name: str
    about: str
    sources: tuple[str, ...]
    experts: Experts
    folders: tuple[str, ...] = ()
    drafter: Experts | None = None
    exl3: tuple[LayerBits, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    tensors: str | None = None
    reported: Reported | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Tensors of one name pattern: `count` of them, each of `shape` in a format."""

    name: str
    kind: str
    format: str
    shape: tuple[int, ...]
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How a weight is stored: bits each, and one byte of scale for each tile of `tile` (rows, columns); None: no scale."""

    bits: int
    tile: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """Bytes that an engine adds while it loads: over the whole model, cut over the ranks where `split`."""

    name: str
    bytes: int
    split: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The tensors of a checkpoint; `total_bytes` is what they must add up to."""

    schema: Literal[1]
    name: str
    about: str
    sources: tuple[str, ...]
    total_bytes: int
    formats: Mapping[str, Format]
    rows: tuple[Row, ...]
    added: tuple[Added, ...] = ()
