"""Ranks agree on depths and accounts without a word, over real processes; what rank fill reads and saves; the mini model over ranks."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")

import mini_moe
import rank_agreement
import rank_graphs
import rank_layouts
from sparkctl_vllm import loads, waterfill

from . import mini

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "budget_ranks.py"


def run(*words):
    """Run the benchmark on the CPU."""
    argv = [sys.executable, str(PROGRAM), "--backend", "gloo", *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=500)


def test_four_processes_agree_bit_for_bit(tmp_path):
    """Each plans for itself; depths and accounts come out equal."""
    path = tmp_path / "found.json"
    done = run("--ranks", 4, "--parts", "agreement", "--steps", 150, "--experts", 24, "--rows", 8, "-o", path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(path.read_text())["agreement"]
    assert set(found) == {"TP4 even", "TP4 uneven", "EP4"}
    assert all(one["agree"] and one["owed"] > 0 and one["deep"] > 0 for one in found.values())


def test_the_mini_model_says_the_same_over_two_processes(tmp_path):
    """Sliced or whole experts, full and cut."""
    torch.manual_seed(0)
    mini_moe.saved(mini.model(), tmp_path / "mini", {})
    path = tmp_path / "found.json"
    done = run("--ranks", 2, "--parts", "mini", "--mini", tmp_path / "mini", "-o", path)
    assert done.returncode == 0, done.stdout + done.stderr
    for ranks in json.loads(path.read_text())["mini"].values():
        first = ranks[0]
        assert first["full: over ranks against in one process"]["largest difference"] < 1e-4
        assert first["half: over ranks against in one process"]["largest difference"] < 1e-4
        assert first["full: against the unsplit model"]["largest difference"] < 1e-4
        assert first["half: against the unsplit model"]["kl"] > 1e-6, "nothing was cut"


def test_a_rank_that_plans_otherwise_is_found():
    """The comparison can fail."""
    layout = rank_layouts.layouts(2, experts=12)[0]
    table = rank_agreement.tables(layout, 3)[1]

    def honest(picks, weights, valid, price, floor):
        return waterfill.cleared(loads.loads(picks, weights, len(table), valid), table, price, floor)

    def shallow(picks, weights, valid, price, floor):
        return np.minimum(honest(picks, weights, valid, price, floor), 3)

    true, false = (rank_agreement.agreement(layout, 1, planned, 150, 8, 3) for planned in (honest, shallow))
    assert true.wrong == 0
    assert false.wrong > 0
    assert rank_agreement.agreed([true, true])
    assert not rank_agreement.agreed([true, false])


@pytest.mark.parametrize(
    ("ranks", "widths"),
    [(4, (512, 640, 640, 512)), (2, (1280, 1024)), (3, (896, 768, 640)), (5, (384, 512, 512, 512, 384))],
)
def test_uneven_slices_are_whole_blocks(ranks, widths):
    """Four ranks have the widths that EXL3 gives V4.1-Flash."""
    uneven = next(one for one in rank_layouts.layouts(ranks) if "uneven" in one.name)
    assert uneven.widths == widths
    assert sum(uneven.widths) == 2304


def test_every_pick_belongs_to_one_rank():
    """Expert parallel leaves out no pick and doubles none."""
    layout = next(one for one in rank_layouts.layouts(4) if one.held)
    picks, _ = rank_layouts.routing(5, 8, layout, 0.6, 1)
    for step in picks:
        owners = sum((layout.local(step, rank) >= 0).astype(int) for rank in range(4))
        assert (owners == 1).all()
        assert all((np.diff(np.sort(row)) > 0).all() for row in step), "an expert twice"


def test_rank_fill_saves_damage_at_the_same_slowest_bytes(monkeypatch):
    """Where ranks have unequal loads or widths, what one price leaves unread on the others is filled."""
    monkeypatch.setattr(rank_graphs, "POOL", 4)
    monkeypatch.setattr(rank_graphs, "DIFFERENT", 2)
    for layout in rank_layouts.layouts(4, experts=96):
        steps = rank_graphs.Steps(layout, 8, 1)
        one, fill = (steps.planned(way(0.5)) for way in (steps.one_price, steps.filled))
        assert (fill.tiles.max(axis=2) <= one.tiles.max(axis=2)).all(), (
            "rank fill reads more than the slowest rank"
        )
        assert (fill.damage <= one.damage * (1 + 1e-9)).all()
        if "even" not in layout.name or "uneven" in layout.name:
            assert fill.damage.mean() < 0.98 * one.damage.mean()
