"""The climb by the seeds' rule: one boot of each lever on what was kept, kept at +3 %; to compare with, not to trust.

Origin: the tuning ladder of bot-lab-21/DeepSeek-V4.1-Flash-EXL3-DGX-Spark (reported). The boot that won is what the next
lever is compared with, so a lucky boot raises the bar for all that follow. docs/method.md has its error rates.
"""

from sparkctl.units import percent
from tuner.ladder import MOST_BASE_FAILURES, barred
from tuner.lever import Ladder, Lever
from tuner.statistics import compare
from tuner.steps import Boot, Done, On, Standing, Trial, name_of
from tuner.verdict import MOST_VOIDS, Verdict, seed_rule, unmeasured


def replay(ladder: Ladder, history: tuple[Trial, ...]) -> Standing:
    """Return where a climb stands after its boots, in order."""
    verdicts: tuple[Verdict, ...] = ()
    stack: On = ()
    best = _ending(history, ())
    if best is None:
        return Standing(verdicts=(), stack=(), ahead=_base(history))
    for lever in ladder.levers:
        on = (*stack, lever.id)
        verdict = barred(lever, verdicts) or _judged(ladder, lever, best, tuple(_of(history, on)))
        if verdict is None:
            return Standing(verdicts=verdicts, stack=stack, ahead=_boot(history, lever.id, on))
        verdicts = (*verdicts, verdict)
        if verdict.verdict == "accept":
            stack, best = on, _ending(history, on) or best
    end = Done(base_failed=False, why="every lever has its verdict")
    return Standing(verdicts=verdicts, stack=stack, ahead=end)


def _judged(ladder: Ladder, lever: Lever, best: Trial, own: tuple[Trial, ...]) -> Verdict | None:
    """Return what the first boot with the lever on says that was not void; None before there is one."""
    voids = [one for one in own if one.outcome == "void"]
    found = next((one for one in own if one.outcome != "void"), None)
    if found is None:
        if len(voids) <= MOST_VOIDS:
            return None
        return unmeasured(lever, "inconclusive", f"void {len(voids)} times with it on: {voids[-1].why}")
    samples = {
        name: {"on": (value,), "off": (best.values[name],)}
        for name, value in found.values.items()
        if name in best.values
    }
    metrics = {name: compare(arms, "on", "off", 0.95) for name, arms in samples.items()}
    said = "reject" if found.outcome == "failed" else seed_rule(ladder, best.values, found.values)
    numbers = "; ".join(
        f"{name} {percent(metrics[name].estimate)}" for name in ladder.primary if name in metrics
    )
    return Verdict(
        lever=lever.id,
        verdict="inconclusive" if said == "none" else said,
        metrics=metrics,
        boots=len(own),
        voids=len(voids),
        seed_rule=said,
        why=f"failed: {found.why}"
        if found.outcome == "failed"
        else f"by the seeds' rule, one boot an arm: {numbers}",
    )


def _base(history: tuple[Trial, ...]) -> Boot | Done:
    """Return the next boot of the base, or the end where it keeps failing or being void."""
    own = _of(history, ())
    for outcome, most in (("failed", MOST_BASE_FAILURES), ("void", MOST_VOIDS + 1)):
        if sum(one.outcome == outcome for one in own) >= most:
            return Done(base_failed=True, why=f"base {outcome} {most} times: {own[-1].why}")
    return _boot(history, None, ())


def _boot(history: tuple[Trial, ...], lever: str | None, on: On) -> Boot:
    return Boot(
        lever=lever, on=on, number=len(history) + 1, reason=f"{name_of(on)}, once, by the seeds' rule"
    )


def _of(history: tuple[Trial, ...], on: On) -> list[Trial]:
    return [one for one in history if one.arm == on]


def _ending(history: tuple[Trial, ...], on: On) -> Trial | None:
    """Return the first boot of a configuration that was measured."""
    return next((one for one in _of(history, on) if one.outcome == "measured"), None)
