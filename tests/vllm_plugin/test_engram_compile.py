"""The Engram kernels compile for both architectures without a device, at V4.1's sizes for a rank at TP4."""

import pytest

pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")
pytest.importorskip("triton", reason="no Triton here: run by scripts/check --engine")

from .compiled import built

CASES = """
from collections import defaultdict
from sparkctl_vllm.engram import triton_kernels as k

TYPES = defaultdict(lambda: "*i64", {
    "table": "*u8", "read": "*u8", "staged": "*bf16", "lines": "*i32", "missing": "*i32", "count": "*i32", "slot": "*i32", "places": "*i32",
    "total": "i32", "first": "i32", "begin": "i32", "pad": "i32"})
FP8 = {"ROW": 264, "FP4": False, "LISTS": True, "BLOCK": 4}
CASES = [
    (k.row_ids, TYPES, {"COLUMNS": 6, "WIDTH": 8, "HEADS": 8, "ORDER": 4}), (k.gather, TYPES, FP8), (k.gather, TYPES, {**FP8, "LISTS": False}),
    (k.gather, TYPES, {**FP8, "ROW": 136, "FP4": True}), (k.place_rows, TYPES, {"ROW": 264, "BLOCK": 4}),
]
"""


def test_compiles_for_both_architectures(tmp_path):
    """Machine code for sm_90 and sm_121, next to no shared memory, nothing spilled."""
    found = built(CASES, tmp_path)
    assert len(found) == 10
    assert all(one.size > 1000 and one.shared <= 4096 and one.spills == 0 for one in found)
