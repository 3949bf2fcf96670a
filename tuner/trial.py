"""Trial: boot one configuration with the whole ritual, bench it, and say how it ended. I/O joined, one boot at a time.

A boot stopped by a gate says something of the nodes, not of the lever: it is void and will be repeated. A boot whose
ranks die, or whose answers are not sensible, is a failure of what was booted. A bench with a fault is void.
"""

from collections.abc import Callable
from dataclasses import dataclass

from launcher import boot as ritual
from launcher import launch
from sparkctl.clock import Clock
from sparkctl.errors import Unclear
from tuner import bench, metrics
from tuner.ladder import Trial
from tuner.lever import Lever
from tuner.request import Bench
from tuner.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """One finished boot with all that was seen: the ritual's end, the bench if there was one, and the trial."""

    boot: ritual.Boot
    bench: Bench | None
    trial: Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Whom a trial tells what it is doing."""

    boot: ritual.Report
    bench: Callable[[str], None]


def run(
    plan: ritual.Plan, workload: Workload, on: tuple[Lever, ...], *, clock: Clock, watcher: Watcher
) -> Finished:
    """Boot the plan, prove that every lever is armed, and run the workload once.

    Raises:
        Unclear: a node could not be judged or reached; nothing can be said of the levers.

    """
    booted = ritual.boot(plan, clock, watcher.boot)
    arm = tuple(lever.id for lever in on)
    if booted.unclear:
        raise Unclear(
            f"{booted.node}: {booted.why}", hint=booted.hint or "mend the node, then go on with tune --resume"
        )
    if not booted.ok:
        of_the_nodes = booted.stage in {"check", "settle"}
        trial = Trial(
            boot=plan.boot,
            arm=arm,
            outcome="void" if of_the_nodes else "failed",
            why=f"{booted.node}: {booted.why}",
        )
        return Finished(boot=booted, bench=None, trial=trial)
    unarmed = _unarmed(plan, on)
    measured = bench.run(
        bench.Endpoint(url=plan.line.url, model=plan.recipe.model.served_name),
        workload,
        run_tag=plan.boot,
        clock=clock,
        report=watcher.bench,
    )
    voids = (*unarmed, *metrics.voids(measured))
    trial = Trial(
        boot=plan.boot,
        arm=arm,
        outcome="void" if voids else "measured",
        why="; ".join(voids),
        metrics=metrics.measure(measured),
    )
    return Finished(boot=booted, bench=measured, trial=trial)


def _unarmed(plan: ritual.Plan, on: tuple[Lever, ...]) -> tuple[str, ...]:
    """Return a void for each lever whose proof is missing from the head's log."""
    asked = [lever for lever in on if lever.armed]
    log = launch.head_log(plan.line, plan.commands()[0]) if asked else ""
    return tuple(
        f"{lever.id} is not armed: no {lever.armed!r} in the head's log"
        for lever in asked
        if lever.armed not in log
    )
