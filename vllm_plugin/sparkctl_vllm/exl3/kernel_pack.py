"""EXL3 words in the order in which cuda/exl3.cu reads them: the bits of the checkpoint, no bit added and none decoded.

A piece is 64 inputs (four tiles) by 64 outputs (four tiles), 512 K bytes, read at a stretch: [K][32 lanes][4 words]. Lane (g, q) holds the
K words of positions 32 g to 32 g + 31 of the tile of inputs q, for each tile of outputs in turn.
"""

from dataclasses import dataclass

import torch

from sparkctl_vllm.exl3 import trellis
from sparkctl_vllm.exl3.kernel_experts import RATES, Exl3Experts
from sparkctl_vllm.exl3.matrix import BLOCK
from sparkctl_vllm.refusal import demand

STEP = 64
"""Inputs of a piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """The weights of a layer as the kernel reads them, of gate, up and down: the trellis in pieces, suh and svh as they are."""

    pieces: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    suh: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    svh: tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def packed(experts: Exl3Experts) -> Packed:
    """Return the weights in the kernel's order, as many bytes as before."""
    gate, up, down = experts.gate, experts.up, experts.down
    return Packed(
        pieces=(pieces(gate.trellis), pieces(up.trellis), pieces(down.trellis)),
        suh=(gate.suh.contiguous(), up.suh.contiguous(), down.suh.contiguous()),
        svh=(gate.svh.contiguous(), up.svh.contiguous(), down.svh.contiguous()),
    )


def pieces(words: torch.Tensor) -> torch.Tensor:
    """Return int32 [..., out/128, in/64, 2, K, 32, 4] of a trellis int16 [..., in/16, out/16, 16 K].

    The first d blocks of outputs (gate, up), or of each block of outputs the first 2 d steps (down), are a prefix of 128 d neurons.
    """
    rows, columns, width = words.shape[-3:]
    rate = trellis.rate_of(width)
    demand(rate in RATES, "rate", f"{rate:g} bits", ", ".join(map(str, RATES)) + " bits for the kernel")
    bits = int(rate)
    demand(
        rows % 8 == 0 and columns % 8 == 0,
        "trellis",
        tuple(words.shape),
        f"multiples of {BLOCK} inputs and outputs",
    )
    lead = words.shape[:-3]
    # Dimensions become step, q, block, half, m, g, word.
    split = words.contiguous().view(torch.int32).reshape(*lead, rows // 4, 4, columns // 8, 2, 4, 8, bits)
    first = len(lead)
    order = [first + one for one in (2, 0, 3, 4, 6, 5, 1)]  # block, step, half, m, word, g, q
    moved = split.permute(*range(first), *order)
    lanes = moved.reshape(*moved.shape[: first + 3], bits, 4, 32)
    return lanes.transpose(-1, -2).contiguous()


def positions() -> torch.Tensor:
    """Return int64 [32 lanes, 32, 2]: input within 64 and output within 16 of each position of a lane."""
    lane = torch.arange(32)
    place = trellis.places()[(lane // 4 * 32)[:, None] + torch.arange(32)]
    row, column = place // trellis.SIDE, place % trellis.SIDE
    return torch.stack(((lane % 4 * trellis.SIDE)[:, None] + row, column), dim=-1)
