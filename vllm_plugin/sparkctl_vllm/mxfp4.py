"""MXFP4: four-bit numbers (e2m1) with one power of two for each 32 of them, as DeepSeek's experts are stored.

Codes are packed two a byte, the even column in the low nibble; a scale byte b means 2^(b-127). Code c: bit 3 is the sign, bits 2-0 give
0, 0.5, 1, 1.5, 2, 3, 4, 6.
"""

import torch

from sparkctl_vllm.refusal import demand

GROUP = 32
VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def unpacked(packed: torch.Tensor) -> torch.Tensor:
    """Return one code a byte: uint8 [..., n/2] to uint8 [..., n]."""
    return torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2)


def packed(codes: torch.Tensor) -> torch.Tensor:
    """Return two codes a byte: the inverse of `unpacked`."""
    return codes[..., ::2] | (codes[..., 1::2] << 4)


def dequantised(
    codes: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Return the numbers: packed codes uint8 [..., n/2] and scales uint8 [..., n/32] to [..., n], exact in float32 and float64."""
    demand(
        codes.dtype == torch.uint8 and scales.dtype == torch.uint8,
        "codes and scales",
        f"{codes.dtype}, {scales.dtype}",
        "uint8",
    )
    demand(
        scales.shape[-1] * GROUP == codes.shape[-1] * 2,
        "scales",
        scales.shape[-1],
        f"{codes.shape[-1] * 2 // GROUP}, one for 32 codes",
    )
    positive = torch.tensor(VALUES, dtype=dtype, device=codes.device)
    table = torch.cat((positive, -positive))
    numbers = table[unpacked(codes).long()]
    factor = torch.exp2(scales.to(dtype) - 127)
    return numbers * factor.repeat_interleave(GROUP, dim=-1)


def quantised(numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return packed codes and scales of [..., n]: the scale's exponent is that of the group's largest magnitude minus 2 (OCP MX), ties to even."""
    demand(numbers.shape[-1] % GROUP == 0, "last dimension", numbers.shape[-1], f"a multiple of {GROUP}")
    demand(bool(torch.isfinite(numbers).all()), "numbers", "NaN or infinite", "finite")
    groups = numbers.double().unflatten(-1, (-1, GROUP))
    largest = groups.abs().amax(-1, keepdim=True)
    exponent = torch.where(
        largest > 0, torch.floor(torch.log2(largest.clamp_min(2.0**-1000))) - 2, -127
    ).clamp(-127, 127)
    scaled = groups / torch.exp2(exponent)
    codes = _nearest(scaled.abs()) + 8 * (scaled < 0).to(torch.uint8)
    return packed(codes.flatten(-2)), (exponent.squeeze(-1) + 127).to(torch.uint8)


def _nearest(magnitudes: torch.Tensor) -> torch.Tensor:
    middles = torch.tensor(
        [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], dtype=magnitudes.dtype, device=magnitudes.device
    )
    # A tie goes to the even code: past a middle below an odd code only when strictly above it, below an even one already when equal.
    above = magnitudes.unsqueeze(-1) > middles
    tied = magnitudes.unsqueeze(-1) == middles
    to_even = torch.arange(1, 8, device=magnitudes.device) % 2 == 0
    return (above | (tied & to_even)).sum(-1).to(torch.uint8)
