"""Steps on a device: a graph that was captured while everything was read reads each announced step as the definition says; skipped without one."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip(
    "torch", reason="no torch here: run by scripts/check --engine and on a CUDA device"
)
if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

import numpy as np

from sparkctl_vllm import mxfp4, native, triton_experts
from sparkctl_vllm.exl3 import kernel as exl3_kernel
from sparkctl_vllm.exl3.kernel_experts import Exl3Experts
from sparkctl_vllm.plan_file import Meaning, Plan
from sparkctl_vllm.serving import kernel_reader
from sparkctl_vllm.serving.binding import Bound
from sparkctl_vllm.serving.budget import Budget
from sparkctl_vllm.serving.figures import Figures
from sparkctl_vllm.serving.kernel_reader import KernelReader
from sparkctl_vllm.serving.reader import PlainReader
from sparkctl_vllm.serving.roster import Work
from sparkctl_vllm.step import Rows

from ..test_exl3_kernel import stack

EXPERTS, TOP_K, HIDDEN, TILES, ROWS, LAYERS = 16, 4, 5120, 5, 16, 2
TOLERANCE = {"mxfp4": 1e-3, "bf16": 8e-3}
KINDS = {"mxfp4": native.Kernel, "bf16": triton_experts.Kernel, "exl3": exl3_kernel.Kernel}


def plan(tile):
    """A plan of two even ranks that cuts some tiles of every step."""
    chance = np.random.default_rng(0)
    tables = {
        "price": np.full((LAYERS, ROWS + 1), 3e5, np.float32),
        "fisher": np.ones(LAYERS, np.float32),
    }
    tables["ladder"] = np.tile(np.array([TILES, 4, 2, 1], np.uint16), (LAYERS, ROWS + 1, 1))
    for layer in range(LAYERS):
        slices = [-np.sort(-chance.random((EXPERTS, TILES)), axis=1) for _ in range(2)]
        tables[f"D.L{layer}"] = np.concatenate(slices, axis=1).astype(np.float32)
        tables[f"perm.L{layer}"] = np.tile(np.arange(2 * TILES * tile), (EXPERTS, 1)).astype(np.uint16)
        tables[f"count.L{layer}"] = np.ones(EXPERTS, np.uint32)
    meaning = Meaning(
        model="m", checkpoint={}, experts=EXPERTS, layers=LAYERS, widths=(TILES * tile,) * 2, tile=tile, format="mxfp4",
        applied=False, eps=0.01, h=0.5, d_max=1.0, floor_tiles=3, min_tiles=1, corpus="", corpus_tokens=0, predicted={}, commit="",
    )  # fmt: skip
    return Plan(meaning=meaning, tables=tables)


def budget(device, policy, tile=64):
    """A rank's budget."""
    made = Bound(plan=plan(tile), rank=1, places={layer: layer for layer in range(LAYERS)})
    return Budget(made, policy, 4, Figures.made(None, 2, ROWS), torch.device(device))


def loaded(form, seed):
    """A layer as vLLM leaves it on the device."""
    torch.manual_seed(seed)
    neurons = TILES * 64
    w13 = torch.randn(EXPERTS, 2 * neurons, HIDDEN, device="cuda") * 0.03
    w2 = torch.randn(EXPERTS, HIDDEN, neurons, device="cuda") * 0.03
    made = SimpleNamespace(layer_name="model.layers.0.mlp.experts", top_k=TOP_K, swiglu_limit=None)
    if form == "bf16":
        parts = {"w13_weight": w13.bfloat16(), "w2_weight": w2.bfloat16()}
    else:
        made.swiglu_limit = 10.0
        (wide, wide_scale), (down, down_scale) = mxfp4.quantised(w13), mxfp4.quantised(w2)
        parts = {"w13_weight": wide, "w13_weight_scale": wide_scale, "w2_weight": down, "w2_weight_scale": down_scale}  # fmt: skip
    for name, one in parts.items():
        setattr(made, name, torch.nn.Parameter(one, requires_grad=False))
    return made


def coded(*_):
    """A layer of EXL3 at 3 bits, packed."""
    gate, up = (stack(3, HIDDEN, 128 * TILES, EXPERTS) for _ in range(2))
    experts = Exl3Experts(gate=gate, up=up, down=stack(3, 128 * TILES, HIDDEN, EXPERTS), limit=10.0)
    shape = kernel_reader.kernel_operands.Shape.of(experts, rows=ROWS, top_k=TOP_K)
    kernels = kernel_reader._coded_kernels(shape, torch.device("cuda"))
    pack = kernel_reader.kernel_pack.packed(experts)
    return kernel_reader.Loaded(pack=pack, kernels=kernels, held=kernel_reader.Held.of(experts))


def layers(form):
    """Readers of both layers on the device, and the definition's of the same numbers where it is fast enough."""
    if form == "exl3":
        mine = [KernelReader(coded) for _ in range(LAYERS)]
        for one in mine:
            one.take(None, None, ROWS)
        return mine, []
    mine = [KernelReader(kernel_reader.plain_loaded) for _ in range(LAYERS)]
    wanted = [PlainReader() for _ in range(LAYERS)]
    for seed in range(LAYERS):
        mine[seed].take(loaded(form, seed), None, ROWS)
        wanted[seed].take(loaded(form, seed), None, ROWS)
    return mine, wanted


def asked(rows, seed):
    """Rows of a step on the device."""
    torch.manual_seed(seed)
    picks = torch.randn(rows, EXPERTS, device="cuda").topk(TOP_K, dim=1).indices.int().contiguous()
    weights = torch.rand(rows, TOP_K, device="cuda") + 0.05
    return Rows(x=torch.randn(rows, HIDDEN, device="cuda").bfloat16(), picks=picks, weights=weights)


def captured(one, readers, given):
    """A graph of both layers, captured outside of any step; what it reads lies in `given`."""

    def forward():
        answers, read = [], []
        for layer, reader in enumerate(readers):
            depths = one.depths(layer, given.picks, given.weights)
            read.append(depths)
            answers.append(reader.read(given, depths, one.running.rows))
        return answers, read

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        forward()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = forward()
    return graph, kept


@pytest.mark.parametrize("policy", ["water-filled", "router-rank"])
@pytest.mark.parametrize("form", KINDS)
def test_a_captured_graph_reads_each_step(form, policy):
    """Whole outside of a step; by budget in one, with padding, with floors; each depth, cost and count as the definition has it, and y."""
    mine, host = budget("cuda", policy), budget("cpu", policy)
    readers, definition = layers(form)
    assert all(isinstance(one, KINDS[form]) for one in readers[0].loaded.kernels.values())
    given = asked(8, 0)
    graph, (answers, read) = captured(mine, readers, given)
    for one in (mine, host):
        one.turnover((), {"a": None, "b": {"sparkctl_full": True}, "c": None})
    steps = [
        ([Work(request="a", rows=6, decoding=True), Work(request="c", rows=2, decoding=True)], 8),
        ([Work(request="a", rows=3, decoding=True), Work(request="b", rows=1, decoding=True)], 4),
        ([Work(request="a", rows=1, decoding=True)], 1),
        (None, 8),
    ]
    for seed, (work, rows) in enumerate(steps):
        fresh = asked(8, seed + 1)
        for kept, new in ((given.x, fresh.x), (given.picks, fresh.picks), (given.weights, fresh.weights)):
            kept.copy_(new)
        for one in (mine, host):
            one.close()
            if work:
                one.begin(work)
        graph.replay()
        torch.cuda.synchronize()
        for layer in range(LAYERS):
            depths = host.depths(layer, fresh.picks.cpu(), fresh.weights.cpu())
            assert read[layer].tolist() == depths.tolist(), (seed, layer)
            assert answers[layer][:rows].any()
            assert not answers[layer][rows:].any(), "padding"
            if definition:
                wanted = definition[layer].read(fresh, depths.cuda(), host.running.rows)
                off = float((answers[layer] - wanted).norm() / wanted.norm())
                assert off < TOLERANCE[form], (seed, layer)
        if work:
            assert mine.running.cost[:rows].tolist() == host.running.cost[:rows].tolist()
            assert mine.running.read.tolist() == host.running.read.tolist()
            assert (int(mine.running.read[0].sum()) < int(mine.running.read[1].sum())) == (seed != 3)


@pytest.mark.parametrize("form", ["mxfp4", "bf16"])
@pytest.mark.parametrize("rows", [17, 300])
def test_a_prefill_is_whole(form, rows):
    """More rows than a step may have."""
    readers, definition = layers(form)
    one = asked(rows, 9)
    found, wanted = (which[0].read_whole(one) for which in (readers, definition))
    assert float((found - wanted).norm() / wanted.norm()) < TOLERANCE[form]


def test_many_rows_of_exl3_are_those_of_single_steps():
    """A prefill of EXL3 is read in parts: each row as it is read alone."""
    readers, _ = layers("exl3")
    one = asked(40, 3)
    found = readers[0].read_whole(one)
    for row in (0, 17, 39):
        alone = Rows(
            x=one.x[row : row + 1], picks=one.picks[row : row + 1], weights=one.weights[row : row + 1]
        )
        wanted = readers[0].read_whole(alone)[0]
        assert float((found[row] - wanted).norm() / wanted.norm()) < 1e-3
