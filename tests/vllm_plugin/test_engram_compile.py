"""The Engram kernels compile for both architectures without a device, at V4.1's sizes for a rank at TP4."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")
pytest.importorskip("triton", reason="no Triton here: run by scripts/check --engine")

from sparkctl_vllm.engram import device_lookup

COMPILE = """
import json
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from sparkctl_vllm.engram import triton_kernels as k

TYPES = {"table": "*u8", "read": "*u8", "staged": "*bf16", "lines": "*i32", "missing": "*i32", "count": "*i32", "slot": "*i32", "places": "*i32",
         "total": "i32", "first": "i32", "begin": "i32", "pad": "i32"}
FP8 = {"ROW": 264, "FP4": False, "LISTS": True, "BLOCK": 4}
CASES = [
    (k.row_ids, {"COLUMNS": 6, "WIDTH": 8, "HEADS": 8, "ORDER": 4}), (k.gather, FP8), (k.gather, {**FP8, "LISTS": False}),
    (k.gather, {**FP8, "ROW": 136, "FP4": True}), (k.place_rows, {"ROW": 264, "BLOCK": 4}),
]
found = []
for architecture in (90, 121):
    for kernel, sizes in CASES:
        names = kernel.arg_names
        signature = {name: "constexpr" if name in sizes else TYPES.get(name, "*i64") for name in names}
        made = triton.compile(ASTSource(fn=kernel, signature=signature, constexprs=sizes), target=GPUTarget("cuda", architecture, 32))
        found.append([kernel.__name__, architecture, len(made.asm["cubin"]), made.metadata.shared, made.asm["ptx"].count("st.local")])
print(json.dumps(found))
"""


def test_compiles_for_both_architectures(tmp_path):
    """Machine code for sm_90 and sm_121, next to no shared memory, nothing spilled."""
    plugin = Path(device_lookup.__file__).parents[2]
    clean = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE],
        env={**clean, "PYTHONPATH": str(plugin), "TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == 10
    for _, _, size, shared, spilled in found:
        assert size > 1000
        assert shared <= 4096
        assert spilled == 0
