"""Allocation: bits for gate and up, and for down, of every layer, from what each rate was seen to cost, to a target for all weights. Pure.

cost(layer, part, K) = gain^2 of the layer x tokens that ask x proxy error at K, summed over its matrices, as the EXL3 checkpoint of DeepSeek-V4.1 Flash
was made (bot-lab-21/DeepSeek-V4.1-Flash-EXL3-DGX-Spark). All start at the fewest bits; the step that saves most for a bit is taken until none fits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sparkctl_vllm.refusal import demand

PARTS = {"gate_up": 2, "down": 1}
"""Parts that have a rate of their own, and how many matrices of one size each is."""
Rates = Mapping[int, Mapping[str, int]]
"""Layer to part to bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """What a layer costs at each rate: `proxy[part][bits]` the mean over experts, summed over the part's matrices."""

    gain: float
    """Gain squared: what one pick is worth, in nats where gradients were recorded; 1 where not, all layers alike."""
    tokens: float
    proxy: Mapping[str, Mapping[int, float]]

    def cost(self, part: str, bits: int) -> float:
        """Return gain^2 x tokens x proxy error."""
        return self.gain * self.tokens * self.proxy[part][bits]


def allocated(layers: Mapping[int, Priced], target: float, rates: Sequence[int]) -> Rates:
    """Return the rate of every layer and part: at most `target` bits a weight on average, all layers being of one size."""
    low, high = min(rates), max(rates)
    demand(low <= target <= high, "bits", target, f"{low} to {high}, the rates that are used")
    chosen = {layer: dict.fromkeys(PARTS, low) for layer in layers}
    steps = sorted(rates)
    room = (target - low) * sum(PARTS.values()) * len(layers)
    while found := _best(layers, chosen, steps, room):
        layer, part, bits = found
        room -= (bits - chosen[layer][part]) * PARTS[part]
        chosen[layer][part] = bits
    return chosen


def weighted(layers: Mapping[int, Priced], factors: Sequence[float]) -> Mapping[int, Priced]:
    """Return the layers with their gains times a factor each: what a layer's damage was measured to be, over what gradients tell."""
    demand(
        len(factors) == len(layers) and min(factors) > 0,
        "factors",
        list(factors),
        f"{len(layers)} numbers above 0, one a layer",
    )
    return {
        layer: replace(one, gain=one.gain * factor)
        for (layer, one), factor in zip(sorted(layers.items()), factors, strict=True)
    }


def average(rates: Rates) -> float:
    """Return bits a weight over all layers."""
    total = sum(PARTS[part] * bits for one in rates.values() for part, bits in one.items())
    return total / (sum(PARTS.values()) * len(rates))


def predicted(layers: Mapping[int, Priced], rates: Rates) -> float:
    """Return what all layers cost at these rates."""
    return sum(layers[layer].cost(part, bits) for layer, one in rates.items() for part, bits in one.items())


def _best(
    layers: Mapping[int, Priced], chosen: Rates, steps: Sequence[int], room: float
) -> tuple[int, str, int] | None:
    """Return the step that saves most for a bit among those that fit; ties go to the earlier layer."""
    best, answer = 0.0, None
    for layer, one in layers.items():
        for part, size in PARTS.items():
            now = chosen[layer][part]
            for bits in (bits for bits in steps if bits > now and (bits - now) * size <= room + 1e-9):
                saved = (one.cost(part, now) - one.cost(part, bits)) / ((bits - now) * size)
                if saved > best:
                    best, answer = saved, (layer, part, bits)
    return answer
