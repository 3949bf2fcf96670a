"""The trellis of an EXL3 tile: a ring of bits to 256 states of 16 bits each, and back (exllamav3: exllamav3_ext/quant/pack.cu, exl3_dq.cuh).

A tile is stored as int16 words whose pairs form 32-bit little-endian words, read most significant bit first. Position i adds K bits (at a
half rate A and A+1 bits in turn); its state is the 16 ring bits that end there, around the ring, so every bit pattern is a tile.
"""

from functools import cache

import torch

from sparkctl_vllm.refusal import demand

SIDE = 16
CODES = SIDE * SIDE
HALF_RATES = (1.5, 2.5, 3.5)
RATES = (1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8)


def rate_of(words: int) -> float:
    """Return bits a weight from the int16 words of a tile."""
    found = words / SIDE
    demand(found in RATES, "words of a tile", words, ", ".join(str(int(16 * one)) for one in RATES))
    return found


@cache
def ends(rate: float) -> torch.Tensor:
    """Return for each position how many ring bits are read after it."""
    demand(rate in RATES, "rate", rate, ", ".join(map(str, RATES)))
    steps = torch.full((CODES,), int(rate), dtype=torch.int64)
    if rate in HALF_RATES:
        steps[1::2] += 1
    return steps.cumsum(0)


def states(words: torch.Tensor) -> torch.Tensor:
    """Return the states of tiles: int16 [..., words] to int64 [..., 256]."""
    bits = _bits(words)
    last = ends(rate_of(words.shape[-1]))
    window = (last[:, None] - 16 + torch.arange(16)) % bits.shape[-1]
    weights = 1 << torch.arange(15, -1, -1)
    return (bits[..., window] * weights).sum(-1)


def words(states_: torch.Tensor, rate: float) -> torch.Tensor:
    """Return the words of tiles from their states: the low bits of each state in order. The inverse of `states`."""
    last = ends(rate)
    size = int(last[-1])
    position = torch.searchsorted(last, torch.arange(size), right=True)
    shift = last[position] - 1 - torch.arange(size)
    packed = _packed((states_[..., position] >> shift) & 1)
    again = states(packed)
    demand(
        torch.equal(again, states_),
        "states",
        "no walk around the ring",
        "states of which each continues the one before",
    )
    return packed


def tile(numbers: torch.Tensor) -> torch.Tensor:
    """Return numbers in trellis order [..., 256] as tiles [..., 16, 16], rows on the input side."""
    return numbers[..., places().argsort()].unflatten(-1, (SIDE, SIDE))


@cache
def places() -> torch.Tensor:
    """Return for each position its place 16 * row + column: the B operand order of a 16x8x16 tensor-core product, two halves side by side."""
    lane, j = torch.arange(CODES) // 8, torch.arange(CODES) % 8
    row = 2 * (lane % 4) + j % 2 + 8 * ((j // 2) % 2)
    return SIDE * row + lane // 4 + 8 * (j // 4)


def _bits(words_: torch.Tensor) -> torch.Tensor:
    stream = words_.to(torch.int64).unflatten(-1, (-1, 2)).flip(-1).flatten(-2) & 0xFFFF
    return (stream[..., None] >> torch.arange(15, -1, -1) & 1).flatten(-2)


def _packed(bits: torch.Tensor) -> torch.Tensor:
    stream = (bits.unflatten(-1, (-1, 16)) << torch.arange(15, -1, -1)).sum(-1)
    swapped = stream.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
    return torch.where(swapped < 1 << 15, swapped, swapped - (1 << 16)).to(torch.int16)
