"""The Triton path against the definition in Triton's interpreter on the CPU, and compiled for both architectures without a device."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")
pytest.importorskip("triton", reason="no Triton here: run by scripts/check --engine")

from sparkctl_vllm import experts, native, path, reference, triton_experts
from sparkctl_vllm.refusal import Refusal
from sparkctl_vllm.step import Priced, Reading, Step

from .compiled import built

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
COUNT, NEURONS, HIDDEN, TOP_K = 6, 192, 256, 3
TOLERANCE = 1e-3
"""Relative error against float64. Ours: h is kept in float16."""
GB10_SHARED = 101_376


@pytest.fixture(scope="module", params=["mxfp4", "bf16"])
def made(request):
    """Experts, on the device if there is one."""
    torch.manual_seed(1)
    sizes = ((COUNT, NEURONS, HIDDEN), (COUNT, NEURONS, HIDDEN), (COUNT, HIDDEN, NEURONS))
    numbers = [0.1 * torch.randn(*size, device=DEVICE) for size in sizes]
    if request.param == "mxfp4":
        return experts.quantised(*numbers, 2.0)
    gate, up, down = (experts.Matrix(codes=one.bfloat16()) for one in numbers)
    return experts.Experts(gate=gate, up=up, down=down, limit=2.0)


def shape_of(made, rows):
    """The shape of a step of these experts."""
    return native.Shape(
        rows=rows,
        top_k=TOP_K,
        experts=COUNT,
        tiles=made.tiles,
        hidden=HIDDEN,
        limit=made.limit,
        mxfp4=made.gate.scales is not None,
    )


def step(rows, valid=None, *, crowded=False):
    """A step; crowded: every row picks expert 0, so that one expert has more rows than a block."""
    picks = torch.stack([torch.randperm(COUNT)[:TOP_K] for _ in range(rows)]).int()
    if crowded:
        picks = torch.stack(
            [torch.cat((torch.zeros(1), 1 + torch.randperm(COUNT - 1)[: TOP_K - 1])) for _ in range(rows)]
        ).int()
    x = torch.randn(rows, HIDDEN, device=DEVICE).bfloat16()
    weights = torch.rand(rows, TOP_K, device=DEVICE)
    return Step(x=x, picks=picks.to(DEVICE), weights=weights, valid=rows if valid is None else valid)


def run(made, one, how):
    """Run once; the output and what is handed on are poisoned before."""
    kernel = triton_experts.Kernel(shape_of(made, len(one.x)), torch.device(DEVICE))
    kernel.workspace.h.fill_(float("nan"))
    kernel.workspace.parts.fill_(float("nan"))
    out = torch.full(one.x.shape, float("nan"), device=DEVICE)
    valid = torch.tensor([one.valid], dtype=torch.int32, device=DEVICE)
    kernel(kernel.packed(made), Priced.of(how), one, valid, out)
    return out, kernel.workspace


@pytest.mark.parametrize("price", [0.0, 3e5, 1e9], ids=["full", "cut", "floor"])
@pytest.mark.parametrize(
    ("rows", "valid", "crowded"), [(1, 1, False), (5, 3, False), (20, 20, True), (4, 0, False)]
)
def test_reads_as_defined(made, price, rows, valid, crowded):
    """Loads and depths bit for bit, the output within the tolerance; padding rows are 0; up to 20 rows an expert, none, and no valid row."""
    torch.manual_seed(rows)
    one = step(rows, valid, crowded=crowded)
    table = torch.rand(COUNT, made.tiles, device=DEVICE).sort(dim=1, descending=True).values
    how = Reading(importance=table, price=price)
    out, space = run(made, one, how)
    plan = reference.planned(one, how, COUNT)
    assert torch.equal(space.loads, plan.loads)
    assert torch.equal(space.depths, plan.depths)
    wanted = reference.read(one, how, made)
    assert (out[valid:] == 0).all()
    assert float((out.double() - wanted).norm()) <= TOLERANCE * float(wanted.norm())


def test_another_ranks_experts_are_passed_over(made):
    """Negative picks add nothing and weigh nothing."""
    torch.manual_seed(7)
    one = step(4)
    one.picks[:, 1] = -1
    how = Reading(importance=torch.ones(COUNT, made.tiles, device=DEVICE), price=0.0)
    out, _ = run(made, one, how)
    wanted = reference.read(one, how, made)
    assert float((out.double() - wanted).norm()) <= TOLERANCE * float(wanted.norm())


def test_every_rounding_of_a_load_is_the_definitions(made):
    """Weights whose squares fall on, just below and just above half a unit round as the definition rounds them, up to the largest."""
    halves = torch.tensor([0.5, 1.5, 2.5, 3.5, 1000.5, 1001.5, 4194303.5, 4194304.5])
    near = torch.cat(
        [(halves / (1 << 20)).sqrt() * (1 + shift * 2.0**-23) for shift in range(-3, 4)]
        + [torch.tensor([1.0, 2.0, 3.999, 4.0])]
    )
    how = Reading(importance=torch.ones(COUNT, made.tiles, device=DEVICE), price=0.0)
    kernel = triton_experts.Kernel(shape_of(made, 1), torch.device(DEVICE))
    for weight in near.tolist():
        one = replace(step(1), weights=torch.full((1, TOP_K), weight, device=DEVICE))
        kernel.plan(Priced.of(how), one, torch.ones(1, dtype=torch.int32, device=DEVICE))
        assert torch.equal(kernel.workspace.loads, reference.planned(one, how, COUNT).loads)


def test_what_cuda_does_not_take_falls_back_with_a_line(caplog):
    """Another hidden size, or no CUDA device: Triton reads, and the log says why."""
    shape = native.Shape(rows=4, top_k=TOP_K, experts=COUNT, tiles=3, hidden=HIDDEN, limit=2.0)
    with caplog.at_level("WARNING"):
        assert isinstance(path.kernel_for(shape, torch.device(DEVICE)), triton_experts.Kernel)
    assert "Triton instead of CUDA C++" in caplog.text
    assert ("256 is not compiled" if DEVICE == "cuda" else "the device is a cpu") in caplog.text


def test_a_pack_of_the_other_format_is_refused(made):
    """MXFP4 bytes where the shape says bf16, and the other way round, by the name of the operand."""
    one = step(2)
    shape = replace(shape_of(made, 2), mxfp4=made.gate.scales is None)
    kernel = triton_experts.Kernel(shape, torch.device(DEVICE))
    priced = Priced(importance=torch.ones(1), price=torch.ones(1))
    with pytest.raises(Refusal, match="pack: torch"):
        kernel(kernel.packed(made), priced, one, torch.ones(1), torch.ones(1))


def test_bf16_is_read_in_triton_with_a_line():
    """The CUDA kernel says that it takes MXFP4 only."""
    shape = native.Shape(rows=4, top_k=6, experts=384, tiles=9, hidden=5120, limit=10.0, mxfp4=False)
    assert native.obstacle(shape, 0, GB10_SHARED) == "bf16 weights are not compiled, only MXFP4"


CASES = """
import triton.language as tl
from collections import defaultdict
from sparkctl_vllm import depth_kernels, triton_kernels as k

TYPES = {"x": "*bf16", "weights": "*fp32", "importance": "*fp32", "price": "*fp32", "h": "*fp16", "parts": "*fp32", "out": "*fp32",
         "limit": "fp32", "prescale": "fp32", "floor": "i32", "tiles": "i32", "rows": "i32", "experts": "i32"}
SIZES = {"OPERAND": tl.bfloat16, "HALF": tl.float16, "TOP_K": 6, "PICKS": 512, "TILES": 16, "HIDDEN": 5120, "BLOCK_K": 128, "BLOCK_N": 128,
         "GIVEN": False, "RANKS": 4}
CASES = [
    (kernel, defaultdict(lambda: "*i32", {**TYPES, "pack": "*bf16" if bf16 else "*u8"}),
     {name: {**SIZES, "BF16": bf16}[name] for name in kernel.arg_names if name in {*SIZES, "BF16"}})
    for kernel, bf16 in ((k.plan, False), (k.gate_up, False), (k.gate_up, True), (k.down, False), (k.down, True), (k.summed, False))
]
plan = CASES[0]
CASES.append((k.plan, plan[1], {**plan[2], "GIVEN": True}))
depths = depth_kernels.planned
counts = {one: "i32" for one in ("count", "most_rows", "experts", "width", "most_tiles", "rank")}
kinds = {"weights": "*fp32", "table": "*fp32", "price": "*fp32", "tails": "*i64", "cost": "*i64", "read": "*i64", **counts}
CASES.append((depths, defaultdict(lambda: "*i32", kinds), {name: SIZES[name] for name in depths.arg_names if name in SIZES}))
"""


def test_compiles_for_both_architectures(tmp_path):
    """All kernels, the two that read weights in bf16 too, the plan of depths that are given, and the depths of all ranks, become machine code for sm_90 and sm_121 at V4.1's sizes, within 99 KB."""
    found = built(CASES, tmp_path)
    assert len(found) == 16
    assert all(one.size > 1000 and one.shared <= GB10_SHARED for one in found)
