"""The EXL3 source compiles for both architectures: no spill between the products of a hot loop, and shared memory within GB10's 99 KB."""

import ctypes
import re
import shutil
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")
if not shutil.which("nvcc"):
    pytest.skip("no nvcc: CUDA 13's compiler is needed", allow_module_level=True)

from sparkctl_vllm import native
from sparkctl_vllm.exl3 import kernel
from sparkctl_vllm.exl3.kernel_operands import Shape

from .disassembly import instructions, loops

GB10_SHARED = 101_376
"""Bytes a block can have on compute capability 12.1 (CUDA C++ programming guide, technical specifications: 99 KB)."""
SHAPE = Shape(rows=16, top_k=6, experts=384, tiles=5, hidden=5120, limit=10.0, bits=(3, 3, 3))
FAST, EXACT = "IMMA", "HMMA"
SHORT = 9000
"""Instructions beside the loops of all rates: 7,900 when this was written, of some 16,000 in the form before."""
FAR = 300
"""Instructions between two products of one loop at most: the exact way decodes up to 90."""
RATES = 3
"""Rates that are compiled, each with one loop for gate, up and down."""


@pytest.mark.parametrize("architecture", native.ARCHITECTURES)
def test_hot_loops_do_not_spill(architecture):
    """Each rate has its loop of 64 products a step, and no local memory is touched within it."""
    (fast,) = (one for one in instructions(kernel.build(architecture)) if any(FAST in each for each in one))
    hot = [fast[loop.start : loop.stop + 1] for loop in loops(fast, FAST)]
    assert [sum(FAST in one for one in loop) for loop in hot] == [64] * RATES
    assert [one for loop in hot for one in loop if re.search(r"\b(LDL|STL)", one)] == []


@pytest.mark.parametrize("architecture", native.ARCHITECTURES)
def test_the_exact_loops_do_not_spill(architecture):
    """The same of float16 products, 32 a step."""
    (exact,) = (one for one in instructions(kernel.build(architecture)) if any(EXACT in each for each in one))
    hot = [exact[loop.start : loop.stop + 1] for loop in loops(exact, EXACT, FAR)]
    assert [sum(EXACT in one for one in loop) for loop in hot] == [32] * RATES
    assert [one for loop in hot for one in loop if re.search(r"\b(LDL|STL)", one)] == []


@pytest.mark.parametrize("architecture", native.ARCHITECTURES)
def test_the_code_of_one_rate_is_short(architecture):
    """What a launch of one rate runs through comes from afar each time: a loop a rate, and less than SHORT beside all three."""
    for one in instructions(kernel.build(architecture)):
        products = FAST if any(FAST in each for each in one) else EXACT
        if any(products in each for each in one):
            assert len(one) - sum(len(loop) for loop in loops(one, products, FAR)) < SHORT


@pytest.mark.parametrize("rows", [1, 36, 64])
@pytest.mark.parametrize("tiles", [4, 5], ids=["512", "640"])
def test_a_shard_fits_into_gb10s_shared_memory(rows, tiles):
    """A TP4 rank's shard of V4.1 (top-6, hidden 5120) up to 64 rows, with the kernel's own barriers."""
    library = ctypes.CDLL(str(kernel.build("121")))
    most = GB10_SHARED - kernel.STATIC
    shared = library.exl3_shared(rows, 6, tiles, 5120)
    assert 0 < shared <= most
    assert not kernel.obstacle(replace(SHAPE, rows=rows, tiles=tiles), shared, most)


def test_what_is_not_compiled_is_told():
    """The library answers -1 rather than a size, and a rate that is not compiled is not launched."""
    library = ctypes.CDLL(str(kernel.build("121")))
    assert library.exl3_shared(16, 6, 5, 4096) == -1
    assert library.exl3_decode(None, 1, 5, None, None) == -1
    assert "4096 is not compiled" in kernel.obstacle(replace(SHAPE, hidden=4096), -1, GB10_SHARED)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rows": 100}, "512 threads"),
        ({"experts": 513}, "512 threads"),
        ({"tiles": 6}, "room for 1 to 5"),
        ({"top_k": 9}, "top-k 9"),
        ({"bits": (3, 3, 5)}, "not among 2, 3, 4 bits"),
    ],
)
def test_a_size_that_does_not_fit_is_told(change, says):
    """Each limit of the kernel by its name."""
    assert says in kernel.obstacle(replace(SHAPE, **change), 90_000, GB10_SHARED)
    assert "shared memory" in kernel.obstacle(SHAPE, 200_000, GB10_SHARED)
    assert not kernel.obstacle(SHAPE, 90_000, GB10_SHARED)
