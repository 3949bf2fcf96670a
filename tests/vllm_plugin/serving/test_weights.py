"""Weights: what vLLM loaded comes out sorted, computes the same, and is let go on the way."""

import weakref
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sparkctl_vllm import mxfp4, reference
from sparkctl_vllm.experts import Experts, Matrix
from sparkctl_vllm.refusal import Refusal
from sparkctl_vllm.serving import weights
from sparkctl_vllm.step import Step

EXPERTS, NEURONS, HIDDEN = 4, 192, 128


class Held(TorchDispatchMode):
    """Counts bytes of storages that live, and remembers the most."""

    def __init__(self, *known):
        super().__init__()
        self.live, self.now, self.most = {}, 0, 0
        for one in known:
            self._see(one)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        answer = function(*args, **(kwargs or {}))
        for one in tree_leaves(answer):
            if isinstance(one, torch.Tensor):
                self._see(one)
        return answer

    def _see(self, tensor):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self.live:
            self.live[key] = storage.nbytes()
            self.now += storage.nbytes()
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self._gone, key)

    def _gone(self, key):
        self.now -= self.live.pop(key)


def layer(form, experts=EXPERTS, neurons=NEURONS, hidden=HIDDEN):
    """A layer as vLLM's own methods leave it after loading, and the numbers of its three weights."""
    generator = torch.Generator().manual_seed(0)
    gate, up = (torch.randn(experts, neurons, hidden, generator=generator) / 8 for _ in range(2))
    down = torch.randn(experts, hidden, neurons, generator=generator) / 8
    made = SimpleNamespace(layer_name="model.layers.0.mlp.experts")
    w13 = torch.cat([gate, up], dim=1)
    if form == "bf16":
        made.w13_weight = torch.nn.Parameter(w13.bfloat16(), requires_grad=False)
        made.w2_weight = torch.nn.Parameter(down.bfloat16(), requires_grad=False)
    else:
        for name, one in (("w13", w13), ("w2", down)):
            codes, scales = mxfp4.quantised(one)
            setattr(made, f"{name}_weight", torch.nn.Parameter(codes, requires_grad=False))
            setattr(made, f"{name}_weight_scale", torch.nn.Parameter(scales, requires_grad=False))
    return made


def order(experts=EXPERTS, neurons=NEURONS):
    """Another order for each expert."""
    generator = torch.Generator().manual_seed(1)
    return torch.stack([torch.randperm(neurons, generator=generator) for _ in range(experts)])


def unsorted(made):
    """The same layer as experts, in the order of the checkpoint."""
    w13, w2 = made.w13_weight.data, made.w2_weight.data
    scales = [getattr(made, f"{name}_weight_scale", None) for name in ("w13", "w2")]
    half = w13.shape[1] // 2
    parts = [w13[:, :half], w13[:, half:]]
    scaled = [None, None] if scales[0] is None else [scales[0].data[:, :half], scales[0].data[:, half:]]
    gate, up = (
        Matrix(codes=one.contiguous(), scales=None if its is None else its.contiguous())
        for one, its in zip(parts, scaled, strict=True)
    )
    down = Matrix(codes=w2.clone(), scales=None if scales[1] is None else scales[1].data.clone())
    return Experts(gate=gate, up=up, down=down, limit=10.0)


@pytest.mark.parametrize(("form", "off"), [("bf16", 1e-12), ("mxfp4", 0.05)])
def test_sorted_experts_compute_the_same(form, off):
    """Read whole, bf16 to rounding; MXFP4 to what it costs to quantise down anew. The layer keeps no weight."""
    made = layer(form)
    before = unsorted(made)
    after = weights.taken(made, order(), 10.0)
    assert vars(made) == {"layer_name": made.layer_name}
    generator = torch.Generator().manual_seed(2)
    step = Step(
        x=torch.randn(5, HIDDEN, generator=generator).bfloat16(),
        picks=torch.tensor([[0, 1], [1, 2], [2, 3], [3, 0], [1, 3]], dtype=torch.int32),
        weights=torch.rand(5, 2, generator=generator),
        valid=5,
    )
    whole = torch.full((EXPERTS,), before.tiles)
    wanted, found = (reference.read_to(step, whole, one) for one in (before, after))
    assert (found - wanted).norm() <= off * wanted.norm()
    # And a prefix is those neurons of the old order.
    one = torch.ones(EXPERTS, dtype=torch.int32)
    kept = order()[:, :64]
    cut = reference.read_to(step, one, after)
    x = step.x.double()
    row = sum(
        float(step.weights[0, at])
        * reference.hidden(before, expert, x[:1], NEURONS, torch.float64)[:, kept[expert]]
        @ before.down.numbers(expert, torch.float64)[:, kept[expert]].T
        for at, expert in enumerate((0, 1))
    )
    assert (cut[0] - row[0]).norm() <= max(off, 1e-9) * 2 * row.norm()


@pytest.mark.parametrize("form", ["bf16", "mxfp4"])
def test_a_layer_and_two_thirds_of_it_are_held_at_the_most(form):
    """The loaded tensors go while the sorted ones come; two per cent above that for the order and one expert's numbers."""
    made = layer(form, experts=64, neurons=256, hidden=256)
    loaded = [one.data for one in vars(made).values() if isinstance(one, torch.Tensor)]
    size = sum(one.untyped_storage().nbytes() for one in loaded)
    places = order(64, 256)
    with Held(*loaded) as held:
        del loaded
        after = weights.taken(made, places, 10.0)
    kept = sum(
        one.untyped_storage().nbytes()
        for matrix in after.matrices
        for one in (matrix.codes, matrix.scales)
        if one is not None
    )
    assert kept == size
    extra = (
        0 if form == "bf16" else 40 * 256 * 256 * 8
    )  # one expert's numbers in float64, and what quantising needs
    assert size < held.most <= size * 5 / 3 * 1.02 + places.nbytes + extra
    assert held.now <= size * 1.02 + places.nbytes


def test_other_formats_are_refused():
    """Float32 weights would be read as nothing that a kernel knows."""
    made = layer("bf16")
    made.w13_weight = torch.nn.Parameter(made.w13_weight.float(), requires_grad=False)
    with pytest.raises(Refusal, match="--dtype bfloat16"):
        weights.taken(made, order(), 10.0)
