"""One expert on the roofline: its bytes and FLOPs, its intensity at so many tokens, and the tokens at which arithmetic takes over. Pure.

Formulas of "Why Decode Wants 64 GPUs: Tokens per Expert and the MoE Roofline" (part 1 of a series on DeepSeek's serving); bytes and
FLOPs are whole numbers a visit, bandwidth is in bytes and arithmetic in FLOPs a second.
"""

from dataclasses import dataclass

from launcher.capacity.preset import Experts, Hardware


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """Two ceilings: FLOPs a second and bytes a second."""

    flop_s: float
    bytes_s: float

    @property
    def ridge(self) -> float:
        """FLOPs a byte at which both take as long."""
        return self.flop_s / self.bytes_s

    def seconds(self, flop: float, moved: float) -> float:
        """Return the time of work whose traffic and arithmetic overlap: the longer of the two."""
        return max(flop / self.flop_s, moved / self.bytes_s)


def roof(hardware: Hardware, experts: Experts, bandwidth: str | None = None) -> Roof:
    """Return the roof of a GPU for these experts' arithmetic; `bandwidth` names which of its figures, the first by default.

    Raises:
        KeyError: the GPU has no such figure.

    """
    name = bandwidth or next(iter(hardware.bandwidth_gb_s))
    return Roof(
        flop_s=hardware.tflop_s[experts.arithmetic] * 1e12, bytes_s=hardware.bandwidth_gb_s[name] * 1e9
    )


def parameters(experts: Experts) -> int:
    """Return the weights of one expert: gate, up and down."""
    return 3 * experts.hidden * experts.intermediate


def weight_bytes(experts: Experts, depth: float = 1.0) -> float:
    """Return the bytes of one expert; of a budget read the share `depth` of its neurons, all three matrices alike."""
    return parameters(experts) * experts.bits / 8 * depth


def flop(experts: Experts) -> int:
    """Return the FLOPs of one token in one expert."""
    return 2 * parameters(experts)


def visit_bytes(experts: Experts) -> int:
    """Return the bytes that one visit moves for the token itself: in, and the result out."""
    return (experts.visit_width or experts.hidden) * (experts.in_bytes + experts.out_bytes)


def intensity(experts: Experts, tokens: float, *, activations: bool = True) -> float:
    """Return FLOPs a byte at so many tokens a read; without activations as most estimates have it."""
    moved = weight_bytes(experts) + (tokens * visit_bytes(experts) if activations else 0)
    return tokens * flop(experts) / moved


def ceiling(experts: Experts) -> float:
    """Return the intensity that no number of tokens exceeds: that of the arithmetic on a token's own bytes."""
    return flop(experts) / visit_bytes(experts)


def crossing(experts: Experts, ridge: float, *, activations: bool = True) -> float:
    """Return the tokens an expert must process a read for its arithmetic to take as long as its traffic.

    Infinite where the ceiling lies below the ridge: then it is bound by memory at any number.
    """
    spare = flop(experts) - (ridge * visit_bytes(experts) if activations else 0)
    return ridge * weight_bytes(experts) / spare if spare > 0 else float("inf")
