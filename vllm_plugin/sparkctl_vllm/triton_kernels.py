"""The bodies of the portable path, in Triton: plan, gate/up, down, and the sum over a row's picks. Called by triton_experts.

One program an expert plans; one an expert and a tile, or an expert and 128 outputs, computes, and ends at once where nothing is to be read.
Every number has one writer and every sum one order, so the same step gives the same bits.
"""

import triton
import triton.language as tl


@triton.jit
def squared(weight):
    """Squared router weights in units of 2^-20, int32, at least 1: rounded to nearest, ties to even."""
    square = weight * weight * 1048576.0
    whole = square.to(tl.int32)
    rest = square - whole.to(tl.float32)
    return tl.maximum(whole + ((rest > 0.5) | ((rest == 0.5) & (whole % 2 == 1))).to(tl.int32), 1)


@triton.jit
def plan(
    picks, weights, valid, importance, price, given, loads, depths, counts, order,
    floor, tiles, rows, experts,
    TOP_K: tl.constexpr, PICKS: tl.constexpr, TILES: tl.constexpr, GIVEN: tl.constexpr,
):  # fmt: skip
    """One expert: its load (int32, units of 2^-20), depth, rows, and the picks that chose it in their order, order[expert, rows].

    GIVEN: depths are, and neither importance nor price is looked at.
    """
    expert = tl.program_id(0)
    place = tl.arange(0, PICKS)
    inside = (place < rows * TOP_K) & (place // TOP_K < tl.load(valid))
    mine = inside & (tl.load(picks + place, mask=inside, other=-1) == expert)
    whole = squared(tl.load(weights + place, mask=mine, other=0.0))
    load = tl.sum(tl.where(mine, whole, 0), axis=0)
    count = tl.sum(mine.to(tl.int32), axis=0)
    rank = tl.cumsum(mine.to(tl.int32), axis=0) - 1
    tl.store(order + expert * rows + rank, place, mask=mine)
    if GIVEN:
        deep = tl.minimum(tl.load(given + expert), tiles)
    else:
        tile = tl.arange(0, TILES)
        known = tl.load(importance + tile * experts + expert, mask=tile < tiles, other=-1.0)
        deep = tl.sum(((load.to(tl.float32) * known > tl.load(price)) & (tile < tiles)).to(tl.int32), axis=0)
    tl.store(loads + expert, load)
    tl.store(counts + expert, count)
    tl.store(depths + expert, tl.where(count > 0, tl.maximum(deep, floor), 0))


@triton.jit
def number(code):
    """An e2m1 code as float32: sign in bit 3, two bits of exponent, one of mantissa."""
    exponent = (code >> 1) & 3
    small = (code & 1).to(tl.float32) * 0.5
    bits = ((exponent + 126) << 23) | ((code & 1) << 22)
    value = tl.where(exponent == 0, small, bits.to(tl.float32, bitcast=True))
    return tl.where(code >= 8, -value, value)


@triton.jit
def power(scale):
    """A scale byte as float32, 2^(byte - 127); byte 0 is the smallest normal number's half, here 0."""
    return (scale.to(tl.int32) << 23).to(tl.float32, bitcast=True)


@triton.jit
def half_gate_up(
    x, live, row, code_at, scale_at,
    HIDDEN: tl.constexpr, BLOCK_K: tl.constexpr, OPERAND: tl.constexpr, BF16: tl.constexpr,
):  # fmt: skip
    """Products of 16 rows with 64 neurons of gate or up, float32 [16, 64]."""
    total = tl.zeros((16, 64), tl.float32)
    neuron = tl.arange(0, 64)
    for begin in range(0, HIDDEN, BLOCK_K):
        k = begin + tl.arange(0, BLOCK_K)
        a = tl.load(x + row[:, None] * HIDDEN + k[None, :], mask=live[:, None], other=0.0)
        if BF16:
            b = tl.load(code_at + neuron[None, :] * HIDDEN + k[:, None])
        else:
            byte = tl.load(code_at + neuron[None, :] * (HIDDEN // 2) + (k // 2)[:, None]).to(tl.int32)
            scale = tl.load(scale_at + neuron[None, :] * (HIDDEN // 32) + (k // 32)[:, None])
            b = number((byte >> ((k % 2) * 4)[:, None]) & 15) * power(scale)
        total = tl.dot(a.to(OPERAND), b.to(OPERAND), total)  # exact: e2m1 times a power of two is a bf16
    return total


@triton.jit
def gate_up(
    pack, x, weights, depths, counts, order, h,
    rows, tiles, limit, prescale,
    TOP_K: tl.constexpr, HIDDEN: tl.constexpr, BLOCK_K: tl.constexpr, OPERAND: tl.constexpr, BF16: tl.constexpr,
):  # fmt: skip
    """One expert and one tile: h = silu(min(gate, limit)) * clamp(up) * router weight * prescale, 16 bits a number, [picks, 64 * tiles]."""
    expert, tile = tl.program_id(0), tl.program_id(1)
    if tile < tl.load(depths + expert):
        count = tl.load(counts + expert)
        size: tl.constexpr = HIDDEN * (192 if BF16 else 102)  # numbers of a tile: bf16, or bytes
        up_at: tl.constexpr = HIDDEN * (64 if BF16 else 32)
        at = pack + (expert * tiles + tile).to(tl.int64) * size
        for begin in range(0, count, 16):
            slot = begin + tl.arange(0, 16)
            live = slot < count
            pick = tl.load(order + expert * rows + slot, mask=live, other=0)
            row = pick // TOP_K
            gate = half_gate_up(x, live, row, at, at + HIDDEN * 96, HIDDEN, BLOCK_K, OPERAND, BF16)
            up = half_gate_up(x, live, row, at + up_at, at + HIDDEN * 98, HIDDEN, BLOCK_K, OPERAND, BF16)
            low = tl.minimum(gate, limit)
            wide = tl.minimum(tl.maximum(up, -limit), limit)
            weight = tl.load(weights + pick, mask=live, other=0.0)
            out = low / (1.0 + tl.exp(-low)) * wide * weight[:, None] * prescale
            column = tile * 64 + tl.arange(0, 64)
            tl.store(
                h + pick[:, None] * (tiles * 64) + column[None, :],
                out.to(h.dtype.element_ty),
                mask=live[:, None],
            )


@triton.jit
def down(
    pack, h, depths, counts, order, parts,
    rows, tiles, prescale,
    HIDDEN: tl.constexpr, BLOCK_N: tl.constexpr, HALF: tl.constexpr, BF16: tl.constexpr,
):  # fmt: skip
    """One expert and some outputs: parts[pick, outputs], float32, over the read tiles in their order."""
    expert, column = tl.program_id(0), tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.load(depths + expert)
    if depth > 0:
        count = tl.load(counts + expert)
        inside = column < HIDDEN
        size: tl.constexpr = HIDDEN * (192 if BF16 else 102)  # numbers of a tile: bf16, or bytes
        for begin in range(0, count, 16):
            slot = begin + tl.arange(0, 16)
            live = slot < count
            pick = tl.load(order + expert * rows + slot, mask=live, other=0)
            total = tl.zeros((16, BLOCK_N), tl.float32)
            for group in range(depth * 2):
                at = pack + (expert * tiles + group // 2).to(tl.int64) * size
                k = tl.arange(0, 32)
                near = (group % 2) * 32 + k
                a = tl.load(
                    h + pick[:, None] * (tiles * 64) + (group * 32 + k)[None, :],
                    mask=live[:, None],
                    other=0.0,
                )
                if BF16:
                    b = tl.load(
                        at + HIDDEN * 128 + column[None, :] * 64 + near[:, None],
                        mask=inside[None, :],
                        other=0.0,
                    )
                    total = tl.dot(a.to(tl.float32), b.to(tl.float32), total)  # TF32 holds both without loss
                else:
                    byte = tl.load(
                        at + HIDDEN * 64 + column[None, :] * 32 + (near // 2)[:, None],
                        mask=inside[None, :],
                        other=0,
                    ).to(tl.int32)
                    scale = tl.load(at + HIDDEN * 100 + column * 2 + group % 2, mask=inside, other=0)
                    b = number((byte >> ((k % 2) * 4)[:, None]) & 15).to(HALF)
                    total += tl.dot(a.to(HALF), b) * power(scale)[None, :]
            tl.store(
                parts + pick[:, None] * HIDDEN + column[None, :],
                total / prescale,
                mask=live[:, None] & inside[None, :],
            )


@triton.jit
def summed(
    picks, valid, parts, out, experts, TOP_K: tl.constexpr, HIDDEN: tl.constexpr, BLOCK_N: tl.constexpr
):
    """One row and some outputs: the sum over the row's picks in their order; 0 for padding and for another rank's experts."""
    row, column = tl.program_id(0), tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = column < HIDDEN
    total = tl.zeros((BLOCK_N,), tl.float32)
    for slot in range(TOP_K):
        pick = row * TOP_K + slot
        expert = tl.load(picks + pick)
        width = tl.where((row < tl.load(valid)) & (expert >= 0) & (expert < experts), HIDDEN, 0)
        total += tl.load(parts + pick * HIDDEN + column, mask=column < width, other=0.0)
    tl.store(out + row * HIDDEN + column, total, mask=inside)
