"""The bodies of the GPU path, in Triton: row ids, gather of resident rows, and placing of rows that were read. Called by device_lookup."""

import triton
import triton.language as tl


@triton.jit
def row_ids(
    flat, at, start, primes, offsets, multipliers, rows, first, begin, pad,
    COLUMNS: tl.constexpr, WIDTH: tl.constexpr, HEADS: tl.constexpr, ORDER: tl.constexpr,
):  # fmt: skip
    """One token: the rank's COLUMNS columns from `first` on, counted from the rank's first row `begin`; rows int64 [tokens, COLUMNS]."""
    token = tl.program_id(0)
    here = tl.load(at + token)
    earliest = tl.load(start + token)
    own = tl.arange(0, WIDTH)
    inside = own < COLUMNS
    column = first + own
    prime = tl.load(primes + column, mask=inside, other=1)
    offset = tl.load(offsets + column, mask=inside, other=0)
    mixed = tl.zeros((WIDTH,), tl.int64)
    result = tl.zeros((WIDTH,), tl.int64)
    blocked = here < earliest
    for back in tl.static_range(ORDER):
        blocked = blocked | (here - back < earliest)
        seen = tl.load(flat + here - back, mask=blocked == 0, other=-1)
        blocked = blocked | (seen == -1)
        mixed ^= tl.where(blocked, pad, seen) * tl.load(multipliers + back)
        result = tl.where(column // HEADS == back - 1, offset + mixed % prime, result)
    tl.store(rows + token * COLUMNS + own, result - begin, mask=inside)


@triton.jit
def signed(size, negative):
    """A number of no sign as float32, or its negative; by its bits, for some releases of Triton subtract from 0 and lose the sign of 0."""
    return (size.to(tl.int32, bitcast=True) | negative << 31).to(tl.float32, bitcast=True)


@triton.jit
def e4m3(code):
    """A float8 e4m3fn code as float32: bias 7, no infinities, 0x7f and 0xff no numbers."""
    size = code & 127
    normal = ((size << 20) + (120 << 23)).to(tl.float32, bitcast=True)
    value = tl.where(size < 8, size.to(tl.float32) * 0.001953125, normal)
    return signed(tl.where(size == 127, float("nan"), value), code >> 7)


@triton.jit
def e2m1(code):
    """A float4 e2m1 code as float32: sign in bit 3, bias 1."""
    size = code & 7
    normal = ((size << 22) + (126 << 23)).to(tl.float32, bitcast=True)
    return signed(tl.where(size < 2, size.to(tl.float32) * 0.5, normal), code >> 3)


@triton.jit
def decode(table, begin, held, FP4: tl.constexpr):
    """Rows at byte offsets `begin` [n] as bfloat16 [n, 256]; rows that are not held are zero."""
    value = tl.arange(0, 256)
    if FP4:
        byte = tl.load(table + begin[:, None] + (value // 2)[None, :], mask=held[:, None], other=0).to(
            tl.int32
        )
        number = e2m1((byte >> ((value % 2) * 4)[None, :]) & 15)
        scale_at = begin[:, None] + 128 + (value // 32)[None, :]
    else:
        number = e4m3(
            tl.load(table + begin[:, None] + value[None, :], mask=held[:, None], other=0).to(tl.int32)
        )
        scale_at = begin[:, None] + 256 + (value // 32)[None, :]
    scale = tl.load(table + scale_at, mask=held[:, None], other=0).to(tl.int32)
    return (number * (scale << 23).to(tl.float32, bitcast=True)).to(tl.bfloat16)


@triton.jit
def ones(word):
    """How many bits of 32 are set."""
    word = word - ((word >> 1) & 0x55555555)
    word = (word & 0x33333333) + ((word >> 2) & 0x33333333)
    word = (word + (word >> 4)) & 0x0F0F0F0F
    return ((word * 0x01010101) >> 24) & 255


@triton.jit
def gather(
    ids, lines, table, staged, missing, count, total,
    ROW: tl.constexpr, FP4: tl.constexpr, LISTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """BLOCK lookups: held rows go to staged bfloat16 [total, 256]; where LISTS, places of the others go to missing [total], their number to count.

    One line of 64 bytes answers whether a row is held and where: word 0 counts the rows held in earlier lines, words 1 to 15 are the bits
    of 480 rows. An id below 0 is nobody's row: zeros, and not missing.
    """
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < total
    row = tl.load(ids + place, mask=inside, other=-1)
    asked = inside & (row >= 0)
    bit = (row % 480).to(tl.int32)
    word = tl.arange(0, 16)
    line = tl.load(lines + (row // 480)[:, None] * 16 + word[None, :], mask=asked[:, None], other=0)
    own = 1 + bit // 32
    below = (1 << (bit % 32)) - 1
    full = (word[None, :] > 0) & (word[None, :] < own[:, None])
    kept = tl.where(full, line, tl.where(word[None, :] == own[:, None], line & below[:, None], 0))
    first = tl.sum(tl.where(word[None, :] == 0, line, 0), axis=1)
    slot = first + tl.sum(ones(kept), axis=1)
    mine = tl.sum(tl.where(word[None, :] == own[:, None], (line >> (bit % 32)[:, None]) & 1, 0), axis=1)
    held = asked & (mine == 1)
    rows = decode(table, slot.to(tl.int64) * ROW, held, FP4)
    value = tl.arange(0, 256)
    # A missing row's place is left alone: what reads the row from disk is its only writer.
    tl.store(
        staged + place[:, None] * 256 + value[None, :], rows, mask=(inside & (held | (row < 0)))[:, None]
    )
    if LISTS:
        lost = asked & (mine == 0)
        at = tl.atomic_add(count + tl.zeros((BLOCK,), tl.int32), 1, mask=lost)
        tl.store(missing + at, place, mask=lost)


@triton.jit
def place_rows(read, places, count, staged, ROW: tl.constexpr, BLOCK: tl.constexpr):
    """BLOCK of the first count[0] rows that were read, fp8, decoded: row k goes to places[k] of staged bfloat16 [lookups, 256]."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < tl.load(count)
    target = tl.load(places + at, mask=inside, other=0).to(tl.int64)
    rows = decode(read, at.to(tl.int64) * ROW, inside, False)  # noqa: FBT003 - Triton takes constants by place
    value = tl.arange(0, 256)
    tl.store(staged + target[:, None] * 256 + value[None, :], rows, mask=inside[:, None])
