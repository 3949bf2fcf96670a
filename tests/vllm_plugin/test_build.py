"""The CUDA source compiles for both architectures: no spill between the products of a hot loop, and shared memory within GB10's 99 KB."""

import ctypes
import re
import shutil

import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")
if not shutil.which("nvcc"):
    pytest.skip("no nvcc: CUDA 13's compiler is needed", allow_module_level=True)

from sparkctl_vllm import native
from sparkctl_vllm.exl3 import search

from .disassembly import instructions, loops

GB10_SHARED = 101_376
"""Bytes a block can have on compute capability 12.1 (CUDA C++ programming guide, technical specifications: 99 KB)."""


@pytest.mark.parametrize("architecture", native.ARCHITECTURES)
def test_hot_loops_do_not_spill(architecture):
    """Every compiled hidden size has loops with tensor-core products, and no local memory is touched within them."""
    kernels = instructions(native.build(architecture))
    assert len(kernels) == len(native.HIDDEN)
    for kernel in kernels:
        assert loops(kernel)
        spilled = [
            kernel[at] for loop in loops(kernel) for at in loop if re.search(r"\b(LDL|STL)", kernel[at])
        ]
        assert spilled == []


@pytest.mark.parametrize("rows", [1, 36, 64])
def test_a_shard_fits_into_gb10s_shared_memory(rows):
    """A TP4 rank's shard of V4.1 (top-6, 9 tiles, hidden 5120) up to 64 rows, with the kernel's own barriers."""
    library = ctypes.CDLL(str(native.build("121")))
    most = GB10_SHARED - native.STATIC
    assert 0 < library.budget_shared(rows, 6, 9, 5120, most) <= most


def test_a_hidden_size_that_is_not_compiled_is_told():
    """The library answers -1 rather than a size."""
    assert ctypes.CDLL(str(native.build("121"))).budget_shared(16, 6, 9, 4096, GB10_SHARED) == -1
    shape = native.Shape(rows=16, top_k=6, experts=384, tiles=9, hidden=4096, limit=10.0)
    assert "4096 is not compiled" in native.obstacle(shape, -1, GB10_SHARED)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rows": 100}, "512 threads"),
        ({"experts": 513}, "512 threads"),
        ({"tiles": 64}, "six bits"),
        ({"top_k": 9}, "top-k 9"),
    ],
)
def test_a_size_that_does_not_fit_is_told(change, says):
    """Each limit of the kernel by its name."""
    sizes = {"rows": 16, "top_k": 6, "experts": 384, "tiles": 9, "hidden": 5120, "limit": 10.0}
    assert says in native.obstacle(native.Shape(**{**sizes, **change}), 90_000, GB10_SHARED)
    assert "shared memory" in native.obstacle(native.Shape(**sizes), 200_000, GB10_SHARED)
    assert not native.obstacle(native.Shape(**sizes), 90_000, GB10_SHARED)


def test_the_clamp_fits_float16():
    """H's largest number times its power of two is below float16's, twice that is not; a clamp beyond is refused."""
    for limit in (1.0, 10.0, 127.0):
        most = limit * limit * 4 * native.prescale(limit)
        assert most <= native.MOST_HALF < 2 * most
    with pytest.raises(ValueError, match="float16"):
        native.prescale(200.0)


@pytest.mark.parametrize("architecture", native.ARCHITECTURES)
def test_the_trellis_search_compiles_and_fits(architecture):
    """Two kernels for each rate, within GB10's shared memory at every one of them, a MiB of edges a tile."""
    library = ctypes.CDLL(str(native.build(architecture, search.FOR_CUDA)))
    assert library.trellis_scratch() == 1 << 20
    assert all(0 < library.trellis_shared(bits) <= GB10_SHARED - 1040 for bits in search.RATES[1:])
    assert library.trellis_search(*[None] * 6, 0, 5, search.SEAM, None) == -1
    assert len(instructions(native.build(architecture, search.FOR_CUDA))) == 2 * len(search.RATES[1:])
