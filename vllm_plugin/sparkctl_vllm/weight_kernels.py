"""Weights of a prefill's read, in Triton: from packs as decode reads them to operands of a tensor core. Called by prefill_kernels.

In all of MXFP4 two codes become the float16 patterns of their numbers times 2^-14 in one word. Gate and up multiply in bf16, which holds a
number with its scale exactly: scale bytes 15 to 148, larger ones become infinite. Down multiplies in float16, as h is, with the scales relative
to the largest of an output's own: exact unless they lie 2^23 apart, and beyond that off by less than float32 rounds.

A thread's words of fragments are its own first operand of a tensor core in another order of the inputs; x and h are kept in that order
(`position` in prefill_kernels), so that no weight moves between threads.
"""

import triton
import triton.language as tl

INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)
MASK = tl.constexpr(0x8E008E00 - (1 << 32))
"""Sign, and exponent with mantissa, of e2m1 in the two float16 of a word: cuda/budget.cu."""
SIGNS = tl.constexpr(0x80008000 - (1 << 32))
LESS = tl.constexpr(1048576.0)
"""Weights of gate and up are that many times smaller, 2^20, so that a bf16 holds the factor of every scale up to 2^21."""


@triton.jit
def half(bits):
    """The lower 16 bits as float16."""
    return bits.to(tl.int16).to(tl.float16, bitcast=True)


@triton.jit
def factor(scale, most, NARROW: tl.constexpr):
    """What turns a pattern into a number with the scale of its byte, twice in a word: bf16, or float16 relative to the byte `most`."""
    bits = tl.maximum(scale - most + 29, 0) << 10 if NARROW else tl.minimum(scale + 106, 255) << 7
    return bits | (bits << 16)


@triton.jit
def pair(bits, scale, NARROW: tl.constexpr):
    """The two numbers of a word of patterns, times the factor: float16, or bf16 (float32 in the interpreter)."""
    if not NARROW:
        bits = (bits & SIGNS) | ((bits >> 3) & 0x01C001C0)  # of bf16 then, times 2^-126
    if INTERPRETED:
        if NARROW:
            low, high = half(bits) * half(scale), half(bits >> 16) * half(scale)
        else:
            power = (scale << 16).to(tl.float32, bitcast=True)
            low = (bits << 16).to(tl.float32, bitcast=True) * power
            high = (bits & -65536).to(tl.float32, bitcast=True) * power
    else:
        name: tl.constexpr = "mul.rn.f16x2 $0, $1, $2;" if NARROW else "mul.rn.bf16x2 $0, $1, $2;"
        kind: tl.constexpr = tl.float16 if NARROW else tl.bfloat16
        both = tl.inline_asm_elementwise(name, "=r,r,r", [bits, scale], dtype=tl.int32, is_pure=True, pack=1)
        low = both.to(tl.int16).to(kind, bitcast=True)
        high = (both >> 16).to(tl.int16).to(kind, bitcast=True)
    return low, high


@triton.jit
def quads(first, second, scale, NARROW: tl.constexpr):
    """Numbers [32, 16, 2 pairs, 2] of words whose patterns of the first and second pair are given."""
    a, b = pair(first, scale, NARROW)
    c, d = pair(second, scale, NARROW)
    return tl.join(tl.join(a, c), tl.join(b, d))


@triton.jit
def halves(words, scales, most_low, most_high, NARROW: tl.constexpr):
    """Numbers of the low and the high rows of words [32, 16], [32, 16, 2, 2] each; scales [32, 1] as in `arranged`."""
    shift = ((tl.arange(0, 16) // 2 % 2) * 16)[None, :]
    mine = factor((scales >> shift) & 255, most_low, NARROW)
    theirs = factor((scales >> (shift + 8)) & 255, most_high, NARROW)
    low = quads(words & MASK, ((words << 6) ^ (words << 1)) & MASK, mine, NARROW)
    high = quads((words << 3) & MASK, ((words << 9) ^ (words << 2)) & MASK, theirs, NARROW)
    return low, high


@triton.jit
def arranged(even, odd):
    """Numbers [64, 64] in the order of `position`, from those of even and odd eights of rows."""
    # [warp, row, q, 2 group + half, pair, parity, odd] -> [warp, odd, row, 2 group + half, pair, q, parity]
    both = tl.reshape(tl.join(even, odd), (4, 8, 4, 4, 2, 2, 2))
    return tl.reshape(tl.permute(both, (0, 6, 1, 3, 4, 2, 5)), (64, 64))


@triton.jit
def fragment_numbers(at, odd_at, scale_at, odd_scale_at, a, b, c, d, NARROW: tl.constexpr):
    """Numbers of low and high rows, [64, 64] each, from the even and the odd eights of them: [32, 1] of first words, and of scale words.

    A scale word: bytes of the first 32 inputs, low and high row, then of the second 32. `a` to `d`: `most` of even low, even high, odd low, odd high.
    """
    word = tl.arange(0, 16)[None, :]
    low, high = halves(tl.load(at + word), tl.load(scale_at), a, b, NARROW)
    odd_low, odd_high = halves(tl.load(odd_at + word), tl.load(odd_scale_at), c, d, NARROW)
    return arranged(low, odd_low), arranged(high, odd_high)


@triton.jit
def byte_numbers(at, scale, most, NARROW: tl.constexpr):
    """Numbers [64, 64] of rows of 32 bytes, [64, 1], and their two scale bytes."""
    codes = tl.load(at + tl.arange(0, 32)[None, :]).to(tl.int32)
    bits = ((codes & 8) << 12) | ((codes & 7) << 9) | ((codes & 128) << 24) | ((codes & 112) << 21)
    low, high = pair(
        bits, factor(tl.load(scale + tl.arange(0, 32)[None, :] // 16).to(tl.int32), most, NARROW), NARROW
    )
    return tl.reshape(tl.join(low, high), (64, 64))


@triton.jit
def product(weights, rows, total):
    """`total` and the product of decoded weights with rows, finished: the next weights may take the registers of these.

    On sm_90 Triton (3.6) lets products of a loop run on while the next pass begins, and ptxas before 13.3 then decodes into registers that they
    still read (github.com/triton-lang/triton/issues/9433). Whatever uses the sum within the pass makes it wait; this does, and costs no instruction.
    """
    total = tl.dot(weights, rows, total)
    if not INTERPRETED:
        total = tl.inline_asm_elementwise("", "=f,0", [total], dtype=tl.float32, is_pure=True, pack=1)
    return total


@triton.jit
def gate_up_weights(words, pack, base, block, HIDDEN: tl.constexpr, FORMAT: tl.constexpr):
    """Gate and up of one tile over 64 inputs, [64 neurons, 64] each, 2^-20 of them where they are MXFP4."""
    neuron = tl.arange(0, 64)[:, None]
    if FORMAT == 2:
        at = pack + base + neuron * HIDDEN + block * 64 + tl.arange(0, 64)[None, :]
        gate, up = tl.load(at), tl.load(at + 64 * HIDDEN)
    elif FORMAT == 1:
        at = pack + base + neuron * (HIDDEN // 2) + block * 32
        scale_at = pack + base + 96 * HIDDEN + neuron * (HIDDEN // 32) + block * 2
        gate = byte_numbers(at, scale_at, 0, NARROW=False)
        up = byte_numbers(at + 32 * HIDDEN, scale_at + 2 * HIDDEN, 0, NARROW=False)
    else:
        deep: tl.constexpr = HIDDEN // 1024
        piece: tl.constexpr = HIDDEN * 17 // 128  # words
        row = tl.arange(0, 32)[:, None]
        far = words + base // 4 + block // deep * piece + row // 8 * (32 * piece)
        at = far + block % deep * 128 + row % 8 * 16
        scale_at = far + deep * 128 + row % 8 * deep + block % deep
        gate, up = fragment_numbers(
            at, at + 16 * piece, scale_at, scale_at + 16 * piece, 0, 0, 0, 0, NARROW=False
        )
    return gate, up


@triton.jit
def down_at(words, base, output, ODD: tl.constexpr, HIDDEN: tl.constexpr):
    """The first words [32, 1] of the even or the odd eights of 128 outputs in fragments, and of their scales."""
    deep: tl.constexpr = HIDDEN // 1024
    piece: tl.constexpr = HIDDEN * 17 // 128  # words
    row = tl.arange(0, 32)[:, None]
    some = output // 16 + row // 8 * 2 + ODD
    far = words + base // 4 + (128 + some // deep) * piece
    return far + some % deep * 128 + row % 8 * 16, far + deep * 128 + some % deep * 8 + row % 8


@triton.jit
def highest(low, high, scales):
    """The larger of the bytes so far and those of scale words."""
    low = tl.maximum(low, tl.maximum(scales & 255, (scales >> 16) & 255))
    return low, tl.maximum(high, tl.maximum((scales >> 8) & 255, (scales >> 24) & 255))


@triton.jit
def merged(even, odd):
    """[64, 1] from the even and the odd eights of it."""
    return tl.reshape(tl.permute(tl.reshape(tl.join(even, odd), (4, 8, 2)), (0, 2, 1)), (64, 1))
