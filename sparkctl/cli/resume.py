"""What a boot finds on record before it begins: a boot that was broken off, and failures in a row."""

from dataclasses import replace

from launcher.plan import Plan, Stage
from launcher.ranks import Rank
from launcher.recipe import digest
from launcher.status import observe
from ledger import steps
from ledger.steps import Trace
from sparkctl.cli.recorded import read
from sparkctl.cli.session import Session
from sparkctl.errors import Refused, UsageFault
from sparkctl.line import Line

MOST_FAILURES = 2
"""Boots in a row that may fail before somebody has to look: "two failed boots in a row = stop" is the rule of
tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark (reported); each failed boot on unified memory may leave less of it."""


def demand_no_streak(session: Session, line: Line) -> None:
    """Refuse a third boot after two that failed.

    Raises:
        Refused: the last two boots of the line failed.

    """
    failed = steps.failures_in_a_row(read(session).rows, line.name, simulated=session.simulated)
    if len(failed) >= MOST_FAILURES:
        told = "".join(f"\n  {one.boot}: {one.why}" for one in failed[-MOST_FAILURES:])
        raise Refused(
            f"the last {len(failed)} boots of line {line.name} failed; wanted at most {MOST_FAILURES - 1} in a row:{told}",
            hint="find the cause first (sparkctl check, sparkctl logs, sparkctl bundle); --again boots all the same",
        )


def broken_off(session: Session, line: Line) -> Trace | None:
    """Return the line's last boot when a crash broke it off."""
    trace = steps.last_trace(read(session).rows, line.name, simulated=session.simulated)
    return trace if trace and not trace.is_ended else None


def resumed(session: Session, plan: Plan) -> Plan:
    """Return the plan that goes on with the boot that was broken off, from what is proven on the nodes.

    Raises:
        UsageFault: no boot was broken off, or it was one of another recipe.

    """
    trace = broken_off(session, plan.line)
    if trace is None:
        raise UsageFault(
            f"no boot of line {plan.line.name} was broken off in {session.ledger_path}",
            hint="start one without --resume",
        )
    if trace.recipe_digest != digest(plan.recipe):
        raise UsageFault(
            f"{trace.boot} began with another recipe than this",
            hint="give the same --recipe and --set again, or boot without --resume",
        )
    ranks = {one.node: one for one in observe(plan.line, session.clock).ranks}
    launched = plan.launched()
    alone = any(one.drawn for one in launched)
    start = proven(trace, tuple(ranks[one.node] for one in launched), joins=not alone)
    session.console.say(f"going on with {trace.boot}, which stopped in {trace.stage}, from {start}")
    return replace(plan, boot=trace.boot, start=start)


def proven(trace: Trace, ranks: tuple[Rank, ...], *, joins: bool = True) -> Stage:
    """Return the stage to go on from: what runs now is proven, what a row says of earlier is not.

    All ranks of this boot run: wait for them. Only the first in launch order do, no other was started, and one that starts later may
    join them: start the rest. Anything else begins anew: a rank started into a rendezvous that has lost one would hang there.

    Args:
        trace: the boot that broke off.
        ranks: every rank as it is now, in launch order.
        joins: whether a rank that is started later may join; not where all know each other by a secret of one launch.

    """
    own = [one.boot == trace.boot and one.state == "running" for one in ranks]
    rest = ranks[own.index(False) :] if False in own else ()
    if not own[0] or any(one.state != "absent" for one in rest) or (rest and not joins):
        return "check"
    return "launch" if rest else "ready"
