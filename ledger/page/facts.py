"""Facts: what a recipe's presets say and the ledger does not: roofs of the GPU, and the parts of the KV cache. Values only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """One roof: FLOPs a second and bytes a second, and what its bandwidth is called."""

    name: str
    flop_s: float
    bytes_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a measured load stands on the roofline of its routed experts.

    The intensity in FLOPs a byte follows from the model at so many `sessions`: from `low`, where every row chooses experts for itself,
    to `high`, where all choose as one session does. `flop_s` follows from the measured rate: `tok_s` of one stream, `accepted` tokens a step.
    """

    metric: str
    sessions: int
    tok_s: float
    accepted: float
    low: float
    high: float
    flop_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of the KV cache that a request of full length takes, in bytes on one rank."""

    name: str
    n_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is drawn of one line beside its ledger; `predicted_tokens` is what the cache is predicted to take, None where that is a span."""

    model: str
    hardware: str
    ceilings: tuple[Ceiling, ...]
    standings: tuple[Standing, ...]
    parts: tuple[Part, ...]
    predicted_tokens: int | None
