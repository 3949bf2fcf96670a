"""What a climb tells before its first boot, and what it makes of the figures of others: no node is asked."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledger import calibrations
from ledger.journal import Journal
from sparkctl import cli
from tuner.metrics import Metric

Planned = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the example inventory in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPARKCTL_INVENTORY", raising=False)
    example = Path(__file__).parents[2] / "inventory.example.yml"
    (tmp_path / "inventory.yml").write_text(example.read_text(encoding="utf-8"), encoding="utf-8")
    return tmp_path


@pytest.fixture
def planned(folder: Path, capsys: pytest.CaptureFixture[str]) -> Planned:
    """Plan a climb and give the answer."""
    assert folder.exists()

    def of(*arguments: str) -> dict[str, Any]:
        assert cli.run(["tune", "--plan", "--json", *arguments]) == 0
        return json.loads(capsys.readouterr().out)

    return of


def test_a_plan_says_what_it_costs_and_what_it_is_worth(
    planned: Planned, capsys: pytest.CaptureFixture[str]
) -> None:
    """Boots, hours and power; the same on a screen, where a budget that buys little is called so."""
    whole = planned("--ladder", "quick")
    assert (whole["design"], whole["rule"], whole["runs"]["most"]) == ("factorial", "proof", 40)
    assert whole["expected_boots"] < whole["most_boots"]
    assert whole["power"]["c6_agg_tok_s"]["0.04"] > 0.9
    poor = planned("--ladder", "quick", "--boots", "10")
    assert poor["most_boots"] == 10
    assert poor["power"]["c6_agg_tok_s"]["0.04"] < 0.5
    assert cli.run(["tune", "--plan", "--ladder", "quick", "--boots", "10"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "this budget buys little" in told
    assert "as others report it" in told


def test_hours_are_boots_at_the_pace_of_the_line(planned: Planned) -> None:
    """Twelve minutes a boot where the ledger knows none: five an hour."""
    assert planned("--ladder", "quick", "--budget", "6h")["most_boots"] == 30
    assert planned("--ladder", "quick", "--budget", "90m")["most_boots"] == 7


def test_other_designs_are_planned_too(planned: Planned) -> None:
    """One lever at a time costs more for less; the seeds' rule promises nothing."""
    alone = planned("--ladder", "v41-flash", "--design", "ladder")
    assert alone["runs"] is None
    assert alone["most_boots"] > planned("--ladder", "v41-flash")["most_boots"]
    assert planned("--ladder", "quick", "--rule", "seed")["power"] == {}


def test_levers_without_number_are_planned_honestly(planned: Planned) -> None:
    """Thirty-three levers cannot be told apart in thirty boots: no power at all, and the plan of all takes more than a hundred."""
    assert set(planned("--ladder", "v41-flash", "--boots", "30")["power"]["c6_agg_tok_s"].values()) == {0.0}
    assert planned("--ladder", "v41-flash")["expected_boots"] > 100


def test_figures_of_others_prove_nothing_by_themselves(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The public ladder: one boot a row, so every lever stays open, with the boots a proof takes."""
    assert cli.run(["ledger", "import", "--state", str(folder / ".sparkctl")]) == 0
    capsys.readouterr()
    assert cli.run(["tune", "--judge-only", "--json"]) == 4
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == 19
    accepted = [one for one in rows if one["reading"]["theirs"] == "accept"]
    assert any(one["chance"] > 0.2 for one in accepted), (
        "a gain that was taken and that noise reads one time in five"
    )
    assert all(one["boots"] >= 6 for one in rows)


def test_v41bench_results_of_others_are_judged_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run of eleven boots by v41bench: each row against what it was tried on, all left open, a loss as well as a gain."""
    assert cli.run(["ledger", "import", "v41bench_speedrun", "--state", str(folder / ".sparkctl")]) == 0
    capsys.readouterr()
    assert cli.run(["tune", "--judge-only", "--json"]) == 4
    rows = {one["reading"]["row"]: one for one in json.loads(capsys.readouterr().out)["rows"]}
    assert len(rows) == 10
    assert rows["e01-nccl-ch8"]["against"] == "00-baseline"
    assert rows["e03-b12x"]["against"] == rows["e19-roce"]["against"] == "e02-ch8-fast"
    assert rows["b1-idxsplit"]["against"] == "b1-best"
    assert rows["e01-nccl-ch8"]["ratios"]["c6_agg_tok_s"] == pytest.approx(184.21 / 167.68)
    assert (rows["e05-k10"]["seed_rule"], rows["e01-nccl-ch8"]["seed_rule"]) == ("reject", "accept")
    assert all(one["boots"] >= 2 for one in rows.values())


def test_a_history_that_does_not_ship_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With those that do."""
    assert cli.run(["ledger", "import", "public_lader", "--state", str(folder / ".sparkctl")]) == 2
    told = capsys.readouterr().err
    assert "public_ladder, v41bench_speedrun" in told


def test_a_plan_rests_on_the_calibration_of_the_line(planned: Planned, folder: Path) -> None:
    """Three boots of the base on the same grounds replace what others report; those of another recipe do not."""
    before = planned("--ladder", "quick")["noise"]
    assert before["boots"] == 0
    journal = Journal(folder / ".sparkctl" / "ledger.jsonl")
    for at, value in enumerate((60.0, 63.0, 58.0)):
        passes = [(Metric(name="c6_agg_tok_s", value=3 * value, unit="tok/s", n=6),)]
        body = calibrations.write(
            boot=str(at), grounds={"recipe_digest": "another"}, passes=passes, voids=(), simulated=False
        )
        journal.append("calibration", "A", body, "2026-10-03T00:00:00Z")
    assert planned("--ladder", "quick")["noise"] == before
