"""Cost: what leaving out one neuron costs on average, and how much a layer's output matters to the predictions. Pure.

The drop cost of a neuron is d = E[h^2] ||w2||^2, its share of the expert's expected output energy. In nats it weighs one half of the Fisher
information of the layer's output: KL = 1/2 sum r^2 E[h^2] w2' F w2 over what is dropped. F is taken as one number a layer (its mean
diagonal), as its diagonal, or neuron by neuron along what it writes: 1/2 E[(h w2'g)^2], token by token, with g the gradient of a sampled label.
"""

from dataclasses import dataclass

import numpy as np

from sparkctl_vllm.calibration.moments import Floats, Moments
from sparkctl_vllm.damage import MOST_NATS

PRIOR_TOKENS = 64.0
"""Tokens that the prior of a neuron weighs. Ours: of 0, 4, 16, 64 and 256 the least error or next to it on the mini model (docs/calibration.md)."""
LEAST_TOKENS = 8
"""An expert that was asked less often is read whole. Ours: below that its own activations say next to nothing."""
UNCUT = MOST_NATS / 2
"""What a whole expert that is not to be cut is said to be worth, in nats, spread over its tiles. Ours: half of what an account can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One layer's costs, [experts, neurons]: `energy` is the drop cost, the others the same in nats at router weight 1."""

    energy: Floats
    scalar: Floats
    diagonal: Floats
    aligned: Floats
    rare: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    """Experts that were hardly ever asked, [experts]."""


def cost(moments: Moments, prior_tokens: float = PRIOR_TOKENS, least_tokens: int = LEAST_TOKENS) -> Cost:
    """Return a layer's costs."""
    squares = shrunk(moments, prior_tokens)
    return Cost(
        energy=squares * moments.norm,
        scalar=squares * moments.norm * moments.fisher.mean() / 2,
        diagonal=squares * moments.informed / 2,
        aligned=_aligned(moments, squares, prior_tokens),
        rare=moments.count < least_tokens,
    )


def shrunk(moments: Moments, prior_tokens: float = PRIOR_TOKENS) -> Floats:
    """Return E[h^2], [experts, neurons], drawn towards what the neuron does on any token of the layer.

    The prior is E[h^2] over the sample of all tokens, scaled by one number a layer so that it has the energy of routed tokens: an expert is
    picked because it has something to say, so its own tokens move it more. It counts as `prior_tokens` observations.
    """
    prior = moments.tried_square / moments.tried[:, None]
    expected = (moments.count[:, None] * prior).sum()
    scale = moments.square.sum() / expected if expected > 0 else 1.0
    return (moments.square + prior_tokens * scale * prior) / (moments.count[:, None] + prior_tokens)


def _aligned(moments: Moments, squares: Floats, prior_tokens: float) -> Floats:
    """Return 1/2 E[(h w2'g)^2], drawn towards the diagonal's answer, scaled to the layer's sum, as `prior_tokens` observations."""
    prior = squares * moments.informed
    expected = (moments.count[:, None] * prior).sum()
    scale = moments.aligned.sum() / expected if expected > 0 else 1.0
    pulled = moments.aligned + prior_tokens * scale * prior
    return pulled / (moments.count[:, None] + prior_tokens) / 2
