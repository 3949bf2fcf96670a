"""The EXL3 kernel against its definition, in float64, on a device; skipped where there is none.

Random trellis words are valid weights, so rates and depths are tried on those; what an encoder writes is in test_exl3.py.
"""

from dataclasses import replace
from itertools import pairwise

import pytest

torch = pytest.importorskip(
    "torch", reason="no torch here: run by scripts/check --engine and on a CUDA device"
)
if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

from sparkctl_vllm import reference
from sparkctl_vllm.exl3 import codebook, kernel, kernel_pack, kernel_reference, matrix, trellis
from sparkctl_vllm.exl3.kernel_experts import Exl3Experts, Stack
from sparkctl_vllm.exl3.kernel_operands import Shape
from sparkctl_vllm.step import Priced, Reading, Step

EXPERTS, TOP_K, HIDDEN = 16, 4, 5120
RATES = [(2, 2, 2), (3, 3, 3), (4, 4, 4), (2, 4, 3), (4, 3, 2)]
ROWS = [1, 2, 3, 4, 5, 8, 16, 33, 64]


def stack(bits, inputs, outputs, count=EXPERTS):
    """Return random words with scales that give sums of about 1; each sign as likely."""
    words = torch.randint(-32768, 32768, (count, inputs // 16, outputs // 16, 16 * bits), dtype=torch.int16)

    def scale(width, size):
        signs = 1 - 2 * torch.randint(0, 2, (count, width))
        return (signs * size * (0.5 + torch.rand(count, width))).half()

    made = (words, scale(inputs, 1.0), scale(outputs, 1.3 * inputs**-0.5))
    return Stack(
        **dict(zip(("trellis", "suh", "svh"), (one.cuda().contiguous() for one in made), strict=True))
    )


def made(bits, neurons=640):
    """Return experts on the device."""
    torch.manual_seed(sum(bits))
    gate, up = (stack(one, HIDDEN, neurons) for one in bits[:2])
    return Exl3Experts(gate=gate, up=up, down=stack(bits[2], neurons, HIDDEN), limit=10.0)


@pytest.fixture(scope="module", params=RATES, ids=lambda bits: "".join(map(str, bits)))
def layer(request):
    """Return experts of one rate and their pack."""
    experts = made(request.param)
    return experts, kernel_pack.packed(experts)


def step(experts, rows, *, skew=0.0, valid=None, size=1.0):
    """Return a step; skew is the sigma of the experts' popularity."""
    count = experts.gate.shape[0]
    taste = skew * torch.randn(count, device="cuda")
    picks = (taste + torch.randn(rows, count, device="cuda")).topk(TOP_K, dim=1).indices.int().contiguous()
    weights = torch.rand(rows, TOP_K, device="cuda") + 0.05
    x = (size * torch.randn(rows, HIDDEN, device="cuda")).bfloat16()
    return Step(x=x, picks=picks, weights=weights, valid=rows if valid is None else valid)


def reading(experts, price=0.0, floor=1):
    """Return importances, sorted lognormal."""
    table = (1.2 * torch.randn(experts.gate.shape[0], experts.tiles, device="cuda")).exp()
    return Reading(importance=table.sort(dim=1, descending=True).values, price=price, floor=floor)


def prepared(experts, one, exact):
    """Return a kernel for a step."""
    shape = Shape.of(experts, rows=len(one.x), top_k=TOP_K, exact=exact)
    return kernel.Kernel(shape, one.x.device)


def run(experts, packed, one, how, exact=False, ready=None):  # noqa: FBT002, PLR0913, PLR0917 - what a run is made of
    """Run the kernel once; the output is poisoned before."""
    ready = ready or prepared(experts, one, exact)
    out = torch.full(one.x.shape, float("nan"), device="cuda")
    valid = torch.tensor([one.valid], dtype=torch.int32, device="cuda")
    ready(packed, Priced.of(how), one, valid, out)
    torch.cuda.synchronize()
    return out, ready.workspace.told


def off(out, wanted):
    """Return the relative error."""
    return float((out.cpu().double() - wanted).norm() / wanted.norm())


def states(words):
    """`trellis.states` on the device, by shifts: int16 [..., 16 K] to int64 [..., 256]."""
    bits = words.shape[-1] // 16
    whole = words.contiguous().view(torch.int32).long() & 0xFFFFFFFF
    ends = (torch.arange(256, device=words.device) + 1) * bits
    last = (ends + 31) // 32 - 1
    both = (whole[..., last - 1] << 32) | whole[..., last]
    return (both >> (32 * (last + 1) - ends)) & 0xFFFF


def turned(numbers):
    """`matrix.turned` on the device."""
    blocks = numbers.unflatten(-1, (-1, 128))
    return (blocks @ matrix.hadamard(torch.float64).cuda()).flatten(-2)


class Definition:
    """`kernel_reference.read` on dense matrices, all on the device and each made once: decoding on the CPU takes a second a matrix."""

    def __init__(self, experts):
        self.dense = {}
        self.experts = experts

    def matrix(self, name, expert):
        """One matrix in float64; a prefix of whole blocks of 128 neurons is a slice of it."""
        if (name, expert) not in self.dense:
            whole = getattr(self.experts, name)
            numbers = codebook.table("mul1").cuda()[states(whole.trellis[expert])].double()
            order = trellis.places().argsort().cuda()
            tiles = numbers[..., order].unflatten(-1, (16, 16))
            coded = tiles.transpose(1, 2).flatten(2).flatten(0, 1)
            turned_twice = turned(turned(coded).T).T
            self.dense[name, expert] = (
                whole.suh[expert].double()[:, None] * turned_twice * whole.svh[expert].double()
            )
        return self.dense[name, expert]

    def read(self, one, how):
        """Return y in float64, on the CPU."""
        plan = reference.planned(one, how, self.experts.gate.shape[0])
        y = torch.zeros(one.x.shape, dtype=torch.float64, device="cuda")
        limit = self.experts.limit
        for expert in plan.depths.nonzero().flatten().tolist():
            neurons = int(plan.depths[expert]) * 128
            rows, slots = (one.picks[: one.valid] == expert).nonzero(as_tuple=True)
            x = one.x[rows].double()
            gate, up = (x @ self.matrix(name, expert)[:, :neurons] for name in ("gate", "up"))
            h = torch.nn.functional.silu(gate.clamp(max=limit)) * up.clamp(-limit, limit)
            out = h @ self.matrix("down", expert)[:neurons]
            y.index_add_(0, rows, out * one.weights[rows, slots].double()[:, None])
        return y.cpu()


@pytest.fixture(scope="module")
def definition(layer):
    """The definition for a layer."""
    return Definition(layer[0])


def test_the_shortcut_is_the_definition(layer, definition):
    """What the other tests hold the kernel against equals `kernel_reference.read`."""
    experts, _ = layer
    words = experts.gate.trellis[0, :2, :4]
    assert torch.equal(states(words).cpu(), trellis.states(words.cpu()))
    one, how = step(experts, 1), reading(experts, 2e5)
    wanted = kernel_reference.read(one, how, experts)
    assert off(definition.read(one, how), wanted) < 1e-12


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_numbers_are_the_codebooks_to_the_last_bit(bits):
    """Every state of the ring, decoded on the device, in the places that the pack says."""
    torch.manual_seed(bits)
    words = torch.randint(-32768, 32768, (64, 64, 16 * bits), dtype=torch.int16)
    pieces = kernel_pack.pieces(words)
    experts = made((bits, bits, bits), neurons=128)
    found = prepared(experts, step(experts, 1), exact=True).numbers(pieces.cuda(), bits).cpu()
    whole = (
        trellis.tile(codebook.table("mul1")[trellis.states(words)]).transpose(1, 2).flatten(2).flatten(0, 1)
    )
    places = kernel_pack.positions()
    # found: [block, step, half, m, lane, position]; wanted: the numbers at these inputs and outputs
    found = found.view(8, 16, 2, 4, 32, 32)
    inputs = torch.arange(16)[:, None, None, None, None] * 64 + places[..., 0]
    outputs = (
        torch.arange(8)[:, None, None, None, None, None] * 128
        + torch.arange(2)[:, None, None, None] * 64
        + torch.arange(4)[:, None, None] * 16
        + places[..., 1]
    )
    assert torch.equal(found, whole[inputs.expand(8, 16, 1, 1, 32, 32), outputs].view_as(found))


@pytest.mark.parametrize("exact", [False, True], ids=["fast", "exact"])
@pytest.mark.parametrize("rows", ROWS)
def test_reads_as_defined(layer, definition, rows, exact):
    """Loads and depths equal the definition's bit for bit, the output is within the tolerance; even and skewed, whole and cut."""
    experts, packed = layer
    torch.manual_seed(rows)
    for skew, price in ((0.0, 0.0), (0.0, 2e5), (2.0, 0.0), (2.0, 1e6)):
        one, how = step(experts, rows, skew=skew), reading(experts, price)
        out, told = run(experts, packed, one, how, exact)
        plan = reference.planned(one, how, EXPERTS)
        assert torch.equal(told[0], plan.loads)
        assert torch.equal(told[1], plan.depths)
        assert off(out, definition.read(one, how)) < kernel_reference.TOLERANCE, (skew, price)


@pytest.mark.parametrize("exact", [False, True], ids=["fast", "exact"])
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
def test_every_depth_reads_as_defined(layer, definition, depth, exact):
    """The floor alone decides how deep is read."""
    experts, packed = layer
    one, how = step(experts, 6), reading(experts, float("inf"), floor=depth)
    out, told = run(experts, packed, one, how, exact)
    assert set(told[1].tolist()) <= {0, depth}
    assert off(out, definition.read(one, how)) < kernel_reference.TOLERANCE


@pytest.mark.parametrize("neurons", [128, 512])
def test_other_widths_of_a_rank(neurons):
    """A rank of 512, and one of a single block."""
    experts = made((3, 3, 3), neurons)
    packed, definition = kernel_pack.packed(experts), Definition(experts)
    for rows in (1, 9):
        one, how = step(experts, rows), reading(experts)
        assert off(run(experts, packed, one, how)[0], definition.read(one, how)) < kernel_reference.TOLERANCE


@pytest.mark.parametrize("exact", [False, True], ids=["fast", "exact"])
def test_small_x_reads_as_defined(layer, definition, exact):
    """Activations are scaled by what is in them."""
    experts, packed = layer
    one, how = step(experts, 6, size=1e-2), reading(experts)
    assert (
        off(run(experts, packed, one, how, exact)[0], definition.read(one, how)) < kernel_reference.TOLERANCE
    )


@pytest.mark.parametrize("exact", [False, True], ids=["fast", "exact"])
def test_x_beyond_float16_keeps_every_bit(layer, exact):
    """Where SwiGLU is clamped throughout, twice the power of two changes nothing, up to bf16's last exponents: no overflow on the way."""
    experts, packed = layer
    one, how = step(experts, 6), reading(experts)
    outs = [run(experts, packed, replace(one, x=one.x * 2.0**size), how, exact)[0] for size in (60, 100)]
    assert torch.isfinite(outs[0]).all()
    assert torch.equal(*outs)


def test_padding_rows_weigh_nothing(layer, definition):
    """Rows from `valid` on change neither depths nor other rows, whatever they hold, and come out as 0."""
    experts, packed = layer
    one, how = step(experts, 16, valid=11), reading(experts, 2e5)
    one.x[11:] = float("nan")
    out, told = run(experts, packed, one, how)
    assert (out[11:] == 0).all()
    assert torch.equal(told[1], reference.planned(one, how, EXPERTS).depths)
    assert off(out[:11], definition.read(one, how)[:11]) < kernel_reference.TOLERANCE


def test_an_idle_step_gives_zeros(layer):
    """No valid row: no item, no wait for ever, zeros."""
    experts, packed = layer
    out, told = run(experts, packed, step(experts, 4, valid=0), reading(experts))
    assert (out == 0).all()
    assert (told == 0).all()


@pytest.mark.parametrize("exact", [False, True], ids=["fast", "exact"])
def test_the_same_step_gives_the_same_bits(layer, exact):
    """A hundred runs of a skewed step with up to 64 rows an expert are equal bit for bit."""
    experts, packed = layer
    one, how = step(experts, 64, skew=2.0), reading(experts, 2e5)
    ready = prepared(experts, one, exact)
    runs = [run(experts, packed, one, how, ready=ready)[0] for _ in range(100)]
    assert all(torch.equal(a, b) for a, b in pairwise(runs))


def test_a_graph_replays_with_other_routing(layer, definition):
    """A captured graph follows new picks, weights, price and count of valid rows without being captured anew."""
    experts, packed = layer
    one, how = step(experts, 16), reading(experts, 2e5)
    ready, out = prepared(experts, one, exact=False), torch.empty(one.x.shape, device="cuda")
    valid, priced = torch.tensor([16], dtype=torch.int32, device="cuda"), Priced.of(replace(how, price=0.0))
    ready(packed, priced, one, valid, out)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            ready(packed, priced, one, valid, out)
    for cut, live in ((2e5, 16), (1e6, 5), (0.0, 1)):
        fresh = step(experts, 16, skew=1.0, valid=live)
        for mine, theirs in ((one.x, fresh.x), (one.picks, fresh.picks), (one.weights, fresh.weights)):
            mine.copy_(theirs)
        priced.price.fill_(cut)
        valid.fill_(live)
        out.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        wanted = definition.read(replace(one, valid=live), replace(how, price=cut))
        assert off(out, wanted) < kernel_reference.TOLERANCE


def test_limits_are_told():
    """A rate that is not compiled and a rank that is too wide are refused by name."""
    experts = made((3, 3, 3), 128)
    shape = Shape.of(experts, rows=4, top_k=TOP_K)
    with pytest.raises(ValueError, match="not among 2, 3, 4 bits"):
        kernel.Kernel(replace(shape, bits=(3, 3, 5)), torch.device("cuda"))
    with pytest.raises(ValueError, match="room for 1 to 5"):
        kernel.Kernel(replace(shape, tiles=9), torch.device("cuda"))


@pytest.mark.parametrize("rows", [1, 6, 64])
def test_depths_that_are_given_are_read(layer, rows):
    """The same bits as planned by the kernel itself, and another depth where another is given; importance and price are not looked at."""
    experts, packed = layer
    one, how = step(experts, rows, skew=1.0), reading(experts, 3e4)
    ready = prepared(experts, one, exact=False)
    planned, told = run(experts, packed, one, how)
    valid = torch.tensor([rows], dtype=torch.int32, device="cuda")
    for depths in (told[1].clone(), (told[1] - 1).clamp(min=1)):
        out = torch.full(one.x.shape, float("nan"), device="cuda")
        ready.read_to(packed, depths, one, valid, out)
        torch.cuda.synchronize()
        assert not out.isnan().any()
        assert torch.equal(out, planned) == torch.equal(depths, told[1])
