"""Kernel reader: a layer as vLLM loaded it, packed and read by kernels, is the definition; with Triton's, in its interpreter where no GPU is."""

import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")
pytest.importorskip("triton", reason="no Triton here: run by scripts/check --engine")

from sparkctl_vllm.serving import kernel_reader, reader
from sparkctl_vllm.serving.kernel_reader import KernelReader
from sparkctl_vllm.serving.reader import PlainReader
from sparkctl_vllm.step import Rows

from .test_weights import EXPERTS, HIDDEN, NEURONS, layer

TOP_K, MOST = 2, 6
TILES = NEURONS // 64
WITHIN = {None: 8e-3, 2.0: 1e-3}
"""Relative error against the definition in float32, by the clamp: h is kept in bf16 where nothing bounds it, else in float16."""


def rows(count, seed=0):
    """What a layer is asked."""
    chance = torch.Generator().manual_seed(seed)
    picks = torch.stack([torch.randperm(EXPERTS, generator=chance)[:TOP_K] for _ in range(count)]).int()
    return Rows(
        x=torch.randn(count, HIDDEN, generator=chance).bfloat16(),
        picks=picks,
        weights=torch.rand(count, TOP_K, generator=chance),
    )


@pytest.fixture(scope="module", params=[("bf16", None), ("mxfp4", None), ("mxfp4", 2.0)], ids=str)
def pair(request):
    """The same layer by the definition and by kernels, sorted alike."""
    form, limit = request.param
    order = torch.stack([torch.randperm(NEURONS) for _ in range(EXPERTS)])
    made = []
    for one in (PlainReader(), KernelReader(kernel_reader.plain_loaded)):
        loaded = layer(form)
        loaded.top_k, loaded.swiglu_limit = TOP_K, limit
        one.take(loaded, order, MOST)
        made.append(one)
    return made


def near(pair, found, wanted):
    """Two answers are as near as 16 bits let them be."""
    limit = pair[0].experts.limit
    error = float((found - wanted).abs().max() / wanted.abs().max())
    assert error <= WITHIN[None if limit == float("inf") else limit]


@pytest.mark.parametrize("count", [1, 3, 6])
def test_a_read_to_depths_is_the_definition(pair, count):
    """With as many rows as a kernel is for, and with fewer, which are filled up."""
    asked = rows(count)
    depths = torch.tensor([1, TILES, 2, 1], dtype=torch.int32)
    wanted, found = (one.read(asked, depths, torch.tensor([MOST], dtype=torch.int32)) for one in pair)
    assert found.shape == wanted.shape
    near(pair, found, wanted)


def test_padding_is_nothing(pair):
    """Rows from the live ones on come out as zeros, and change nobody else."""
    asked = rows(4)
    depths = torch.full((EXPERTS,), 2, dtype=torch.int32)
    wanted, found = (one.read(asked, depths, torch.tensor([3], dtype=torch.int32)) for one in pair)
    near(pair, found, wanted)
    assert not found[3].any()


@pytest.mark.parametrize("count", [2, 7, 20])
def test_any_number_of_rows_is_read_whole(pair, count):
    """As a prefill: more rows than a step may have."""
    wanted, found = (one.read_whole(rows(count)) for one in pair)
    assert found.shape == (count, HIDDEN)
    near(pair, found, wanted)


def test_layers_of_one_shape_share_their_kernels(pair):
    """What kernels reserve is reserved once."""
    again = KernelReader(kernel_reader.plain_loaded)
    experts = pair[0].experts
    loaded = layer("mxfp4" if experts.gate.scales is not None else "bf16")
    loaded.top_k, loaded.swiglu_limit = TOP_K, experts.limit
    again.take(loaded, None, MOST)
    assert again.loaded.kernels is pair[1].loaded.kernels
    assert again.loaded.pack is not pair[1].loaded.pack


def test_there_are_kernels_up_to_the_plans_rows():
    """The last one has room for all of them."""
    assert kernel_reader.sizes(6) == (1, 2, 4, 6)
    assert kernel_reader.sizes(16) == (1, 2, 4, 8, 16)
    assert kernel_reader.sizes(1) == (1,)


@pytest.mark.parametrize("make", [reader.plain, reader.coded])
def test_the_device_decides(make):
    """The definition on the CPU, kernels on a GPU."""
    assert isinstance(make(torch.device("cpu")), reader.DefinitionReader)
    assert isinstance(make(torch.device("cuda")), KernelReader)


def test_packing_some_at_a_time_is_packing_all(pair):
    """Bit for bit, whatever the last part's size."""
    held = pair[0].experts
    packing = pair[1].loaded.kernels[MOST].packed
    assert torch.equal(pair[1].loaded.pack, packing(held))
