"""Climbs by factorial blocks over real SSH, on lines with known levers: the verdicts of the program are those of a simulation.

The simulation draws each boot by the model that the practice line serves by, without nodes, and climbs in one process; both
draw their orders from the same seed. Three of the climbs are killed at a random step and resumed.
"""

import math
import random
import signal
import time
from pathlib import Path

import pytest

from ledger.journal import Journal
from rehearsal import model
from rehearsal import scenario as scenarios
from sparkctl import edge
from sparkctl.cli import workloads
from tuner.climb import Climb, climb
from tuner.course import Course
from tuner.factorial.plan import plan
from tuner.lever import Ladder
from tuner.metrics import Metric
from tuner.noise import reported
from tuner.outlook import runs_for
from tuner.steps import Boot, Trial
from tuner.workload import quantities

from .conftest import Program

pytestmark = [pytest.mark.cluster, pytest.mark.full]

LADDERS = Path(__file__).parent / "ladders"
BOOTS = 30
REAL = {"nccl-channels", "async-scheduling"}

NOISY = {"healthy"}
"""Scenarios with a fleet's noise: the line and the simulation draw other boots, so one may leave open what the other decides."""

CLIMBS = [
    # scenario, ladder, seed, killed, levers that must be accepted, levers that must be rejected
    ("calm", "five", 1, False, REAL, set()),
    ("drifting", "five", 2, True, REAL, set()),
    ("calm", "failing", 3, True, REAL, {"b12x-mxfp8"}),
    ("calm", "useless", 4, True, set(), set()),
    ("healthy", "five", 5, False, set(), set()),
]


@pytest.mark.parametrize(("scenario", "ladder", "seed", "killed", "accepted", "rejected"), CLIMBS)
def test_program_and_simulation_agree(  # noqa: PLR0913, PLR0917 - a row of the table
    tmp_path: Path,
    scenario: str,
    ladder: str,
    seed: int,
    killed: bool,  # noqa: FBT001 - a column of the table
    accepted: set[str],
    rejected: set[str],
) -> None:
    """Same levers accepted, same levers rejected, nothing useless accepted; the stack serves at the end."""
    rungs = edge.read(LADDERS / f"{ladder}.yml", Ladder)
    program = Program(tmp_path / "state")
    try:
        document = climbed(program, scenario, rungs.name, seed, killed=killed)
        serving = program("status", "--rehearsal", "--json")
    finally:
        program("rehearse", "down")
    verdicts = {one["lever"]: one["verdict"] for one in document["verdicts"]}
    foreseen = simulated(scenarios.named(scenario), rungs, seed)
    expected = {one.lever: one.verdict for one in foreseen.verdicts}
    if scenario in NOISY:
        assert verdicts.keys() == expected.keys()
        open_to_one = {lever for lever in expected if "inconclusive" in {verdicts[lever], expected[lever]}}
        verdicts, expected = (
            {lever: verdict for lever, verdict in one.items() if lever not in open_to_one}
            for one in (verdicts, expected)
        )
    assert verdicts == expected
    assert accepted <= set(document["stack"]) <= REAL
    assert rejected <= {lever for lever, verdict in verdicts.items() if verdict == "reject"}
    assert serving.document["state"] == "serving"


def test_a_pair_that_breaks_together_is_named(tmp_path: Path) -> None:
    """Each of the two boots without the other; the end of the climb names them, and one of them may still win."""
    program = Program(tmp_path / "state")
    try:
        document = climbed(program, "toxic-pair", "five", 6, killed=False)
    finally:
        program("rehearse", "down")
    assert document["broken_pairs"] == [["nccl-buffers", "nccl-channels"]]
    assert set(document["stack"]) <= REAL


def test_a_line_that_flips_and_stays_slow_pauses_the_climb(tmp_path: Path) -> None:
    """The bench in which it flips is void, later boots stop at the gate, and the climb says which node and judges no lever."""
    program = Program(tmp_path / "state")
    try:
        ended = program(*command("slow-flip", "five", 7), limit_s=900)
    finally:
        program("rehearse", "down")
    said = ended.err + ended.out
    assert ended.code == 1, said
    assert "the climb pauses" in said
    assert "spark-a2" in said
    rows = Journal(program.state / "ledger.jsonl").read().rows
    benches = [row.body for row in rows if row.kind == "bench"]
    assert benches
    assert all(one["voids"] for one in benches)
    assert not [row for row in rows if row.kind == "verdict"]


def command(scenario: str, ladder: str, seed: int) -> tuple[str, ...]:
    """The climb as one would type it."""
    path = str(LADDERS / f"{ladder}.yml")
    budget = ("--boots", str(BOOTS), "--seed", str(seed))
    return ("tune", "--rehearsal", "--scenario", scenario, "--line", "A", "--ladder", path, *budget, "--json")


def climbed(program: Program, scenario: str, ladder: str, seed: int, *, killed: bool) -> dict:
    """Climb to the end, if so by way of a SIGKILL somewhere and a resume."""
    if not killed:
        ended = program(*command(scenario, ladder, seed), limit_s=1500)
    else:
        running = program.start(*command(scenario, ladder, seed))
        random_place = random.Random(seed)  # noqa: S311 - a place to kill at
        journal, wanted = Journal(program.state / "ledger.jsonl"), random_place.randint(2, 14)
        until = time.monotonic() + 900
        while sum(row.kind == "bench" for row in journal.read().rows) < wanted and time.monotonic() < until:
            time.sleep(0.2)
        time.sleep(random_place.uniform(0, 8))
        running.send_signal(signal.SIGKILL)
        running.communicate()
        path = str(LADDERS / f"{ladder}.yml")
        ended = program(
            "tune",
            "--rehearsal",
            "--line",
            "A",
            "--ladder",
            path,
            "--boots",
            str(BOOTS),
            "--resume",
            "--json",
            limit_s=1500,
        )
    assert ended.code in {0, 4}, ended.err
    assert program("ledger", "verify").code == 0
    return ended.document


def simulated(weather: scenarios.Scenario, rungs: Ladder, seed: int) -> Climb:
    """Climb the same ladder by the same course on boots drawn from the model, within the same budget."""
    noise = reported(quantities(workloads.read(rungs.workload)))
    course = Course(
        design="factorial", rule="proof", seed=seed, plan=plan(rungs, noise, runs_for(rungs, BOOTS))
    )
    return climb(
        rungs, course, (), drawn(weather, rungs), lambda _: None, enough=lambda done: len(done) >= BOOTS
    )


def drawn(weather: scenarios.Scenario, rungs: Ladder):  # noqa: ANN201 - a function that measures
    """What the practice line would measure, apart from what the bench adds."""
    effects = scenarios.levers(weather)
    settings = {lever.id: dict(lever.set) for lever in rungs.levers}

    def measure(step: Boot) -> Trial:
        keys = {key: str(value) for name in step.on for key, value in settings[name].items()}
        pulled = [
            one
            for one in effects
            if all(str(wanted) in keys.get(key, "").split(",") for key, wanted in one.when.items())
        ]
        name = str(step.number)
        if any(one.breaks for one in pulled):
            return Trial(boot=name, arm=step.on, outcome="failed", why="broken")
        speed = model.boot_speed(weather.noise, weather.seed, step.number)
        for one in pulled:
            speed = speed.times(model.Speed(c1=one.effect.c1, c6=one.effect.c6, prefill=one.effect.prefill))
        values = {
            "c1_per_stream_tok_s": 57 * speed.at(1),
            "c6_agg_tok_s": 178 * speed.at(6),
            "prefill_47k_tok_s": 1400 * speed.prefill,
        }
        assert all(math.isfinite(value) for value in values.values())
        metrics = tuple(Metric(name=key, value=value, unit="tok/s", n=1) for key, value in values.items())
        return Trial(boot=name, arm=step.on, outcome="measured", metrics=metrics)

    return measure
