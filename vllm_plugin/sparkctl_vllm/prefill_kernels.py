"""The bodies of a prefill's read, in Triton: gate/up, down, and the sum over a row's picks, over packs as decode reads them. Called by prefill.

Weights are the first operand of every product and rows the second, so that a block may hold as few as 16 rows of an expert. One program takes
64 neurons, or 128 outputs, of one block of rows and decodes its weights once; beyond the last block it ends at once. Every number has one
writer and every sum one order, so the same rows give the same bits.

`FORMAT`: 0 for `tiles.fragments`, 1 for `tiles.rows` in MXFP4, 2 for bf16. How weights become operands: weight_kernels.
"""

import triton
import triton.language as tl

from sparkctl_vllm.weight_kernels import (
    LESS,
    byte_numbers,
    down_at,
    fragment_numbers,
    gate_up_weights,
    highest,
    merged,
    product,
)


@triton.jit
def members(place, expert, edges, ends, order, BLOCK: tl.constexpr):
    """The slots of a block of one expert's rows in the order of experts, which of them are live, and their picks; the dead repeat the first."""
    first, last = tl.load(edges + expert), tl.load(edges + expert + 1)
    before = tl.load(ends + expert) - (last - first + BLOCK - 1) // BLOCK
    begin = first + (place - before) * BLOCK
    slot = begin + tl.arange(0, BLOCK)
    live = slot < last
    slot = tl.where(live, slot, begin)
    return slot, live, tl.load(order + slot).to(tl.int32)


@triton.jit
def position(FORMAT: tl.constexpr):
    """Where each of 64 neurons stands in h; likewise the channels in x."""
    k = tl.arange(0, 64)
    if FORMAT == 0:  # k = 32 group + 8 q + 4 half + 2 pair + parity
        k = k // 32 * 32 + k // 4 % 2 * 16 + k // 2 % 2 * 8 + k // 8 % 4 * 2 + k % 2
    return k


@triton.jit
def gate_up(
    words, pack, x, weights, whose, edges, ends, order, h,
    experts, tiles, limit, prescale,
    TOP_K: tl.constexpr, HIDDEN: tl.constexpr, BLOCK: tl.constexpr, FORMAT: tl.constexpr, OPERAND: tl.constexpr,
):  # fmt: skip
    """One tile of one block: h = silu(min(gate, limit)) * clamp(up) * router weight * prescale, 16 bits a number, [slots, 64 * tiles]."""
    tile, place = tl.program_id(0), tl.program_id(1)
    expert = tl.load(whose + place)
    if expert < experts:
        slot, live, pick = members(place, expert, edges, ends, order, BLOCK)
        size: tl.constexpr = HIDDEN * (192 if FORMAT == 2 else 102)  # numbers of a tile: bf16, or bytes
        base = (expert * tiles + tile).to(tl.int64) * size
        gate, up = tl.zeros((64, BLOCK), tl.float32), tl.zeros((64, BLOCK), tl.float32)
        row_at = x + (pick // TOP_K)[:, None] * HIDDEN + tl.arange(0, 64)[None, :]
        for block in range(HIDDEN // 64):
            rows = tl.trans(tl.load(row_at + block * 64).to(OPERAND))
            mine, theirs = gate_up_weights(words, pack, base, block, HIDDEN, FORMAT)
            gate = product(mine.to(OPERAND), rows, gate)
            up = product(theirs.to(OPERAND), rows, up)
        if FORMAT != 2:
            gate, up = gate * LESS, up * LESS
        low = tl.minimum(gate, limit)
        wide = tl.minimum(tl.maximum(up, -limit), limit)
        weight = tl.load(weights + pick)
        out = low / (1.0 + tl.exp(-low)) * wide * weight[None, :] * prescale
        to = h + slot[None, :] * (tiles * 64) + tile * 64 + position(FORMAT)[:, None]
        tl.store(to, out.to(h.dtype.element_ty), mask=live[None, :])


@triton.jit
def down_of_fragments(words, h_at, base, output, tiles, low, high, HIDDEN: tl.constexpr):
    """Products of a block's h with 128 outputs, [64, BLOCK] each: eights in turns, low and high."""
    step: tl.constexpr = HIDDEN * 102 // 4
    at, scale_at = down_at(words, base, output, 0, HIDDEN)
    odd_at, odd_scale_at = down_at(words, base, output, 1, HIDDEN)
    a, b = tl.zeros((32, 1), tl.int32), tl.zeros((32, 1), tl.int32)
    c, d = a, b
    for tile in range(tiles):
        a, b = highest(a, b, tl.load(scale_at + tile * step))
        c, d = highest(c, d, tl.load(odd_scale_at + tile * step))
    for tile in range(tiles):
        rows = tl.trans(tl.load(h_at + tile * 64))
        far = tile * step
        mine, theirs = fragment_numbers(
            at + far, odd_at + far, scale_at + far, odd_scale_at + far, a, b, c, d, NARROW=True
        )
        low, high = product(mine, rows, low), product(theirs, rows, high)
    low = low * (merged(a, c) << 23).to(tl.float32, bitcast=True)
    return low, high * (merged(b, d) << 23).to(tl.float32, bitcast=True)


@triton.jit
def down_of_rows(pack, h_at, base, output, tiles, total, HIDDEN: tl.constexpr, BF16: tl.constexpr):
    """Products of a block's h with 64 outputs, [64, BLOCK]."""
    output += tl.arange(0, 64)[:, None]
    most = tl.zeros((64, 1), tl.int32)
    if BF16:
        at = pack + base + 128 * HIDDEN + output * 64 + tl.arange(0, 64)[None, :]
        for tile in range(tiles):
            rows = tl.trans(tl.load(h_at + tile * 64).to(tl.float32))
            mine = tl.load(at + tile * (192 * HIDDEN)).to(tl.float32)
            total = product(mine, rows, total)  # TF32 holds bf16 and h without loss
    else:
        at, scale_at = pack + base + 64 * HIDDEN + output * 32, pack + base + 100 * HIDDEN + output * 2
        for tile in range(tiles):
            scale = scale_at + tile * (102 * HIDDEN)
            most = tl.maximum(most, tl.maximum(tl.load(scale), tl.load(scale + 1)).to(tl.int32))
        for tile in range(tiles):
            rows = tl.trans(tl.load(h_at + tile * 64))
            far = tile * (102 * HIDDEN)
            total = product(byte_numbers(at + far, scale_at + far, most, NARROW=True), rows, total)
        total = total * (most << 23).to(tl.float32, bitcast=True)
    return total


@triton.jit
def down(
    words, pack, h, whose, edges, ends, order, parts,
    experts, tiles, prescale, begin,
    HIDDEN: tl.constexpr, SLAB: tl.constexpr, BLOCK: tl.constexpr, FORMAT: tl.constexpr,
):  # fmt: skip
    """128 outputs of one block over all tiles: parts[pick, outputs from `begin` on], float32."""
    output, place = begin + tl.program_id(0) * 128, tl.program_id(1)
    expert = tl.load(whose + place)
    if expert < experts:
        slot, live, pick = members(place, expert, edges, ends, order, BLOCK)
        base = (expert * tiles).to(tl.int64) * (HIDDEN * (192 if FORMAT == 2 else 102))
        low, high = tl.zeros((64, BLOCK), tl.float32), tl.zeros((64, BLOCK), tl.float32)
        h_at = h + slot[:, None] * (tiles * 64) + tl.arange(0, 64)[None, :]
        row = tl.arange(0, 64)
        if FORMAT == 0:
            low, high = down_of_fragments(words, h_at, base, output, tiles, low, high, HIDDEN)
            at, apart = row // 8 * 16 + row % 8, 8
        else:
            low = down_of_rows(pack, h_at, base, output, tiles, low, HIDDEN, FORMAT == 2)
            high = down_of_rows(pack, h_at, base, output + 64, tiles, high, HIDDEN, FORMAT == 2)
            at, apart = row, 64
        to = parts + pick[None, :] * SLAB + (output - begin) + at[:, None]
        tl.store(to, low / prescale, mask=live[None, :])
        tl.store(to + apart, high / prescale, mask=live[None, :])


@triton.jit
def summed(
    picks, parts, out, experts, begin,
    TOP_K: tl.constexpr, HIDDEN: tl.constexpr, SLAB: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """One row and some outputs from `begin` on: the sum over the row's picks in their order; another rank's experts add nothing."""
    row, near = tl.program_id(0), tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    width = tl.minimum(HIDDEN - begin, SLAB)
    total = tl.zeros((WIDTH,), tl.float32)
    for slot in tl.static_range(TOP_K):
        pick = row * TOP_K + slot
        expert = tl.load(picks + pick)
        mine = tl.where((expert >= 0) & (expert < experts), width, 0)
        total += tl.load(parts + pick * SLAB + near, mask=near < mine, other=0.0)
    tl.store(out + row * HIDDEN + begin + near, total.to(out.dtype.element_ty), mask=near < width)
