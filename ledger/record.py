"""The tuner's values as bodies of rows: one place knows how a plan, a bench, a verdict and an end are written down.

What JSON has no word for becomes null: a bound or an estimate that cannot be known yet (nan, infinite). A request's text
is kept as its hash, its length and the server's counts; the text itself may be anything and is not for a ledger.
"""

import dataclasses
import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import cast

from launcher.vitals import Vitals
from ledger import courses, foretold
from ledger.bodies import StepState
from ledger.entry import Body, Json
from tuner import bracket, counters, lever, request, verdict
from tuner.climb import Climb
from tuner.course import Course
from tuner.noise import Noise
from tuner.predicted import Effect
from tuner.steps import Confirmed, Trial


def plan(  # noqa: PLR0913 - all named; each is a key of the row
    ladder: lever.Ladder,
    *,
    climb: str,
    simulated: bool,
    ladder_digest: str,
    recipe_digest: str,
    workload_digest: str,
    course: Course,
    noise: Noise | None = None,
    predicted: Mapping[str, tuple[Effect, ...]] | None = None,
    pace: float | None = None,
    scenario: str | None = None,
) -> Body:
    """Write the plan of a climb: what is climbed, on which recipe, asked how, what each lever sets and is predicted to do.

    `noise` is what the course was planned for. `pace` and `scenario` are those of a practice line; a climb is resumed only under the same.
    """
    return {
        "simulated": simulated,
        "climb": climb,
        "ladder": ladder.name,
        "ladder_digest": ladder_digest,
        "recipe": ladder.recipe,
        "recipe_digest": recipe_digest,
        "workload_digest": workload_digest,
        "levers": [one.id for one in ladder.levers],
        "settings": {one.id: dict(one.set) for one in ladder.levers},
        **_batteries(ladder),
        "credits": {one.id: one.credit for one in ladder.levers},
        "course": courses.write(course),
        "noise": asdict(noise) if noise else None,
        "predicted": foretold.written(predicted or {}),
        "pace": pace,
        "scenario": scenario,
    }


def _batteries(ladder: lever.Ladder) -> Body:
    """Return by lever which quality batteries it has to pass; nothing where no lever names one."""
    named = {one.id: list(one.batteries) for one in ladder.levers if one.batteries}
    return {"batteries": named} if named else {}


def boot(  # noqa: PLR0913 - all named; each is a key of the row
    *,
    boot: str,
    climb: str | None,
    on: tuple[str, ...],
    why: str,
    simulated: bool,
    recipe_digest: str,
    seconds: float,
    findings: tuple[Body, ...],
    void: bool = False,
    lowest: Mapping[str, int] | None = None,
    stages: Mapping[str, tuple[tuple[str, float], ...]] | None = None,
    accepted: Iterable[str] = (),
    evidence: Mapping[str, Mapping[str, Iterable[str]]] | None = None,
) -> Body:
    """Write a boot; `why` is empty when it came up. `seconds` are the line's.

    `void` marks a boot that says nothing of the levers (a gate stopped it, a node could not be asked): no trial.
    """
    return {
        "simulated": simulated,
        "boot": boot,
        "climb": climb,
        "on": list(on),
        "ok": not why,
        "why": _text(why),
        "void": void,
        "recipe_digest": recipe_digest,
        "seconds": seconds,
        "findings": findings,
        "lowest_available_bytes": dict(lowest or {}),
        "stages": {
            node: [[stage, round(at_s, 1)] for stage, at_s in own] for node, own in (stages or {}).items()
        },
        "accepted": sorted(accepted),
        "evidence": {
            node: {name: [_text(value) for value in values] for name, values in of_rank.items()}
            for node, of_rank in (evidence or {}).items()
        },
    }


def step(  # noqa: PLR0913 - all named; each is a key of the row
    *,
    boot: str,
    stage: str,
    state: StepState,
    why: str,
    recipe_digest: str,
    simulated: bool,
    seconds: float | None = None,
) -> Body:
    """Write that a stage of a boot began or ended, so many of the line's seconds after the boot began, where that is known."""
    return {
        "simulated": simulated,
        "boot": boot,
        "stage": stage,
        "state": state,
        "why": _text(why),
        "recipe_digest": recipe_digest,
        "seconds": None if seconds is None else round(seconds, 1),
    }


def bench(trial: Trial, taken: request.Bench | None, *, climb: str | None, simulated: bool) -> Body:
    """Write what was measured on a boot that came up, every request with it; a void's reason is kept as its void.

    Nothing was `taken` when the boot was void before its bench began (a lever not armed, an endpoint that is gone).
    """
    found: Body = {
        "simulated": simulated,
        "boot": trial.boot,
        "climb": climb,
        "on": list(trial.arm),
        "voids": [_text(trial.why)] if trial.outcome == "void" else [],
        "quality": _text(trial.quality),
        "metrics": [
            {"name": one.name, "value": one.value, "unit": one.unit, "n": one.n} for one in trial.metrics
        ],
    }
    return found if taken is None else {**found, **_taken(taken)}


def judged(found: verdict.Verdict, *, climb: str, simulated: bool) -> Body:
    """Write a verdict with all the comparisons it rests on, as `sparkctl tune --json` tells it."""
    return cast("Body", {"simulated": simulated, "climb": climb, **verdict.answer(found)})


def ended(found: Climb, *, climb: str, simulated: bool) -> Body:
    """Write the end of a climb, as the body of a note: the stack, what fresh boots say of it, and levers that break together."""
    return {
        "simulated": simulated,
        "climb": climb,
        "ended": True,
        "stack": list(found.stack),
        "why": _text(found.why),
        "confirmed": confirmed(found.confirmed),
        "broken_pairs": [list(pair) for pair in found.broken],
    }


def confirmed(found: Confirmed | None) -> Body | None:
    """Return a confirmation as plain JSON; None where there was none."""
    if found is None:
        return None
    return cast(
        "Body",
        {
            "gain": verdict.comparisons(found.gain),
            "worth": {lever: verdict.comparisons(metrics) for lever, metrics in found.worth.items()},
            "quality": _text(found.quality),
        },
    )


def retraction(n: int, *, why: str, simulated: bool) -> Body:
    """Write that row `n` counts no longer, and why."""
    return {"simulated": simulated, "retracts": n, "why": _text(why)}


def _taken(bench: request.Bench) -> Body:
    return {
        "workload": bench.workload.name,
        "workload_digest": bench.workload_digest,
        "run_tag": bench.run_tag,
        "started": bench.started,
        "seconds": bench.seconds,
        "client_cpu_share": _finite(bench.client_cpu_share),
        "requests": [_request(one) for one in bench.requests],
        "counters": _counted(bench),
        "brackets": [_bracket(one) for one in bench.brackets],
    }


def _bracket(one: bracket.Bracket) -> Body:
    """Return how the line stood between two cells; what could not be read of a node is told beside it."""
    return {
        "at_s": one.at_s,
        "step_s": one.step_s,
        "acceptance": counters.growth(one.before, one.after).acceptance if one.before and one.after else None,
        "nodes": [_node(node) for node in one.nodes],
    }


def _node(vitals: Vitals) -> Body:
    gpu, throttle, memory = vitals.gpu, vitals.throttle, vitals.memory
    return {
        "node": vitals.node,
        "sm_mhz": gpu.sm_mhz if gpu else None,
        "temperature_c": gpu.temperature_c if gpu else None,
        "power_w": gpu.power_w if gpu else None,
        "held": list(throttle.reasons) if throttle and throttle.reasons is not None else None,
        "heat_us": vitals.heat_us,
        "power_brake_us": throttle.hw_power_brake_us if throttle else None,
        "available_bytes": memory.available if memory else None,
        "swapped_bytes": vitals.swapped_bytes,
        "unread": [_text(one) for one in vitals.unread],
    }


def _counted(bench: request.Bench) -> Body | None:
    """Return what the server's own counters grew by; None where it shows none."""
    if bench.before is None or bench.after is None:
        return None
    grown = counters.growth(bench.before, bench.after)
    return {**dataclasses.asdict(grown), "acceptance": grown.acceptance}


def _request(one: request.Request) -> Body:
    plain: dict[str, Json] = {key: _plain(value) for key, value in asdict(one).items() if key != "text"}
    return plain | {"text_sha256": _hash(one.text), "text_chars": len(one.text)}


def _hash(text: str) -> str:
    """Return what `ledger.replies` keeps a text under; it writes files, and this module does not."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _plain(value: float | str | None) -> Json:
    if isinstance(value, float):
        return _finite(value)
    return _text(value) if isinstance(value, str) else value


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _text(value: str) -> str:
    """Return the text with half surrogate pairs spelled out: a server's broken bytes must not cost the row."""
    return value.encode("utf-8", "backslashreplace").decode()
