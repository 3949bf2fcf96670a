"""What a layer reads in a step and what that costs each row, in one Triton launch: `serving.budget` says it in torch, this is it bit for bit.

One program an expert. Only integers are added, so neither the order of programs nor the device changes a bit, and the ranks agree.
"""

import triton
import triton.language as tl

from sparkctl_vllm.triton_kernels import squared


@triton.jit
def planned(
    picks, weights, rows, floors, table, price, tails, least, tiles, before, depths, cost, read,
    count, most_rows, experts, width, most_tiles, rank,
    TOP_K: tl.constexpr, PICKS: tl.constexpr, RANKS: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """One expert: its depth on this rank, its share of each row's cost, and its tiles in the sums of what is read and of whole reads.

    picks, weights: [count, TOP_K]; rows: how many of them carry load; floors: [RANKS, most_rows], least depth of what a row picks; table:
    [experts, width] importances, each rank's tiles from `before`; price: by `rows`; tails: int64 [RANKS, experts, most_tiles + 1]; least and
    tiles: [RANKS]. Written: depths [experts]; added to: cost [count], read [2, RANKS], int64.
    """
    expert = tl.program_id(0)
    place = tl.arange(0, PICKS)
    row = place // TOP_K
    live = tl.load(rows)
    inside = (place < count * TOP_K) & (row < live)
    mine = inside & (tl.load(picks + place, mask=inside, other=-1) == expert)
    square = squared(tl.load(weights + place, mask=mine, other=0.0))
    load = tl.sum(tl.where(mine, square, 0), axis=0).to(tl.float32)
    picked = tl.sum(mine.to(tl.int32), axis=0) > 0
    bar = tl.load(price + live)
    tile = tl.arange(0, TILES)
    skipped = tl.full((), 0, tl.int64)
    for of_rank in tl.static_range(RANKS):
        whole = tl.load(tiles + of_rank)
        there = tile < whole
        known = tl.load(table + expert * width + tl.load(before + of_rank) + tile, mask=there, other=-1.0)
        deep = tl.sum(((load * known > bar) & there).to(tl.int32), axis=0)
        asked = tl.max(tl.load(floors + of_rank * most_rows + row, mask=mine, other=0), axis=0)
        deep = tl.minimum(tl.maximum(tl.maximum(deep, tl.load(least + of_rank)), asked), whole)
        deep = tl.where(picked, deep, 0)
        skipped += tl.load(tails + (of_rank * experts + expert) * (most_tiles + 1) + deep)
        tl.store(depths + expert, deep, mask=of_rank == rank)
        tl.atomic_add(read + of_rank, deep.to(tl.int64), mask=picked)
        tl.atomic_add(read + RANKS + of_rank, whole.to(tl.int64), mask=picked)
    units = (square.to(tl.int64) * skipped + 1048575) >> 20
    tl.atomic_add(cost + row, units, mask=mine)
