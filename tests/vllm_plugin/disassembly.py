"""What a compiled kernel is made of: its machine code as text, and the loops of tensor-core products in it."""

import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

GAP = 80
"""Products that are further apart than this many instructions belong to different loops."""


def disassembler() -> str:
    """The path of cuobjdump: CUDA's own, or the one that Triton brings."""
    beside = [Path(one) / "triton/backends/nvidia/bin/cuobjdump" for one in sys.path]
    found = shutil.which("cuobjdump") or next((str(one) for one in beside if one.is_file()), "")
    if not found:
        pytest.skip("no cuobjdump: neither CUDA's nor Triton's")
    return found


def instructions(library: Path) -> list[list[str]]:
    """The instructions of each kernel of a library."""
    text = subprocess.run(
        [disassembler(), "--dump-sass", str(library)], capture_output=True, text=True, check=True
    ).stdout
    kernels = re.split(r"\n\s*Function : ", text)[1:]
    return [re.findall(r"/\*[0-9a-f]{4,}\*/\s+(.*?);", kernel) for kernel in kernels]


def loops(kernel: list[str], product: str = "HMMA", gap: int = GAP) -> list[range]:
    """From the first to the last product of each loop."""
    products = [place for place, one in enumerate(kernel) if product in one]
    begins = [
        0,
        *(at for at in range(1, len(products)) if products[at] - products[at - 1] > gap),
        len(products),
    ]
    return [range(products[a], products[b - 1]) for a, b in pairwise(begins)]
