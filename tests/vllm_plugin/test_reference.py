"""The definition: prefix reads against zeroed neurons, MXFP4 against a table, packs against their own description, refusals at the door."""

from dataclasses import replace
from itertools import product

import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")

from sparkctl_vllm import experts, mxfp4, reference, tiles
from sparkctl_vllm.experts import Experts, Matrix
from sparkctl_vllm.refusal import Refusal
from sparkctl_vllm.step import Reading, Step

COUNT, NEURONS, HIDDEN = 5, 192, 64
WIDE = 2048
"""A hidden size that the fragments of the CUDA kernel fit."""


def bf16(seed=0, scale=0.2):
    """Experts in bf16."""
    torch.manual_seed(seed)
    gate, up = (Matrix(codes=(scale * torch.randn(COUNT, NEURONS, HIDDEN)).bfloat16()) for _ in range(2))
    return Experts(
        gate=gate,
        up=up,
        down=Matrix(codes=(scale * torch.randn(COUNT, HIDDEN, NEURONS)).bfloat16()),
        limit=2.0,
    )


def quantised(seed=0):
    """Experts in MXFP4."""
    torch.manual_seed(seed)
    return experts.quantised(
        *(0.2 * torch.randn(COUNT, NEURONS, HIDDEN) for _ in range(2)),
        0.2 * torch.randn(COUNT, HIDDEN, NEURONS),
        2.0,
    )


def step(rows=7, valid=None, top_k=2):
    """A step of made-up rows."""
    picks = torch.stack([torch.randperm(COUNT)[:top_k] for _ in range(rows)]).int()
    x = torch.randn(rows, HIDDEN).bfloat16()
    return Step(x=x, picks=picks, weights=torch.rand(rows, top_k), valid=rows if valid is None else valid)


def reading(price=0.0, floor=1):
    """Importances of every expert, sorted."""
    return Reading(
        importance=torch.rand(COUNT, 3).sort(dim=1, descending=True).values, price=price, floor=floor
    )


def one_by_one(made, one, depths):
    """The same sum row by row and neuron by neuron, with the neurons behind the depth multiplied by 0."""
    y = torch.zeros(len(one.x), HIDDEN, dtype=torch.float64)
    for row in range(one.valid):
        for slot in range(one.picks.shape[1]):
            expert = int(one.picks[row, slot])
            x = one.x[row].double()
            gate, up, down = (matrix.numbers(expert, torch.float64) for matrix in made.matrices)
            for neuron in range(NEURONS):
                kept = float(neuron < 64 * depths[expert])
                g = min(float(gate[neuron] @ x), made.limit)
                u = max(-made.limit, min(float(up[neuron] @ x), made.limit))
                h = g / (1 + float(torch.exp(torch.tensor(-g, dtype=torch.float64)))) * u
                y[row] += kept * float(one.weights[row, slot]) * h * down[:, neuron]
    return y


@pytest.mark.parametrize("made", [bf16(), quantised()], ids=["bf16", "mxfp4"])
@pytest.mark.parametrize("price", [0.0, 2e5, 1e9], ids=["full", "cut", "floor"])
def test_a_prefix_read_is_dropped_neurons(made, price):
    """Reading depth tiles equals multiplying the other neurons by 0, for every expert, and the clamp is hit."""
    torch.manual_seed(1)
    one, how = step(rows=3), reading(price)
    plan = reference.planned(one, how, COUNT)
    got = reference.read(one, how, made)
    assert torch.allclose(got, one_by_one(made, one, plan.depths.tolist()), atol=1e-12)


def test_depths_follow_loads():
    """No rows: 0. Price 0: everything. A price above all: the floor. More load never reads less."""
    torch.manual_seed(2)
    one = step(rows=4)
    one.picks[:] = torch.tensor([[0, 1], [0, 2], [0, 1], [0, 2]])
    for price, floor in ((0.0, 1), (1e5, 1), (1e12, 2)):
        depths = reference.planned(one, reading(price, floor), COUNT).depths
        assert depths[3:].tolist() == [0, 0]
        assert (depths[:3] >= floor).all()
    assert reference.planned(one, reading(0.0), COUNT).depths[:3].tolist() == [3, 3, 3]
    assert reference.planned(one, reading(1e12, 2), COUNT).tiles == 6


def test_padding_rows_are_zero_and_weigh_nothing():
    """Rows from `valid` on change nothing, whatever they hold."""
    torch.manual_seed(3)
    made, one, how = quantised(), step(valid=4), reading(1e5)
    spoiled = replace(one, x=one.x.clone(), picks=one.picks.clone())
    spoiled.x[4:] = float("nan")
    spoiled.picks[4:] = 10_000
    got = reference.read(spoiled, how, made)
    assert torch.equal(got, reference.read(one, how, made))
    assert (got[4:] == 0).all()


def test_mxfp4_codes_are_the_published_numbers():
    """The sample bytes of layers.0.ffn.experts.0.w1, row 0, of DeepSeek-V4.1-Flash (mlx-lm port, tests for deepseek_v41)."""
    codes = torch.tensor(list(bytes.fromhex("a0a8ec4aadaf42aa")) + [0] * 8, dtype=torch.uint8)
    numbers = mxfp4.dequantised(codes, torch.tensor([0x78], dtype=torch.uint8))
    wanted = [0.0, -0.0078125, 0.0, -0.0078125, -0.015625, -0.03125, -0.0078125, 0.015625]
    wanted += [-0.0234375, -0.0078125, -0.046875, -0.0078125, 0.0078125, 0.015625, -0.0078125, -0.0078125]
    assert numbers[:16].tolist() == wanted


def test_every_code_survives_quantisation():
    """What is exactly representable comes back; ties go to the even code."""
    group = torch.tensor([*mxfp4.VALUES, *(-value for value in mxfp4.VALUES)] * 2)
    again = mxfp4.dequantised(*mxfp4.quantised(group))
    assert torch.equal(again, group)
    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0] * 4)
    assert mxfp4.dequantised(*mxfp4.quantised(ties)).tolist()[:8] == [0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 6.0]


def test_sorting_bf16_is_exact_and_sorting_mxfp4_costs_down_only():
    """Moved neurons give the same layer in bf16; in MXFP4 gate and up move without loss and down pays what is measured."""
    torch.manual_seed(4)
    order = torch.stack([torch.randperm(NEURONS) for _ in range(COUNT)])
    one, how = step(), reading()
    plain, coded = bf16(), quantised()
    assert torch.allclose(
        reference.read(one, how, plain.sorted(order)), reference.read(one, how, plain), atol=1e-12
    )
    assert plain.regrouped_error(order) == 0
    moved = coded.sorted(order)
    assert torch.equal(moved.gate.numbers(2), coded.gate.numbers(2)[order[2]])
    assert 0 < coded.regrouped_error(order) < 0.2


@pytest.fixture(scope="module")
def fragmented():
    """Two experts of one tile, and the second one's pieces of gate/up [8, 16, bytes] and of down [64, bytes]: two blocks each, then scales."""
    torch.manual_seed(5)
    made = experts.quantised(
        torch.randn(2, 64, WIDE), torch.randn(2, 64, WIDE), torch.randn(2, WIDE, 64), 10.0
    )
    pack = tiles.fragments(made)
    assert pack.shape == (2, 1, tiles.bytes_of(WIDE)) == (2, 1, made.tile_bytes)
    upper, lower = pack[1, 0].split((68 * WIDE, 34 * WIDE))
    return made, upper.view(8, tiles.WARPS, -1), lower.view(tiles.GROUPS, -1)


def test_fragments_undo_to_the_codes(fragmented):
    """Every word of a fragment pack, undone as cuda/budget.cu undoes it, gives the codes of the rows and columns that it stands for."""
    made, upper, lower = fragmented
    words = upper[..., :1024].contiguous().view(torch.int32).view(8, tiles.WARPS, 2, 32, 4)
    gate, up = mxfp4.unpacked(made.gate.codes[1]), mxfp4.unpacked(made.up.codes[1])
    lanes = torch.arange(32)
    for unit, warp, block, word in product(range(8), range(tiles.WARPS), range(2), range(4)):
        k = warp * 128 + 64 * block + 32 * (word >> 1) + 8 * (lanes & 3) + 4 * (word & 1)
        row = unit * 8 + (lanes >> 2)
        wanted = [(gate, 0), (up, 0), (gate, 2), (up, 2)]
        for (codes, first), register in zip(wanted, undone(words[unit, warp, block, :, word]), strict=True):
            assert torch.equal(
                register, torch.stack([codes[row, k + first], codes[row, k + first + 1]], dim=1).int()
            )
    down = mxfp4.unpacked(made.down.codes[1])
    words = lower[:, :1024].contiguous().view(torch.int32).view(WIDE // 16, 32, 4)
    for word in range(4):
        k = 32 * (word >> 1) + 8 * (lanes & 3) + 4 * (word & 1)
        rows = 16 * torch.arange(WIDE // 16)[:, None] + (lanes >> 2)
        for number, register in enumerate(undone(words[:, :, word])):
            row, first = rows + 8 * (number & 1), k + 2 * (number >> 1)
            assert torch.equal(register, torch.stack([down[row, first], down[row, first + 1]], dim=-1).int())


def test_fragments_end_with_their_scales(fragmented):
    """A piece's scales are those of its own rows and groups of 32: gate beside up by row and block, and by block and row in down."""
    made, upper, lower = fragmented
    ends = upper[..., 1024:].view(8, tiles.WARPS, 8, 2, 2, 2)  # unit, warp, row, block, group, gate or up
    for which, matrix in enumerate((made.gate, made.up)):
        scales = matrix.scales[1].view(8, 8, tiles.WARPS, 2, 2)
        assert torch.equal(ends[..., which], scales.transpose(1, 2))
    ends = lower[:, 1024:].reshape(
        WIDE // 16, 8, 2, 2
    )  # block of 16 outputs, row, group, lower or upper half
    assert torch.equal(ends, made.down.scales[1].view(WIDE // 16, 2, 8, 2).permute(0, 2, 3, 1))


def test_weights_of_two_formats_are_not_packed(fragmented):
    """One matrix in bf16 beside two in MXFP4 has no tile; all three in bf16 have one for Triton and none for the CUDA kernel."""
    made, _, _ = fragmented
    mixed = replace(
        made, gate=Matrix(codes=made.gate.numbers(0)[None].expand(2, -1, -1).bfloat16().contiguous())
    )
    with pytest.raises(Refusal, match="bf16 in all three"):
        tiles.rows(mixed)
    with pytest.raises(Refusal, match="weights: bf16"):
        tiles.fragments(bf16_wide(made))
    assert tiles.rows(bf16_wide(made)).shape == (2, 1, 192 * WIDE)


def bf16_wide(made):
    """The same experts with their numbers in bf16."""
    gate, up, down = (
        Matrix(codes=torch.stack([one.numbers(expert).bfloat16() for expert in range(2)]))
        for one in made.matrices
    )
    return Experts(gate=gate, up=up, down=down, limit=made.limit)


def undone(words):
    """The four registers of a fragment as codes, low half first: the arithmetic of `fragment` in cuda/budget.cu."""
    shifted = (words, words << 3, (words << 6) ^ (words << 1), (words << 9) ^ (words << 2))
    return [
        torch.stack([(one >> at + 12 & 8) | (one >> at + 9 & 7) for at in (0, 16)], dim=-1) for one in shifted
    ]


BAD_STEPS = {
    "wrong hidden": (lambda one: replace(one, x=one.x[:, :32].contiguous()), "x: "),
    "wrong dtype of x": (lambda one: replace(one, x=one.x.float()), "bfloat16"),
    "strided x": (lambda one: replace(one, x=torch.randn(7, 2 * HIDDEN).bfloat16()[:, ::2]), "contiguous"),
    "NaN in x": (lambda one: replace(one, x=one.x * float("nan")), "x: NaN"),
    "too many rows": (lambda _: step(rows=65), "captured for"),
    "top-k over the limit": (
        lambda one: replace(one, picks=torch.zeros(7, 9).int(), weights=torch.zeros(7, 9)),
        "top-k: 9, allowed: 1 to 8",
    ),
    "picks of int64": (lambda one: replace(one, picks=one.picks.long()), "int32"),
    "an expert that is not there": (lambda one: replace(one, picks=one.picks + 5), "below 5"),
    "an expert twice": (lambda one: replace(one, picks=torch.zeros(7, 2).int()), "twice"),
    "weights of another shape": (
        lambda one: replace(one, weights=one.weights[:, :1].contiguous()),
        "router weights",
    ),
    "weights of float64": (lambda one: replace(one, weights=one.weights.double()), "float32"),
    "NaN weights": (lambda one: replace(one, weights=one.weights * float("nan")), "router weights: NaN"),
    "valid beyond the rows": (lambda one: replace(one, valid=8), "valid rows: 8, allowed: 0 to 7"),
}


@pytest.mark.parametrize("name", BAD_STEPS)
def test_a_bad_step_is_refused(name):
    """Each is refused with its name and what is allowed; the good one passes."""
    spoil, says = BAD_STEPS[name]
    one = step()
    one.checked(bf16())
    with pytest.raises(Refusal, match=says):
        spoil(one).checked(bf16())


BAD_READINGS = {
    "depth 0": (lambda how: replace(how, floor=0), "depth 0"),
    "deeper than the expert": (lambda how: replace(how, floor=4), "1 to 3"),
    "rising": (lambda how: replace(how, importance=how.importance.flip(1)), "non-increasing"),
    "NaN": (lambda how: replace(how, importance=how.importance * float("nan")), "NaN"),
    "float64": (lambda how: replace(how, importance=how.importance.double()), "float32"),
    "another shape": (lambda how: replace(how, importance=how.importance[:, :2].contiguous()), "importance"),
    "negative price": (lambda how: replace(how, price=-1.0), "price"),
}


@pytest.mark.parametrize("name", BAD_READINGS)
def test_a_bad_reading_is_refused(name):
    """Each is refused with its name and what is allowed; the good one passes."""
    spoil, says = BAD_READINGS[name]
    how = reading()
    how.checked(bf16())
    with pytest.raises(Refusal, match=says):
        spoil(how).checked(bf16())


BAD_EXPERTS = {
    "w3 of another shape": (lambda one: {"up": Matrix(codes=one.up.codes[:, :128].contiguous())}, "w3"),
    "w2 not transposed": (lambda one: {"down": one.gate}, "w2"),
    "neurons off the tile": (
        lambda one: {
            name: Matrix(codes=getattr(one, name).codes[:, :100].contiguous()) for name in ("gate", "up")
        },
        "w2|64",
    ),
    "NaN weights": (lambda one: {"gate": Matrix(codes=one.gate.codes * float("nan"))}, "w1: NaN"),
    "weights of float16": (lambda one: {"gate": Matrix(codes=one.gate.codes.half())}, "bfloat16"),
    "strided": (
        lambda _: {"gate": Matrix(codes=torch.randn(COUNT, HIDDEN, NEURONS).bfloat16().transpose(1, 2))},
        "contiguous",
    ),
    "limit 0": (lambda _: {"limit": 0.0}, "limit"),
}


@pytest.mark.parametrize("name", BAD_EXPERTS)
def test_bad_experts_are_refused(name):
    """Each is refused with its name and what is allowed."""
    spoil, says = BAD_EXPERTS[name]
    with pytest.raises(Refusal, match=says):
        replace(bf16(), **spoil(bf16()))


def test_a_scale_that_means_nan_is_refused():
    """255 is no power of two."""
    made = quantised()
    made.down.scales[0, 0, 0] = 255
    with pytest.raises(Refusal, match="255"):
        replace(made)
