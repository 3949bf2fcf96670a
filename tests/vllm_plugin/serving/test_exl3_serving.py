"""EXL3 experts inside vLLM, short of the engine: what is loaded of a rank's slice, what is refused by name, which plan fits."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")

from sparkctl_vllm import plan_file, reference
from sparkctl_vllm.exl3 import kernel_reference, read, servable
from sparkctl_vllm.exl3.checkpoint import opened
from sparkctl_vllm.exl3.kernel_experts import Exl3Experts, stacked
from sparkctl_vllm.refusal import Refusal
from sparkctl_vllm.serving import exl3_slices
from sparkctl_vllm.serving.binding import bound
from sparkctl_vllm.serving.exl3_slices import Slice
from sparkctl_vllm.step import Reading, Step

from .. import exl3_tiny as tiny

SHARDS = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}
FIRST = "model.layers.1.mlp.experts.0"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A checkpoint in a folder."""
    return tiny.saved(tmp_path_factory.mktemp("exl3") / "model")


def loaded(held, rank, ranks, number=1, skip=()):
    """A layer of a rank after all its tensors passed the loaders, as vLLM hands them over."""
    shape = servable.layers(held.folder)[number]
    layer = torch.nn.Module()
    layer.layer_name = f"model.layers.{number}.mlp.experts"
    Slice.of(shape, rank, ranks).reserve(layer)
    for name, one in tiny.tensors().items():
        if f".layers.{number}." not in name or name in skip:
            continue
        stem, kind = name.rsplit(".", 1)
        expert, part = stem.split(".")[-2:]
        shard = SHARDS[part]
        into = f"{'w2' if shard == 'w2' else 'w13'}_{kind}"
        param = getattr(layer, into)
        assert param.weight_loader(param=param, loaded_weight=one, weight_name=into, shard_id=shard, expert_id=int(expert), return_success=True)  # fmt: skip
    return layer


def whole(held, number=1):
    """The same experts, whole, by the checkpoint's own reader."""
    parts = [
        stacked([held.matrix(number, expert, part) for expert in range(tiny.EXPERTS)])
        for part in ("gate", "up", "down")
    ]
    return Exl3Experts(gate=parts[0], up=parts[1], down=parts[2], limit=10.0)


def step():
    """Five rows, one of them padding."""
    chance = torch.Generator().manual_seed(1)
    return Step(
        x=torch.randn(5, tiny.HIDDEN, generator=chance).bfloat16(),
        picks=torch.tensor([[0, 1], [1, 2], [2, 0], [0, 2], [9, 9]], dtype=torch.int32),
        weights=torch.rand(5, 2, generator=chance),
        valid=4,
    )


@pytest.mark.parametrize(("ranks", "widths"), [(1, (384,)), (2, (128, 256)), (3, (128, 128, 128))])
def test_the_slices_of_all_ranks_are_the_whole(model, ranks, widths):
    """Uneven where no even cut leaves whole blocks; what the ranks compute adds up to what one would, and the layer keeps nothing."""
    held = opened(model)
    wanted, total = read.read_to(step(), torch.full((3,), 3), whole(held)), 0
    for rank, width in enumerate(widths):
        layer = loaded(held, rank, ranks)
        before = layer.w2_trellis.data_ptr()
        mine = exl3_slices.taken(layer, 10.0)
        assert mine.gate.shape == (tiny.EXPERTS, width, tiny.HIDDEN)
        assert mine.bits == (2, 2, 3)
        assert mine.down.trellis.data_ptr() == before, "taken as it lies, not copied"
        assert not list(layer.parameters())
        total = total + read.read_to(step(), torch.full((3,), mine.tiles), mine)
    assert (total - wanted).abs().max() <= 1e-9 * wanted.abs().max()
    assert not total[4].any(), "padding"


def test_a_read_to_depths_is_the_kernels_definition(model):
    """Given the depths that the definition plans, the same numbers; depth 0 reads nothing."""
    experts = whole(opened(model))
    chance = torch.Generator().manual_seed(2)
    table = torch.rand(tiny.EXPERTS, 3, generator=chance).sort(dim=1, descending=True).values
    how = Reading(importance=table, price=float(table.median()) * 5e5)
    depths = reference.planned(step(), how, tiny.EXPERTS).depths
    assert 0 < int(depths.sum()) < 9, "some blocks are cut"
    wanted = kernel_reference.read(step(), how, experts)
    assert torch.equal(read.read_to(step(), depths, experts), wanted)
    assert not read.read_to(step(), torch.zeros(3, dtype=torch.int32), experts).any()


def test_a_matrix_that_never_came_is_told(model):
    """Zeros in its place would be wrong text without an error."""
    layer = loaded(opened(model), 0, 1, skip={f"{FIRST}.up_proj.mul1"})
    with pytest.raises(Refusal, match="w13: 1 matrices were not loaded"):
        exl3_slices.taken(layer, 10.0)


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        ("mul1", torch.tensor(0x1234567, dtype=torch.int32), "mul1 marker: 0x1234567, allowed: 0x83dcd12d"),
        ("trellis", torch.zeros(16, 24, 48, dtype=torch.int16), r"w13_trellis, expert 1, w3: \(16, 24, 48\)"),
        ("trellis", torch.zeros(16, 24, 32, dtype=torch.int32), "torch.int32, allowed: torch.int16"),
        ("suh", torch.zeros(128, dtype=torch.float16), r"w13_suh, expert 1, w3: \(128,\), allowed: \(256,\)"),
    ],
)
def test_a_tensor_that_does_not_fit_is_told(model, kind, given, says):
    """Another multiplier, rate, type or width, by the name of the tensor."""
    layer = loaded(opened(model), 0, 1)
    param = getattr(layer, f"w13_{kind}")
    with pytest.raises(Refusal, match=says):
        param.weight_loader(param, given, f"w13_{kind}", "w3", 1)


def changed(name, one):
    """The tensors with another in the place of one; none: without it."""
    held = tiny.tensors()
    del held[f"{FIRST}.{name}"]
    return held if one is None else held | {f"{FIRST}.{one[0]}": one[1]}


def every(part, kind, one):
    """The tensors with the same in the place of one kind of a part, all experts alike."""
    return {
        name: one.clone() if name.endswith(f"{part}.{kind}") else held
        for name, held in tiny.tensors().items()
    }


def trellis(inputs, outputs, words):
    """A trellis of this size."""
    return torch.zeros(inputs // 16, outputs // 16, words, dtype=torch.int16)


@pytest.mark.parametrize(
    ("held", "says"),
    [
        (lambda: changed("up_proj.trellis", ("up_proj.trellis", trellis(256, 384, 40))), "the half rate 2.5"),
        (lambda: changed("up_proj.trellis", ("up_proj.trellis", torch.zeros(24, 32, dtype=torch.int16))), "rank 2, allowed: rank 3"),
        (lambda: changed("up_proj.trellis", ("up_proj.trellis", trellis(256, 320, 32))), "multiples of 128"),
        (lambda: changed("up_proj.mul1", ("up_proj.mcg", tiny.MARKER.clone())), "up_proj: mcg, allowed: mul1.*cuda-exl3 serves it"),
        (lambda: changed("up_proj.mul1", None), "up_proj: 3inst, allowed: mul1.*cuda-exl3 serves it"),
        (lambda: changed("up_proj.suh", ("up_proj.su", torch.zeros(16, dtype=torch.int16))), "mul1, su, svh, trellis, allowed"),
        (lambda: every("down_proj", "trellis", trellis(384, 256, 80)), "layer 1: bits: .*5.*, allowed: 2, 3, 4.*cuda-exl3"),
        (lambda: every("up_proj", "trellis", trellis(256, 384, 48)), r"bits of gate and up: \(2, 3\), allowed: one rate"),
        (lambda: tiny.tensors() | {"model.layers.1.self_attn.q_proj.trellis": trellis(256, 256, 48)}, "outside routed experts: model.layers.1.self_attn.q_proj, allowed"),
        (lambda: tiny.tensors() | {"lm_head.trellis": torch.zeros(4, 5, dtype=torch.int16)}, "outside routed experts: lm_head"),
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_refused_by_name(tmp_path, held, says):
    """From the headers, before anything is reserved, each with what would work."""
    folder = tiny.saved(tmp_path / "model", held())
    with pytest.raises(Refusal, match=f"(?s){says}"):
        servable.layers(folder)


def config(folder, ranks=2):
    """As much of vLLM's configuration as binding looks at."""
    return SimpleNamespace(
        model_config=SimpleNamespace(model=str(folder)),
        parallel_config=SimpleNamespace(tensor_parallel_size=ranks),
    )


def test_the_quantisers_plan_fits(model, tmp_path):
    """Uneven widths, blocks of 128, layers by their numbers."""
    plan_file.write(tiny.plan(model), tmp_path / "plan")
    fit = bound(tmp_path / "plan", config(model), 1, exl3=True)
    assert (fit.rank, dict(fit.places), fit.plan.meaning.widths) == (1, {1: 0, 3: 1}, (128, 256))


@pytest.mark.parametrize(
    ("changes", "ranks", "ours", "says"),
    [
        ({}, 2, False, "SPARKCTL_EXL3_EXPERTS is not set.*exl3.experts: sparkctl"),
        ({"format": "bf16", "applied": False}, 2, True, "neurons not sorted yet.*quantise from the original with this plan"),
        ({"applied": False}, 2, True, "for exl3, neurons not sorted yet"),
        ({"checkpoint": {"config.json": "aa"}}, 2, True, "another checkpoint.*cannot change places.*exl3 quantize --plan"),
        ({}, 3, True, r"widths: \(128, 256\), allowed: \(128, 128, 128\).*--widths 128,128,128"),
        ({"widths": (256, 128)}, 2, True, r"allowed: \(128, 256\)"),
        ({"widths": (384,), "tile": 384}, 1, True, r"tile: 384, allowed: 128"),
        ({"experts": 4}, 2, True, "experts of layer 1: 3, allowed: 4"),
    ],
)  # fmt: skip
def test_a_plan_that_does_not_fit_is_refused(model, tmp_path, changes, ranks, ours, says):  # noqa: PLR0913, PLR0917 - fixtures and cases
    """Each by its name, with what would work."""
    plan_file.write(tiny.plan(model, **changes), tmp_path / "plan")
    with pytest.raises(Refusal, match=f"(?s){says}"):
        bound(tmp_path / "plan", config(model, ranks), 0, exl3=ours)
