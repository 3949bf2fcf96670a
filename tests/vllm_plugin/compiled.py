"""Triton kernels as machine code for both architectures, without a device: from the cases that a script names to what each became.

In a process of its own, because conftest.py turns on Triton's interpreter in this one.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import sparkctl_vllm

PLUGIN = Path(sparkctl_vllm.__file__).parents[1]
ARCHITECTURES = (90, 121)
COMPILE = """
import json
import re
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

PENDING = r"wgmma[.]wait_group[.]sync[.]aligned\\s+([0-9]+)"

def built(architecture, kernel, types, sizes):
    signature = {name: "constexpr" if name in sizes else types[name] for name in kernel.arg_names}
    aligned = {(at,): [["tt.divisibility", 16]] for at, name in enumerate(kernel.arg_names) if signature[name].startswith("*")}  # as torch's are
    source = ASTSource(fn=kernel, signature=signature, constexprs=sizes, attrs=aligned)
    made = triton.compile(source, target=GPUTarget("cuda", architecture, 32))
    return {"kernel": kernel.__name__, "architecture": architecture, "size": len(made.asm["cubin"]), "shared": made.metadata.shared,
            "spills": made.asm["ptx"].count("st.local"), "pending": max(map(int, re.findall(PENDING, made.asm["ptx"])), default=0)}

print(json.dumps([built(architecture, *case) for architecture in ARCHITECTURES for case in CASES]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A kernel for one architecture: bytes of machine code and of shared memory a block, stores of spilled registers, and the most products that a wait leaves running."""

    kernel: str
    architecture: int
    size: int
    shared: int
    spills: int
    pending: int


def built(cases: str, cache: Path) -> list[Built]:
    """Compile what a script puts into CASES, (kernel, types of its arguments by name, sizes by name) each, for every architecture."""
    clean = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", f"ARCHITECTURES = {ARCHITECTURES}\n{cases}\n{COMPILE}"],
        env={**clean, "PYTHONPATH": str(PLUGIN), "TRITON_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [Built(**one) for one in json.loads(done.stdout.splitlines()[-1])]
