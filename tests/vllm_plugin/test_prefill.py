"""Prefill against the definition, in float64: in Triton's interpreter on the CPU, on a device where there is one; and compiled without one."""

from dataclasses import dataclass, replace

import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")
pytest.importorskip("triton", reason="no Triton here: run by scripts/check --engine")

from sparkctl_vllm import experts, native, reference, tiles
from sparkctl_vllm.prefill import Blocks, Launch, Layout, Prefill
from sparkctl_vllm.refusal import Refusal
from sparkctl_vllm.step import Step

from .compiled import built

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
COUNT, NEURONS, TOP_K, LIMIT = 4, 128, 2, 2.0
HIDDEN = {"fragments": 1024, "mxfp4": 384, "bf16": 384}
"""The smallest of fragments; for the others three passes of 128 outputs."""
TOLERANCE = 1e-3
"""Relative error against float64. Ours: h is kept in float16."""
GB10_SHARED = 101_376


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Experts, their pack, and how it is laid out."""

    made: experts.Experts
    pack: torch.Tensor
    layout: Layout

    def kernel(self, rows, *, top_k=TOP_K, launch=None):
        """Return a prefill for so many rows at a time, its workspace poisoned."""
        count, _, hidden = self.made.gate.shape
        shape = native.Shape(
            rows=rows, top_k=top_k, experts=count, tiles=self.made.tiles, hidden=hidden, limit=self.made.limit,
            mxfp4=self.made.gate.scales is not None,
        )  # fmt: skip
        one = Prefill(shape, self.layout, torch.device(DEVICE), launch)
        one.h.fill_(float("nan"))
        one.parts.fill_(float("nan"))
        return one

    def run(self, one, most, *, dtype=torch.float32, launch=None):
        """Read a step; the output is poisoned before."""
        out = torch.full(one.x.shape, float("nan"), device=DEVICE, dtype=dtype)
        kernel = self.kernel(most, top_k=one.picks.shape[1], launch=launch)
        return kernel(self.pack, one, out)

    def off(self, out, one):
        """Return the relative error against the definition; picks beyond the experts are another rank's, which it knows as negative ones."""
        count = self.made.gate.shape[0]
        one = Step(
            x=one.x, picks=torch.where(one.picks < count, one.picks, -1), weights=one.weights, valid=one.valid
        )
        depths = torch.full((count,), self.made.tiles, device=DEVICE)
        wanted = reference.read_to(one, depths, self.made)
        return float((out.double() - wanted).norm() / wanted.norm())


def layer_of(kind, count, neurons, hidden, limit):
    """Return experts of random weights; scales of one output differ by some octaves."""
    sizes = ((count, neurons, hidden), (count, neurons, hidden), (count, hidden, neurons))
    numbers = [0.05 * torch.randn(*size, device=DEVICE) for size in sizes]
    for one in numbers:
        one.unflatten(2, (-1, 32)).mul_(
            torch.randint(-5, 3, one[..., ::32, None].shape, device=DEVICE).exp2()
        )
    if kind == "bf16":
        gate, up, down = (experts.Matrix(codes=one.bfloat16()) for one in numbers)
        made = experts.Experts(gate=gate, up=up, down=down, limit=limit)
    else:
        made = experts.quantised(*numbers, limit)
    if kind == "fragments":
        return Layer(made=made, pack=tiles.fragments(made), layout=Layout.FRAGMENTS)
    return Layer(made=made, pack=tiles.rows(made), layout=Layout.ROWS)


@pytest.fixture(scope="module", params=HIDDEN)
def layer(request):
    """Small experts of each kind of pack."""
    torch.manual_seed(1)
    return layer_of(request.param, COUNT, NEURONS, HIDDEN[request.param], LIMIT)


@pytest.fixture(scope="module")
def fragments():
    """Small experts as the CUDA kernel's packs hold them."""
    torch.manual_seed(1)
    return layer_of("fragments", COUNT, NEURONS, 1024, LIMIT)


def step(made, rows, *, top_k=TOP_K, among=None):
    """A step whose rows pick distinct experts `among` the first so many."""
    count, _, hidden = made.gate.shape
    picks = torch.rand(rows, among or count, device=DEVICE).topk(top_k, dim=1).indices.int()
    x = torch.randn(rows, hidden, device=DEVICE).bfloat16()
    return Step(x=x, picks=picks, weights=torch.rand(rows, top_k, device=DEVICE), valid=rows)


@pytest.mark.parametrize(("rows", "most"), [(1, 200), (65, 200), (200, 200)])
def test_reads_as_defined(layer, rows, most):
    """One row; an uneven last block; experts with several blocks."""
    torch.manual_seed(rows)
    one = step(layer.made, rows)
    assert layer.off(layer.run(one, most), one) < TOLERANCE


def test_more_rows_than_reserved_are_done_in_parts(layer):
    """Seventy rows, thirty at a time: the last part is uneven, and no part writes into another's rows."""
    one = step(layer.made, 70)
    assert layer.off(layer.run(one, 30), one) < TOLERANCE


@pytest.mark.parametrize("block", [16, 32, 64, 128])
def test_every_block_is_right(layer, block):
    """Whatever rows of an expert are taken together."""
    one = step(layer.made, 40)
    out = layer.run(one, 40, launch=Launch(block=block, warps=4, stages=2, registers=255))
    assert layer.off(out, one) < TOLERANCE


def test_experts_nobody_picks_are_passed_over(layer):
    """Two of four experts have all the rows."""
    one = step(layer.made, 65, among=TOP_K)
    assert layer.off(layer.run(one, 65), one) < TOLERANCE


def test_one_expert_may_have_all_rows(layer):
    """Top-1 on the last expert: its blocks alone, and none for those before it."""
    one = step(layer.made, 150, top_k=1, among=1)
    one.picks.fill_(COUNT - 1)
    assert layer.off(layer.run(one, 150), one) < TOLERANCE


def test_another_ranks_experts_add_nothing(layer):
    """Negative picks and picks beyond the experts; a row that has no other comes out as 0."""
    one = step(layer.made, 40)
    one.picks[::3, 1] = -1
    one.picks[1::3, 1] = COUNT
    one.picks[7] = torch.tensor([-1, COUNT + 100], device=DEVICE)
    out = layer.run(one, 40)
    assert (out[7] == 0).all()
    assert layer.off(out, one) < TOLERANCE


def test_nobody_picks_here(layer):
    """All picks are another rank's: zeros."""
    one = step(layer.made, 20)
    one.picks.fill_(-1)
    assert (layer.run(one, 20) == 0).all()


def test_the_output_may_be_bf16(layer):
    """It is the float32 output, rounded once; Triton's interpreter (3.9) cuts off instead."""
    one = step(layer.made, 20)
    narrow, wide = layer.run(one, 20, dtype=torch.bfloat16), layer.run(one, 20)
    cut = (wide.view(torch.int32) & -65536).view(torch.float32)
    assert torch.equal(narrow, (cut if DEVICE == "cpu" else wide).bfloat16())


def test_the_same_rows_give_the_same_bits(layer):
    """Twice, and among other rows in other places of the blocks."""
    one = step(layer.made, 40)
    first = layer.run(one, 40)
    assert torch.equal(first, layer.run(one, 40))
    back = Step(x=one.x.flip(0), picks=one.picks.flip(0), weights=one.weights.flip(0), valid=40)
    assert torch.equal(first.flip(0), layer.run(back, 40))


def test_scales_far_apart_are_exact(fragments):
    """Scales of one output 20 octaves apart: the smallest still counts where it is alone."""
    made = fragments.made
    scales = made.down.scales.clone()
    scales[:, :, 0], scales[:, :, 1:] = 127, 107
    codes = made.down.codes.clone()
    codes[:, :, :16] = 0
    down = experts.Matrix(codes=codes, scales=scales)
    far = experts.Experts(gate=made.gate, up=made.up, down=down, limit=LIMIT)
    layer = Layer(made=far, pack=tiles.fragments(far), layout=Layout.FRAGMENTS)
    one = step(far, 20)
    assert layer.off(layer.run(one, 20), one) < TOLERANCE


def test_blocks_hold_every_pick_once():
    """Each pick of ours lies in one block of its expert, and there are not more blocks than were counted beforehand."""
    torch.manual_seed(4)
    picks = torch.randint(-2, 12, (40, 3), dtype=torch.int32)
    launch = Launch(block=16, warps=4, stages=2, registers=255)
    blocks = Blocks.of(picks, 10, launch, torch.arange(200, dtype=torch.int32))
    counts = torch.bincount(picks[(picks >= 0) & (picks < 10)], minlength=10)
    wanted = [expert for expert in range(10) for _ in range(-(-int(counts[expert]) // 16))]
    assert blocks.whose[: len(wanted)].tolist() == wanted
    assert (blocks.whose[len(wanted) :] == 10).all()
    for expert in range(10):
        mine = blocks.order[blocks.edges[expert] : blocks.edges[expert + 1]]
        assert torch.equal(mine, (picks.flatten() == expert).nonzero()[:, 0])


@pytest.mark.parametrize(
    ("counts", "block"), [([1] * 10, 16), ([17] + [1] * 9, 16), ([160] + [0] * 9, 64), ([65] * 10, 64)]
)
def test_the_bound_of_blocks_holds(counts, block):
    """For even and for crowded experts."""
    needed = sum(-(-one // block) for one in counts)
    assert Launch(block=block, warps=4, stages=2, registers=255).most(sum(counts), len(counts)) >= needed


@pytest.mark.parametrize(("rows", "block"), [(65, 16), (512, 16), (1024, 32), (2048, 64), (8192, 128)])
def test_a_block_has_room_for_an_experts_rows(rows, block):
    """Of V4.1's 384 experts, six a row."""
    assert Launch.of(rows * 6, 384).block == block


def test_what_does_not_fit_is_refused(layer):
    """By the name of the operand."""
    one, kernel = step(layer.made, 4), layer.kernel(4)
    out = torch.empty(one.x.shape, device=DEVICE)
    with pytest.raises(Refusal, match="pack: torch"):
        kernel(layer.pack.to(torch.int32), one, out)
    with pytest.raises(Refusal, match="picks: "):
        kernel(layer.pack, replace(one, picks=one.picks[:, :1].contiguous()), out)
    with pytest.raises(Refusal, match=r"out: torch\.float16"):
        kernel(layer.pack, one, out.half())


@pytest.mark.parametrize(
    ("change", "layout", "why"),
    [
        ({"limit": float("inf")}, Layout.ROWS, "limit: inf"),
        ({"hidden": 384}, Layout.FRAGMENTS, "hidden size: 384"),
        ({"hidden": 192}, Layout.ROWS, "hidden size: 192"),
        ({"mxfp4": False}, Layout.FRAGMENTS, "weights: bf16"),
        ({"top_k": 9}, Layout.ROWS, "top-k: 9"),
        ({"rows": 0}, Layout.ROWS, "rows at a time: 0"),
    ],
)
def test_a_layer_that_cannot_be_read_is_refused(change, layout, why):
    """Without a clamp h would leave float16, in decode too."""
    given = {"rows": 4, "top_k": 3, "experts": 4, "tiles": 2, "hidden": 1024, "limit": 2.0, **change}
    with pytest.raises(Refusal, match=why):
        Prefill(native.Shape(**given), layout, torch.device(DEVICE))


@pytest.mark.skipif(DEVICE == "cpu", reason="no CUDA device")
@pytest.mark.parametrize("kind", ["fragments", "mxfp4", "bf16"])
@pytest.mark.parametrize("rows", [1, 65, 500, 1000])
def test_reads_as_defined_at_full_size(kind, rows):
    """Hidden 5120, nine tiles, 24 experts, top-6: up to four passes over down, every block, parts of 600 rows; then the same bits ten times."""
    torch.manual_seed(3)
    layer = layer_of(kind, 24, 576, 5120, 10.0)
    one = step(layer.made, rows, top_k=6)
    out = layer.run(one, 600)
    assert layer.off(out, one) < TOLERANCE
    assert all(torch.equal(out, layer.run(one, 600)) for _ in range(10))


CASES = """
import triton.language as tl
from collections import defaultdict
from sparkctl_vllm import prefill_kernels as k

TYPES = {"x": "*bf16", "weights": "*fp32", "h": "*fp16", "parts": "*fp32", "out": "*bf16", "order": "*i64", "limit": "fp32", "prescale": "fp32",
         "tiles": "i32", "experts": "i32", "begin": "i32"}
SIZES = {"OPERAND": tl.bfloat16, "TOP_K": 6, "HIDDEN": 5120, "SLAB": 1280, "WIDTH": 1024}

def case(kernel, format, block):
    pack = {"pack": "*bf16" if format == 2 else "*u8", "words": "*bf16" if format == 2 else "*i32"}
    sizes = {**SIZES, "FORMAT": format, "BLOCK": block}
    return (kernel, defaultdict(lambda: "*i32", {**TYPES, **pack}), {name: sizes[name] for name in kernel.arg_names if name in sizes})

CASES = [case(kernel, *how) for kernel in (k.gate_up, k.down) for how in ((0, 16), (0, 128), (1, 64), (2, 64))]
CASES.append(case(k.summed, 0, 64))
"""


def test_compiles_for_both_architectures(tmp_path):
    """All three kernels, and those that read weights from every pack, become machine code for sm_90 and sm_121 at V4.1's sizes, within 99 KB.

    On sm_90 every wait is for all products: one that still runs reads weights from registers that the next weights are decoded into.
    """
    found = built(CASES, tmp_path)
    assert len(found) == 18
    assert all(one.size > 1000 and one.shared <= GB10_SHARED for one in found)
    assert all(one.pending == 0 for one in found)
