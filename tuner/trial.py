"""Trial: boot one configuration with the whole ritual, bench it, and say how it ended. I/O joined, one boot at a time.

A boot that a gate stopped, or whose node could not be asked, says something of the nodes and nothing of the levers: it
gives no trial. A boot whose ranks died, or whose answers are not sensible, is a failure of what was booted. A boot
that came up and could not be measured soundly is void.
"""

from collections.abc import Callable
from dataclasses import dataclass

from launcher import glance
from launcher import plan as plans
from sparkctl.clock import Clock
from sparkctl.errors import Unclear
from sparkctl.shell import Shell
from tuner import bench, metrics, voids
from tuner.lever import Lever
from tuner.request import Bench
from tuner.steps import Trial
from tuner.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Whom a trial tells what it is doing."""

    boot: plans.Report
    bench: Callable[[str], None]


def of_boot(booted: plans.Boot, arm: tuple[str, ...]) -> Trial | None:
    """Return what a boot that did not get ready proves against what was booted, or None when it proves nothing."""
    if not booted.blames_what_was_booted:
        return None
    return Trial(boot=booted.boot, arm=arm, outcome="failed", why=f"{booted.node}: {booted.why}")


def measure(  # noqa: PLR0913 - two are named
    plan: plans.Plan,
    booted: plans.Boot,
    workload: Workload,
    on: tuple[Lever, ...],
    *,
    clock: Clock,
    watcher: Watcher,
    tag: str = "",
) -> tuple[Trial, Bench | None]:
    """Prove that every lever of a line that is ready is armed, and run the workload once.

    `tag` makes the prompts of a further pass over one boot its own; without it they are the boot's, and a second pass finds them cached.
    What cannot be had (an endpoint that is gone) makes the trial void with its reason, never a failure.
    """
    arm = tuple(lever.id for lever in on)
    unarmed = _unarmed(booted, on)
    if unarmed:
        return Trial(boot=plan.boot, arm=arm, outcome="void", why="; ".join(unarmed)), None
    endpoint = bench.Endpoint(
        url=plan.line.url, model=plan.recipe.model.served_name, key_file=plan.line.api_key_file
    )
    try:
        with Shell(plan.line) as shell:
            measured = bench.run(
                endpoint,
                workload,
                run_tag=tag or plan.boot,
                clock=clock,
                report=watcher.bench,
                look=lambda: glance.read(shell),
            )
    except Unclear as fault:
        return Trial(boot=plan.boot, arm=arm, outcome="void", why=fault.message), None
    reasons = voids.of_bench(measured)
    trial = Trial(
        boot=plan.boot,
        arm=arm,
        outcome="void" if reasons else "measured",
        why="; ".join(reasons),
        metrics=metrics.measure(measured),
    )
    return trial, measured


def sought(on: tuple[Lever, ...]) -> tuple[str, ...]:
    """Return what must stand in the ranks' logs for the levers to count as armed."""
    return tuple(lever.armed for lever in on if lever.armed)


def _unarmed(booted: plans.Boot, on: tuple[Lever, ...]) -> tuple[str, ...]:
    """Return a void for each lever whose proof is in no rank's log."""
    return tuple(
        f"{lever.id} is not armed: no {lever.armed!r} in any rank's log"
        for lever in on
        if lever.armed and lever.armed not in booted.found
    )
