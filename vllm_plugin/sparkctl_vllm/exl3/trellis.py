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
    ring = words.to(torch.int64).unflatten(-1, (-1, 2)) & 0xFFFF
    ring = ring[..., 1] << 16 | ring[..., 0]  # words of 32 bits; a window of 16 lies within two of them
    last = ends(rate_of(words.shape[-1])).to(words.device) - 1
    word = last // 32
    return (ring[..., word - 1] << 32 | ring[..., word]) >> (31 - last % 32) & 0xFFFF


def words(states_: torch.Tensor, rate: float) -> torch.Tensor:
    """Return the words of tiles from their states, the bits that each adds in order. The inverse of `states`."""
    last = ends(rate).to(states_.device)
    stop = torch.arange(16, int(last[-1]) + 1, 16, device=states_.device)
    place = torch.searchsorted(
        last, stop
    )  # the first state that holds a word's last bit; what it lacks is in the one before
    fresh = last - torch.nn.functional.pad(last[:-1], (1, 0))
    joined = states_[..., place - 1] << fresh[place] | states_[..., place] & (1 << fresh[place]) - 1
    stream = joined >> (last[place] - stop) & 0xFFFF
    swapped = stream.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
    packed = torch.where(swapped < 1 << 15, swapped, swapped - (1 << 16)).to(torch.int16)
    demand(
        torch.equal(states(packed), states_),
        "states",
        "no walk around the ring",
        "states of which each continues the one before",
    )
    return packed


def tile(numbers: torch.Tensor) -> torch.Tensor:
    """Return numbers in trellis order [..., 256] as tiles [..., 16, 16], rows on the input side."""
    return numbers[..., places().argsort().to(numbers.device)].unflatten(-1, (SIDE, SIDE))


@cache
def places() -> torch.Tensor:
    """Return for each position its place 16 * row + column: the B operand order of a 16x8x16 tensor-core product, two halves side by side."""
    lane, j = torch.arange(CODES) // 8, torch.arange(CODES) % 8
    row = 2 * (lane % 4) + j % 2 + 8 * ((j // 2) % 2)
    return SIDE * row + lane // 4 + 8 * (j // 4)
