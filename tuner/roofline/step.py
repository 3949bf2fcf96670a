"""Step: the time that routed experts take of a decode step on one GPU, and the static rest. Pure.

A layer takes the longer of its traffic and its arithmetic; layers follow each other. Everything else in a step, attention, dense
layers, exchanges, sampling, is one number that does not follow from shapes: it is fitted to one measured step.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from launcher.capacity.preset import Experts
from tuner.roofline import expert
from tuner.roofline.expert import Roof


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What the routed experts of one layer cost one GPU: bytes of weights and of tokens, FLOPs."""

    weights: float
    activations: float
    flop: float

    @property
    def moved(self) -> float:
        """All bytes."""
        return self.weights + self.activations


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """`count` layers alike."""

    layer: Layer
    count: int


def parallel(experts: Experts, tokens_per_gpu: float, held: float) -> Layer:
    """Return a layer of an expert parallel group: a GPU reads the `held` experts that it holds, and serves its own tokens' visits."""
    visits = tokens_per_gpu * experts.top_k
    return Layer(
        weights=held * expert.weight_bytes(experts),
        activations=visits * expert.visit_bytes(experts),
        flop=visits * expert.flop(experts),
    )


def sliced(experts: Experts, tokens: float, distinct: float, share: float, depth: float = 1.0) -> Layer:
    """Return a layer under tensor parallelism: every GPU reads its `share` of each distinct expert, for all tokens.

    `depth` is the share of an expert's neurons that a budget read takes.
    """
    visits = tokens * experts.top_k
    return Layer(
        weights=distinct * expert.weight_bytes(experts, depth) * share,
        activations=visits * expert.visit_bytes(experts),
        flop=visits * expert.flop(experts) * share * depth,
    )


def weights(stacks: Sequence[Stack]) -> float:
    """Return the bytes of weights that a step reads."""
    return sum(stack.count * stack.layer.weights for stack in stacks)


def seconds(stacks: Sequence[Stack], roof: Roof, *, overlap: bool = True) -> float:
    """Return the time of a step's experts; without overlap traffic and arithmetic are added."""
    return sum(stack.count * _seconds(stack.layer, roof, overlap=overlap) for stack in stacks)


def static(measured_s: float, stacks: Sequence[Stack], roof: Roof) -> float:
    """Return the rest of a measured step: fitted, never negative."""
    return max(0.0, measured_s - seconds(stacks, roof))


def _seconds(layer: Layer, roof: Roof, *, overlap: bool) -> float:
    if overlap:
        return roof.seconds(layer.flop, layer.moved)
    return layer.flop / roof.flop_s + layer.moved / roof.bytes_s
