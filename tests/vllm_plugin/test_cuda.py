"""The CUDA kernel against the definition, in float64, on a device; skipped where there is none."""

from dataclasses import replace

import pytest

torch = pytest.importorskip(
    "torch", reason="no torch here: run by scripts/check --engine and on a CUDA device"
)
if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

from sparkctl_vllm import experts, native, reference, tiles
from sparkctl_vllm.step import Priced, Reading, Step

TOLERANCE = 1e-3
"""Relative error of a layer's output against float64. Ours: float16 h gives some 2e-4."""
SHAPES = {"small": (24, 128, 5120, 4), "tp4": (384, 576, 5120, 6)}


@pytest.fixture(scope="module", params=SHAPES)
def layer(request):
    """Return experts on the device, their pack, and top-k."""
    count, neurons, hidden, top_k = SHAPES[request.param]
    torch.manual_seed(3)
    matrices, packs = ([], [], []), []
    for begin in range(0, count, 16):
        size = min(16, count - begin)
        gate, up = (torch.randn(size, neurons, hidden, device="cuda") * 0.03 for _ in range(2))
        down = torch.randn(size, hidden, neurons, device="cuda") * 0.03
        some = experts.quantised(gate, up, down, 10.0)
        packs.append(tiles.fragments(some))
        for mine, one in zip(matrices, some.matrices, strict=True):
            mine.append(one)
    whole = [
        experts.Matrix(
            codes=torch.cat([one.codes for one in mine]), scales=torch.cat([one.scales for one in mine])
        )
        for mine in matrices
    ]
    made = experts.Experts(gate=whole[0], up=whole[1], down=whole[2], limit=10.0)
    return made, torch.cat(packs), top_k


def step(made, top_k, rows, *, skew=0.0, valid=None, size=1.0):  # noqa: PLR0913 - what a step is made of
    """Return a step; skew is the sigma of the experts' popularity."""
    count, _, hidden = made.gate.shape
    taste = skew * torch.randn(count, device="cuda")
    picks = (taste + torch.randn(rows, count, device="cuda")).topk(top_k, dim=1).indices.int().contiguous()
    weights = torch.rand(rows, top_k, device="cuda") + 0.05
    x = (size * torch.randn(rows, hidden, device="cuda")).bfloat16()
    return Step(x=x, picks=picks, weights=weights, valid=rows if valid is None else valid)


def reading(made, price):
    """Return importances, sorted lognormal."""
    table = (1.2 * torch.randn(made.gate.shape[0], made.tiles, device="cuda")).exp()
    return Reading(importance=table.sort(dim=1, descending=True).values, price=price)


def run(made, pack, one, how):
    """Run the kernel once; the output is poisoned before."""
    shape = native.Shape(
        rows=len(one.x),
        top_k=one.picks.shape[1],
        experts=made.gate.shape[0],
        tiles=made.tiles,
        hidden=one.x.shape[1],
        limit=made.limit,
    )
    kernel = native.Kernel(shape, one.x.device)
    out = torch.full(one.x.shape, float("nan"), device="cuda")
    valid = torch.tensor([one.valid], dtype=torch.int32, device="cuda")
    kernel(pack, Priced.of(how), one, valid, out)
    torch.cuda.synchronize()
    return out, kernel.workspace.told


def off(out, wanted):
    """Return the relative error."""
    return float((out.double() - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("price", [0.0, 3e4, 3e5], ids=["full", "cut", "deep-cut"])
@pytest.mark.parametrize("skew", [0.0, 2.0], ids=["even", "skewed"])
def test_reads_as_defined(layer, rows, price, skew):
    """Loads and depths equal the definition's bit for bit, and the output is within the tolerance of float64."""
    made, pack, top_k = layer
    torch.manual_seed(rows)
    one, how = step(made, top_k, rows, skew=skew), reading(made, price)
    out, told = run(made, pack, one, how)
    plan = reference.planned(one, how, made.gate.shape[0])
    assert torch.equal(told[0], plan.loads)
    assert torch.equal(told[1], plan.depths)
    assert off(out, reference.read(one, how, made)) < TOLERANCE


@pytest.mark.parametrize("size", [1e-2, 1e30], ids=["small", "beyond-float16"])
def test_the_size_of_x_does_not_matter(layer, size):
    """Every exponent of bf16 is kept: float16 alone would overflow."""
    made, pack, top_k = layer
    one, how = step(made, top_k, 16, size=size), reading(made, 0.0)
    out, _ = run(made, pack, one, how)
    assert off(out, reference.read(one, how, made)) < TOLERANCE


def test_padding_rows_weigh_nothing(layer):
    """Rows from `valid` on change neither depths nor other rows, whatever they hold, and come out as 0."""
    made, pack, top_k = layer
    one, how = step(made, top_k, 16, valid=11), reading(made, 3e4)
    one.x[11:] = float("nan")
    out, told = run(made, pack, one, how)
    assert (out[11:] == 0).all()
    assert torch.equal(told[1], reference.planned(one, how, made.gate.shape[0]).depths)
    assert off(out[:11], reference.read(one, how, made)[:11]) < TOLERANCE


@pytest.mark.parametrize("rows", [1, 4])
def test_an_idle_step_gives_zeros(layer, rows):
    """No valid row: no item, no wait for ever, zeros."""
    made, pack, top_k = layer
    out, told = run(made, pack, step(made, top_k, rows, valid=0), reading(made, 0.0))
    assert (out == 0).all()
    assert (told == 0).all()


def test_the_same_step_gives_the_same_bits(layer):
    """A hundred runs of a skewed step with up to 64 rows an expert are equal bit for bit."""
    made, pack, top_k = layer
    one, how = step(made, top_k, 64, skew=2.0), reading(made, 3e4)
    first, _ = run(made, pack, one, how)
    assert all(torch.equal(first, run(made, pack, one, how)[0]) for _ in range(100))


def test_a_graph_replays_with_other_routing(layer):
    """A captured graph follows new picks, weights, price and count of valid rows without being captured anew."""
    made, pack, top_k = layer
    one, how = step(made, top_k, 16), reading(made, 3e4)
    shape = native.Shape(
        rows=16,
        top_k=top_k,
        experts=made.gate.shape[0],
        tiles=made.tiles,
        hidden=one.x.shape[1],
        limit=made.limit,
    )
    kernel, out = native.Kernel(shape, one.x.device), torch.empty(one.x.shape, device="cuda")
    valid, priced = torch.tensor([16], dtype=torch.int32, device="cuda"), Priced.of(replace(how, price=0.0))
    graph = torch.cuda.CUDAGraph()
    kernel(pack, priced, one, valid, out)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(3):
            kernel(pack, priced, one, valid, out)
    for cut, live in ((3e4, 16), (3e5, 5), (0.0, 1)):
        fresh = step(made, top_k, 16, skew=1.0, valid=live)
        for mine, theirs in ((one.x, fresh.x), (one.picks, fresh.picks), (one.weights, fresh.weights)):
            mine.copy_(theirs)
        priced.price.fill_(cut)
        valid.fill_(live)
        out.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        wanted = reference.read(replace(one, valid=live), replace(how, price=cut), made)
        assert off(out, wanted) < TOLERANCE


@pytest.mark.parametrize("rows", [1, 6, 64])
def test_depths_that_are_given_are_read(layer, rows):
    """The same bits as planned by the kernel itself, and another depth where another is given; importance and price are not looked at."""
    made, pack, top_k = layer
    one, how = step(made, top_k, rows, skew=1.0), reading(made, 3e4)
    shape = native.Shape(
        rows=rows,
        top_k=top_k,
        experts=made.gate.shape[0],
        tiles=made.tiles,
        hidden=one.x.shape[1],
        limit=made.limit,
    )
    kernel = native.Kernel(shape, one.x.device)
    planned, told = run(made, pack, one, how)
    valid = torch.tensor([rows], dtype=torch.int32, device="cuda")
    for depths in (told[1].clone(), (told[1] - 1).clamp(min=1)):
        out = torch.full(one.x.shape, float("nan"), device="cuda")
        kernel.read_to(pack, depths, one, valid, out)
        torch.cuda.synchronize()
        assert off(out, reference.read_to(one, depths, made)) < TOLERANCE
        assert torch.equal(out, planned) == torch.equal(depths, told[1])
