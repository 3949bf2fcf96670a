"""Predictions of a climb beside what was measured."""

from pathlib import Path

import pytest

from ledger import courses
from ledger.history import climbs
from ledger.journal import Journal
from ledger.misses import Miss, misses, unmodelled
from ledger.record import plan
from sparkctl import content, edge
from sparkctl.cli import lever_effects, served
from sparkctl.cli.session import Session
from sparkctl.console import Console
from tuner.lever import Ladder

LEDGER = Path(__file__).parent / "golden" / "predicted_climb.jsonl"


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], Miss]:
    """The misses of the golden ledger's climb, by lever and metric."""
    (climb,) = climbs(Journal(LEDGER).read().rows)
    return {(one.lever, one.predicted.metric): one for one in misses(climb)}


def test_a_cache_is_compared_as_the_boots_logged_it(found: dict[tuple[str, str], Miss]) -> None:
    """The smallest rank of two boots that differ in the lever alone: 3,409,992 against 2,561,073, predicted 3,411,140."""
    miss = found["longer", "kv_tokens"]
    assert miss.measured is not None
    assert miss.measured.estimate == pytest.approx(3409992 / 2561073)
    assert miss.error == pytest.approx(3409992 / 3411140 - 1)
    assert not miss.open


@pytest.mark.parametrize(
    ("lever", "metric", "error", "is_open"),
    [
        ("drafts-7", "c1_per_stream_tok_s", 0.0, True),
        ("drafts-7", "c6_agg_tok_s", 0.87 / 0.88 - 1, True),
        ("whole-experts", "c1_per_stream_tok_s", 0.86 / 0.7 - 1, False),
    ],
    ids=["within", "the interval reaches it", "wrong"],
)
def test_a_speed_is_compared_with_the_verdicts_effect(
    *, found: dict[tuple[str, str], Miss], lever: str, metric: str, error: float, is_open: bool
) -> None:
    """The error counts from the nearer end of the predicted range, and is open while the interval still reaches that."""
    miss = found[lever, metric]
    assert miss.error == pytest.approx(error)
    assert miss.open is is_open


def test_what_was_not_measured_has_no_error(found: dict[tuple[str, str], Miss]) -> None:
    """A lever that was never booted keeps its prediction and nothing beside it."""
    miss = found["kv-24", "kv_tokens"]
    assert (miss.measured, miss.error) == (None, None)


def test_levers_without_a_model_are_named() -> None:
    """No prediction is not a prediction of nothing; a plan from before predictions were written names none."""
    (climb,) = climbs(Journal(LEDGER).read().rows)
    assert unmodelled(climb) == ("nccl-channels",)
    (old,) = climbs(Journal(LEDGER.with_name("practice_climb.jsonl")).read().rows)
    assert (misses(old), unmodelled(old)) == ((), ())


def test_a_plan_keeps_what_is_predicted_of_a_ladder_that_ships(tmp_path: Path) -> None:
    """What `tune --plan` says of every lever is in the plan row, and is read back as it was."""
    ladder = edge.read(content.ladder("v41-flash"), Ladder)
    session = Session(
        console=Console(),
        state=tmp_path,
        inventory_path=Path(__file__).parents[2] / "inventory.example.yml",
    )
    effects = lever_effects.of_ladder(served.choose(session, "A", ladder.recipe, None), ladder)
    assert any(effects.values())
    body = plan(
        ladder,
        climb="c",
        simulated=False,
        ladder_digest="",
        recipe_digest="",
        workload_digest="",
        course=courses.OLD,
        predicted=effects,
    )
    journal = Journal(tmp_path / "ledger.jsonl")
    journal.append("plan", "A", body, "2026-10-03T00:00:00Z")
    (climb,) = climbs(journal.read().rows)
    assert climb.plan.predicted == dict(effects)
