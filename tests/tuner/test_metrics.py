"""Figures and voids of benches worked out by hand: each case is a file."""

import json
from pathlib import Path
from typing import Any

import pytest

from sparkctl import edge
from tuner.metrics import measure
from tuner.request import Bench
from tuner.voids import of_bench
from tuner.workload import Workload

CASES = sorted((Path(__file__).parent / "data" / "benches").glob("*.json"))

REQUEST = {"prompt": "code", "tag": "[t]", "cached_tokens": None, "finish_reason": "length", "text": "x"}

# A case names only what it is about.
AROUND = {"warm_up": None, "burst": False, "sentinel": None}


def read(case: Path, quick: Workload) -> tuple[Bench, dict[str, Any]]:
    """Complete a case with what its figures do not depend on."""
    raw = json.loads(case.read_text(encoding="utf-8"))
    bench = {
        "workload": {**edge.plain(quick), **AROUND, "cells": raw["cells"], **raw.get("workload", {})},
        "workload_digest": "0",
        "run_tag": "t",
        "started": "2026-01-01T00:00:00Z",
        "seconds": 60.0,
        "client_cpu_share": raw.get("client_cpu_share", 0.1),
        "brackets": raw.get("brackets", []),
        "requests": [REQUEST | request for request in raw["requests"]],
    }
    return edge.structure(bench, Bench, source=case.name), raw


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_figures_are_those_worked_out_by_hand(case: Path, quick: Workload) -> None:
    """The sum stands in the case's `about`."""
    bench, raw = read(case, quick)
    found = [edge.plain(metric) for metric in measure(bench)]
    assert found == [{**one, "value": pytest.approx(one["value"])} for one in raw["metrics"]]


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_voids_name_the_request_and_the_reason(case: Path, quick: Workload) -> None:
    """A bench is void for each of the reasons in the file, and for no other."""
    bench, raw = read(case, quick)
    assert list(of_bench(bench)) == raw["voids"]
