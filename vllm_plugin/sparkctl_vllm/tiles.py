"""Tiles: an expert's weights in the order in which they are read, so that its first H tiles are one contiguous read.

A tile is 64 rows of gate and of up and 64 columns of down, in MXFP4 with all their scales, 102 bytes for each hidden channel. `rows` keeps
them as the checkpoint does, for Triton, and takes bf16 too; `fragments` puts MXFP4 where tensor cores want it.
"""

import torch

from sparkctl_vllm import mxfp4
from sparkctl_vllm.experts import TILE, Experts
from sparkctl_vllm.refusal import demand

WARPS = 16
"""Warps of a block of the CUDA kernel: each takes 1/16 of the hidden channels of gate and up."""
GROUPS = 64
"""Pieces that the outputs of down are read in."""


def bytes_of(hidden: int) -> int:
    """Return the bytes of one MXFP4 tile."""
    return hidden * 3 * TILE * 17 // 32


def rows(experts: Experts) -> torch.Tensor:
    """Return [experts, tiles, numbers of a tile].

    MXFP4, uint8: gate codes [64, hidden/2], up codes, down codes [hidden, 32], then their scales alike. bf16: gate [64, hidden], up,
    down [hidden, 64].
    """
    if all(one.scales is None for one in experts.matrices):
        down = experts.down.codes.unflatten(2, (-1, TILE)).transpose(1, 2)
        pairs = (one.codes.unflatten(1, (-1, TILE)) for one in (experts.gate, experts.up))
        return torch.cat([one.flatten(2) for one in (*pairs, down)], dim=2).contiguous()
    codes, scales = [], []
    for one in (experts.gate, experts.up):
        codes.append(one.codes.unflatten(1, (-1, TILE)).flatten(2))
        scales.append(_scales(one.scales).unflatten(1, (-1, TILE)).flatten(2))
    down, factor = experts.down.codes, _scales(experts.down.scales)
    codes.append(down.unflatten(2, (-1, TILE // 2)).transpose(1, 2).flatten(2))
    scales.append(factor.unflatten(2, (-1, TILE // mxfp4.GROUP)).transpose(1, 2).flatten(2))
    return torch.cat((*codes, *scales), dim=2).contiguous()


def fragments(experts: Experts) -> torch.Tensor:
    """Return uint8 [experts, tiles, bytes] for cuda/budget.cu: hidden a multiple of 1024.

    A tile is 192 pieces of one size, each read at a stretch: gate/up [8 units][16 warps], then down [64 groups of hidden/64 outputs]. A piece is
    its codes [blocks][32 lanes][4 words] and then their scales: of gate/up [8 rows][blocks of k64][4], of down [blocks of 16 outputs][8 rows][4].
    A unit is 8 neurons: rows g are gate, rows g+8 are up. Lane (g, q) holds k = 32 group + 8 q + 4 half + 0..3 of both rows in word
    2 group + half.
    """
    hidden = experts.gate.shape[2]
    demand(
        hidden % (WARPS * 64) == 0, "hidden size", hidden, f"a multiple of {WARPS * 64} for the CUDA kernel"
    )
    for one in experts.matrices:
        _scales(one.scales)
    count, tiles = experts.gate.shape[0], experts.tiles
    pairs = [mxfp4.unpacked(one.codes).view(count, tiles, 8, 8, hidden) for one in (experts.gate, experts.up)]
    # [experts, tiles, unit, row, hidden] twice -> words over [.., unit, k64, row, q, ...]
    upper = _words(pairs[0], pairs[1]).view(count, tiles, 8, WARPS, -1)
    up_scales = torch.stack(
        [_scales(one.scales).view(count, tiles, 8, 8, -1, 2) for one in (experts.gate, experts.up)], dim=-1
    )
    # [.., unit, warp, row, block, group, gate or up]
    up_scales = up_scales.unflatten(4, (WARPS, -1)).permute(0, 1, 2, 4, 3, 5, 6, 7)
    down = (
        mxfp4.unpacked(experts.down.codes)
        .view(count, hidden // 16, 2, 8, tiles, TILE)
        .permute(0, 4, 1, 2, 3, 5)
    )
    lower = _words(down[:, :, :, 0], down[:, :, :, 1])
    down_scales = (
        _scales(experts.down.scales).view(count, hidden // 16, 2, 8, tiles, 2).permute(0, 4, 1, 3, 5, 2)
    )
    pieces = (
        (upper.view(torch.uint8), up_scales, 8 * WARPS),
        (lower.view(torch.uint8), down_scales, GROUPS),
    )
    parts = [
        torch.cat([one.reshape(count, tiles, number, -1) for one in (codes, scales)], dim=3).flatten(2)
        for codes, scales, number in pieces
    ]
    return torch.cat(parts, dim=2).contiguous()


def _scales(scales: torch.Tensor | None) -> torch.Tensor:
    demand(scales is not None, "weights", "bf16", "MXFP4 in all three, or for Triton bf16 in all three")
    assert scales is not None  # noqa: S101 - what the line above demands, for the type checker
    return scales


def _words(low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    """Return int32 words [..., k64, row, q, 4] of codes [..., 8 rows, k] for rows g and rows g + 8 of fragments."""

    def split(codes: torch.Tensor) -> torch.Tensor:
        # k = 64 block + 32 group + 8 q + 4 half + 2 pair + parity
        parts = codes.unflatten(-1, (-1, 2, 4, 2, 2, 2))
        return parts.movedim(-6, -7)  # [..., block, row, group, q, half, pair, parity]

    a, b = split(low).int(), split(high).int()
    codes = (
        a[..., 0, :],
        b[..., 0, :],
        a[..., 1, :],
        b[..., 1, :],
    )  # registers 0 to 3, last dimension is parity
    halves = word_half(*codes)
    words = halves[..., 0] | (halves[..., 1] << 16)  # [..., block, row, group, q, half]
    return words.movedim(-2, -3).flatten(-2).contiguous()


def word_half(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    """Return the 16 bits from which `fragment` in cuda/budget.cu makes four codes (int32 each, sign in bit 3).

    With M = bits 15 and 11 to 9 of each half: a = w, b = w << 3, c = (w << 6) ^ (w << 1), d = (w << 9) ^ (w << 2), each masked by M.
    """
    sign = [one >> 3 for one in (a, b, c, d)]
    body = [one & 7 for one in (a, b, c, d)]
    bits = (body[0] << 9) | (body[1] << 6)
    bits = bits | ((body[2] ^ (bits >> 8 & 7)) << 3) | (body[3] ^ (bits >> 7 & 7))
    bits = bits | (sign[0] << 15) | (sign[1] << 12)
    return bits | ((sign[2] ^ (bits >> 9 & 1)) << 14) | ((sign[3] ^ (bits >> 6 & 1)) << 13)
