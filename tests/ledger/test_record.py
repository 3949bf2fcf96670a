"""The tuner's values written down and read back: a climb through the ledger is the climb itself."""

import math
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from ledger import bodies, conclusions, record
from ledger.best import best
from ledger.codec import decode, encode
from ledger.entry import chain
from ledger.history import last_climb, told
from ledger.journal import Journal
from ledger.render import render
from sparkctl import edge
from tuner.climb import Climb, Event, climb
from tuner.course import Course, standing
from tuner.factorial.plan import plan
from tuner.lever import Boots, Guard, Ladder, Lever
from tuner.metrics import Metric
from tuner.noise import Noise
from tuner.request import Bench, Request
from tuner.statistics import Comparison
from tuner.steps import Boot, Trial
from tuner.verdict import Verdict, answer
from tuner.workload import Workload

AT = "2026-09-11T11:38:00Z"
SPEED = {"ROCE": 1.08, "HOT": 0.93}
ROOT = Path(__file__).parents[2]


def _lever(name: str) -> Lever:
    return Lever(
        id=name, about=name, set={f"env.{name}": 1}, kind="speed", source="made up", credit="made up"
    )


LADDER = Ladder(
    schema=1,
    name="quick",
    recipe="flash",
    workload="quick",
    source="made up",
    primary=("c1",),
    guards=(Guard(metric="prefill", most_loss=0.05),),
    min_gain=0.02,
    error=0.05,
    boots=Boots(least=3, most=5),
    levers=(_lever("ROCE"), _lever("BAD"), _lever("HOT")),
)
COURSE = Course(design="ladder", rule="proof", seed=7, plan=None)
BLOCKS = Course(
    design="factorial",
    rule="proof",
    seed=3,
    plan=plan(LADDER, Noise(scatter={"c1": 0.01, "prefill": 0.015}, correlation=0.45)),
)


def _trial(boot: Boot) -> Trial:
    """Boot number n of a made-up line: no lever BAD comes up, every seventh boot is void, noise of half a percent."""
    name = f"b{boot.number}"
    if "BAD" in boot.on:
        return Trial(boot=name, arm=boot.on, outcome="failed", why="rank 2 left with 1")
    if boot.number % 7 == 0:
        return Trial(boot=name, arm=boot.on, outcome="void", why="slow state on spark-a1")
    value = 60 * math.prod(SPEED[lever] for lever in boot.on) * (1 + 0.005 * math.sin(boot.number))
    metrics = (
        Metric(name="c1", value=value, unit="tok/s", n=8),
        Metric(name="prefill", value=1400 + math.cos(boot.number), unit="tok/s", n=1),
    )
    return Trial(boot=name, arm=boot.on, outcome="measured", metrics=metrics)


def _recorder(journal: Journal) -> Callable[[Event], None]:
    def note(event: Event) -> None:
        match event:
            case Verdict():
                journal.append("verdict", "A", record.judged(event, climb="c1", simulated=True), AT)
            case Trial():
                up = event.outcome != "failed"
                boot = record.boot(
                    boot=event.boot,
                    climb="c1",
                    on=event.arm,
                    why="" if up else event.why,
                    simulated=True,
                    recipe_digest="r",
                    seconds=400.0,
                    findings=(),
                )
                journal.append("boot", "A", boot, AT)
                if up:
                    journal.append("bench", "A", record.bench(event, None, climb="c1", simulated=True), AT)

    return note


def _planned(path: Path, course: Course = COURSE) -> Journal:
    journal = Journal(path)
    plan = record.plan(
        LADDER,
        climb="c1",
        simulated=True,
        ladder_digest="l",
        recipe_digest="r",
        workload_digest="w",
        course=course,
        pace=40.0,
        scenario="calm",
    )
    journal.append("plan", "A", plan, AT)
    return journal


def _resumed(journal: Journal, most: int | None = None) -> Climb:
    """Go on with the last climb for at most that many boots, then break off as an interrupt does."""
    found = last_climb(journal.read().rows, "A", simulated=True)
    assert found is not None
    left: Iterator[int] = count() if most is None else iter(range(most))

    def measure(boot: Boot) -> Trial:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return _trial(boot)

    course = found.plan.course
    noted = told(found, standing(course, LADDER, found.trials).verdicts)
    return climb(LADDER, course, found.trials, measure, _recorder(journal), told=noted)


@pytest.mark.parametrize("course", [COURSE, BLOCKS], ids=["ladder", "blocks"])
def test_a_resumed_climb_is_the_uninterrupted_one(tmp_path: Path, course: Course) -> None:
    """Broken off after every other boot, a climb leaves the same rows and the same verdicts as in one go."""
    whole = _planned(tmp_path / "whole.jsonl", course)
    wanted = _resumed(whole)
    assert sorted(one.verdict for one in wanted.verdicts) == ["accept", "reject", "reject"]
    pieces = _planned(tmp_path / "pieces.jsonl", course)
    found = None
    while found is None:
        try:
            found = _resumed(pieces, most=2)
        except KeyboardInterrupt:
            continue
    assert found == wanted
    assert pieces.read().rows == whole.read().rows


def test_a_climb_ends_up_in_the_report(tmp_path: Path) -> None:
    """After its end a climb is the best configuration, with what its lever sets, its pace and its label."""
    journal = _planned(tmp_path / "ledger.jsonl")
    found = _resumed(journal)
    end = record.ended(found, climb="c1", simulated=True)
    journal.append("note", "A", end, AT)
    rows = journal.read().rows
    assert (bodies.plan(rows[0].body).pace, bodies.plan(rows[0].body).scenario) == (40.0, "calm")
    ended = last_climb(rows, "A", simulated=True)
    assert ended is not None
    assert ended.ended is not None
    (line,) = best(rows)
    assert line.stack == ("ROCE",)
    assert line.figures[0].mean == pytest.approx(60 * 1.08, rel=0.01)
    text = render(rows)
    assert "- ROCE, `env.ROCE = 1`" in text
    assert "at 40 times real pace" in text


def test_a_retracted_boot_is_decided_anew(tmp_path: Path) -> None:
    """After a bench was retracted, verdicts that no longer follow are noted again and the later ones count."""
    journal = _planned(tmp_path / "ledger.jsonl")
    _resumed(journal)
    gone = next(
        row.n for row in journal.read().rows if row.body.get("on") == ["ROCE"] and row.kind == "bench"
    )
    journal.append("retract", "A", record.retraction(gone, why="the wrong image", simulated=True), AT)
    found = last_climb(journal.read().rows, "A", simulated=True)
    assert found is not None
    verdicts = standing(COURSE, LADDER, found.trials).verdicts
    assert told(found, verdicts) == len(verdicts) < 3
    assert [one.verdict for one in _resumed(journal).verdicts] == ["accept", "reject", "reject"]


def test_what_is_not_known_yet_is_null() -> None:
    """An infinite bound and an estimate that is not a number are written as null and read as absent."""
    comparison = Comparison(
        estimate=math.nan,
        low=0.0,
        high=math.inf,
        confidence=0.9,
        error=math.nan,
        scatter=math.nan,
        n_arm=0,
        n_base=1,
        degrees=0,
        warnings=("too few boots",),
    )
    verdict = Verdict(
        lever="ROCE",
        verdict="inconclusive",
        metrics={"c1": comparison},
        boots=1,
        voids=0,
        seed_rule="none",
        why="half a pair: \ud83d",
        wanted=3,
    )
    body = record.judged(verdict, climb="c1", simulated=True)
    row = decode(encode(chain(None, kind="verdict", line="A", body=body, at=AT)))
    assert row.body == {"simulated": True, "climb": "c1", **answer(verdict)}
    (effect,) = conclusions.verdict(row.body).effects
    assert (effect.estimate, effect.low, effect.high) == (None, 0.0, None)


def test_a_bench_keeps_every_request() -> None:
    """Each request is kept with its counts, times and the hash of its text; the text itself is not."""
    workload = edge.read(ROOT / "tests" / "ledger" / "workload.yml", Workload)
    request = Request(
        cell="c1",
        round=0,
        stream=0,
        prompt="p1",
        tag="t",
        sent_s=0.0,
        ttft_s=math.nan,
        total_s=2.0,
        prompt_tokens=12,
        completion_tokens=None,
        cached_tokens=0,
        finish_reason="stop",
        text="secret \ud83d",
        fault="no usage",
    )
    taken = Bench(
        workload=workload,
        workload_digest="w",
        run_tag="r",
        started=AT,
        seconds=3.0,
        client_cpu_share=0.1,
        requests=(request,),
    )
    trial = Trial(boot="b1", arm=("ROCE",), outcome="void", why="no usage")
    body = record.bench(trial, taken, climb=None, simulated=False)
    line = encode(chain(None, kind="bench", line="A", body=body, at=AT)).decode()
    assert "secret" not in line
    assert '"ttft_s":null' in line
    assert '"text_chars":8' in line
    assert bodies.bench(body).voids == ("no usage",)
