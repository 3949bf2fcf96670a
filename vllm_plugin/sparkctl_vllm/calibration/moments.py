"""Moments: how often each expert was asked and how large each of its neurons was, from one layer of a recording and the layer's weights.

One expert is in memory at a time, beside the layer's recorded x. What every expert would do on a sample of all the layer's tokens is measured
too: it is the prior for experts that were hardly ever asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray

from sparkctl_vllm.calibration.checkpoint import Checkpoint
from sparkctl_vllm.calibration.recording import Routed
from sparkctl_vllm.refusal import demand

SAMPLE = 256
"""Tokens of the layer on which every expert is tried. Ours: E[h^2] of a neuron within some 10 %, at a cost below that of the routed tokens."""
KEPT = 32 << 20
"""Bytes that allocators keep for what was freed. Ours: once, on a busy machine, the sum of the rest was not enough."""
CHUNK = 4096
"""Rows of x that an expert computes at once."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """One layer: all of it sums over decoded tokens, float64, so that parts add up; [experts] or [experts, neurons]."""

    count: Floats
    """Tokens that picked the expert."""
    load: Floats
    """Sum of r^2, the squared router weights."""
    square: Floats
    """Sum of h^2 over those tokens."""
    weighted: Floats
    """Sum of r^2 h^2."""
    aligned: Floats
    """Sum of (h w2'g)^2: what the neuron's output does to the log-probability, token by token; not a number without gradients."""
    tried: Floats
    """Tokens of the sample, one number an expert."""
    tried_square: Floats
    """Sum of h^2 over the sample."""
    norm: Floats
    """||w2||^2 of each neuron's output weights."""
    informed: Floats
    """w2' diag(E[g^2]) w2 of each neuron; not a number where no gradients were taken."""
    fisher: Floats
    """E[g^2] of each output channel, [hidden]; likewise."""

    def tables(self) -> dict[str, Floats]:
        """Return the fields by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


def measured(
    checkpoint: Checkpoint, layer: int, routed: Routed, sample: torch.Tensor | None = None
) -> Moments:
    """Measure one layer, expert by expert; `sample` replaces the tokens on which every expert is tried."""
    experts, _, hidden = checkpoint.shape(layer)
    _fits(layer, routed, experts, hidden)
    tried = _spread(routed.x) if sample is None else sample
    fisher = routed.fisher
    squares = np.full(hidden, np.nan) if fisher is None else fisher
    chosen = range(0, experts, checkpoint.every)
    rows = [_expert(checkpoint, layer, expert, routed, tried, squares) for expert in chosen]
    columns = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return Moments(**columns, tried=np.full(len(rows), float(len(tried))), fisher=squares)


def needed_bytes(checkpoint: Checkpoint, layer: int, tokens: int) -> int:
    """Return the memory that `measured` takes for a layer beyond the libraries: x, one expert in float32, a chunk of rows, the tables."""
    experts, neurons, hidden = checkpoint.shape(layer)
    recorded = 2 * 2 * tokens * hidden * 2  # x and gradient, once as the batches hold them, once joined
    expert = 3 * neurons * hidden * 4 * 3  # codes, numbers and what dequantising makes on its way
    chunk = min(CHUNK, max(tokens, SAMPLE)) * (hidden * 4 + neurons * (5 * 4 + 2 * 8))
    return recorded + expert + chunk + 7 * experts * neurons * 8 + KEPT


def guessed(checkpoint: Checkpoint, layer: int, seed: int = 0) -> Moments:
    """Guess a layer's moments from its weights alone, with Gaussian inputs scaled by the norm before the experts: no text was seen."""
    _, _, hidden = checkpoint.shape(layer)
    chance = torch.Generator().manual_seed(seed + layer)
    x = torch.randn(SAMPLE, hidden, generator=chance)
    scale = checkpoint.norm(layer)
    nothing = Routed(
        x=torch.empty(0, hidden), picks=torch.empty(0, 1, dtype=torch.int32), weights=torch.empty(0, 1)
    )
    return measured(checkpoint, layer, nothing, x if scale is None else x * scale)


def _expert(  # noqa: PLR0913, PLR0917 - one expert with all that is asked of it
    checkpoint: Checkpoint, layer: int, expert: int, routed: Routed, tried: torch.Tensor, fisher: Floats
) -> Mapping[str, Floats]:
    weights = checkpoint.expert(layer, expert)
    rows, slots = (routed.picks == expert).nonzero(as_tuple=True)
    squared = routed.weights[rows, slots].double().square()
    square, weighted, aligned = (torch.zeros(len(weights.gate), dtype=torch.float64) for _ in range(3))
    for begin in range(0, len(rows), CHUNK):
        part = slice(begin, begin + CHUNK)
        h = weights.hidden(routed.x[rows[part]])
        h_squared = h.cpu().double().square()
        square += h_squared.sum(0)
        weighted += squared[part] @ h_squared
        if routed.gradient is not None:
            g = routed.gradient[rows[part]].to(h.device, torch.float32)
            aligned += (h * (g @ weights.down)).cpu().double().square().sum(0)
    down = weights.down.cpu().double().square()
    return {
        "count": np.float64(len(rows)),
        "load": np.float64(squared.sum()),
        "square": square.numpy(),
        "weighted": weighted.numpy(),
        "aligned": aligned.numpy() if routed.gradient is not None else np.full(len(aligned), np.nan),
        "tried_square": weights.hidden(tried).cpu().double().square().sum(0).numpy(),
        "norm": down.sum(0).numpy(),
        "informed": fisher @ down.numpy(),
    }


def _spread(x: torch.Tensor) -> torch.Tensor:
    return x[torch.linspace(0, len(x) - 1, min(SAMPLE, len(x))).long()]


def _fits(layer: int, routed: Routed, experts: int, hidden: int) -> None:
    demand(
        routed.x.shape[1] == hidden,
        f"layer {layer}: hidden size of the recording",
        routed.x.shape[1],
        f"{hidden}, the checkpoint's",
        "record the model of this checkpoint",
    )
    most = int(routed.picks.max()) if routed.picks.numel() else 0
    demand(
        most < experts,
        f"layer {layer}: picks of the recording",
        most,
        f"below {experts}, the checkpoint's experts",
    )
