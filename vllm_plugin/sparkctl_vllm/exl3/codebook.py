"""Codebooks of EXL3: a 16-bit state to a float16 number, by integer arithmetic modulo 2^32 (exllamav3: exllamav3_ext/quant/codebook.cuh)."""

from functools import cache

import torch

from sparkctl_vllm.refusal import demand

MARKERS = {"mcg": 0xCBAC1FED, "mul1": 0x83DCD12D}
"""The int32 tensor beside the trellis that names the codebook; none means 3inst."""
NAMES = ("3inst", "mcg", "mul1")
STATES = 1 << 16
_WHOLE = 0xFFFFFFFF


@cache
def table(name: str) -> torch.Tensor:
    """Return the numbers of all 65536 states, float16."""
    demand(name in NAMES, "codebook", name, ", ".join(NAMES))
    states = torch.arange(STATES, dtype=torch.int64)
    if name == "mul1":
        return _byte_sums(states * MARKERS["mul1"] & _WHOLE)
    product = states * 89_226_354 + 64_248_484 if name == "3inst" else states * MARKERS["mcg"]
    return _two_halves((product & _WHOLE & 0x8FFF8FFF) ^ 0x3B603B60)


def named(markers: dict[str, int]) -> str:
    """Return the codebook that the markers beside a trellis name; the number is a check, its presence selects."""
    demand(len(markers) < 2, "codebook markers", sorted(markers), "one of mcg and mul1, or neither")
    for name, number in markers.items():
        demand(name in MARKERS, "codebook marker", name, ", ".join(MARKERS))
        wanted = MARKERS[name]
        demand(
            number & _WHOLE == wanted,
            f"{name} marker",
            hex(number & _WHOLE),
            hex(wanted),
            "written by a release with free multipliers",
        )
        return name
    return "3inst"


def _byte_sums(words: torch.Tensor) -> torch.Tensor:
    # round_fp16((1774 t - 905216) * 2^-18): the integer is below 2^24 and exact in float32, so one rounding is left.
    total = sum((words >> shift) & 255 for shift in (0, 8, 16, 24))
    return ((1774 * total - 905_216).to(torch.float32) * 2.0**-18).to(torch.float16)


def _two_halves(words: torch.Tensor) -> torch.Tensor:
    low, high = (((words >> shift) & 0xFFFF).to(torch.int32) for shift in (0, 16))
    halves = [
        torch.where(half < 1 << 15, half, half - (1 << 16)).to(torch.int16).view(torch.float16)
        for half in (low, high)
    ]
    return (halves[0].float() + halves[1].float()).to(torch.float16)
