"""A boot with its record: the ritual, its steps and its end in the ledger, the logs of one that failed."""

from launcher import boot as ritual
from launcher.plan import Boot, Plan, Progress, Report
from launcher.recipe import digest
from ledger import record
from ledger.entry import Body
from ledger.journal import Journal
from sparkctl import edge
from sparkctl.cli import kept, memory_table
from sparkctl.cli.served import Served, accepted
from sparkctl.cli.session import Session
from sparkctl.errors import Interrupted, SparkctlError


def plan_of(session: Session, chosen: Served, *, replaces: bool, sought: tuple[str, ...] = ()) -> Plan:
    """Return the plan of a boot that a climb or a calibration makes: what was chosen, accepted as its line says, with its memory foreseen."""
    return Plan(
        boot=session.new_id("boot"),
        line=chosen.line,
        recipe=chosen.recipe,
        floors=chosen.floors,
        accepted=accepted(chosen.line, None),
        replaces=replaces,
        sought=sought,
        memory=memory_table.foreseen(chosen.recipe, chosen.floors),
    )


def boot_and_record(
    session: Session, plan: Plan, report: Report, *, climb: str | None = None, on: tuple[str, ...] = ()
) -> Boot:
    """Run the ritual and write its row, also when it is interrupted or breaks off; keep the logs of one that failed."""
    began = session.clock.monotonic_s()
    try:
        ended = ritual.boot(plan, session.clock, _noting(session, plan, report))
    except (KeyboardInterrupt, SparkctlError, OSError) as fault:
        why = f"broken off: {str(fault) or 'interrupted'}"
        seconds = session.clock.monotonic_s() - began
        broken = Boot(
            boot=plan.boot, line=plan.line.name, stage="stop", findings=(), seconds=seconds, why=why
        )
        _append(session, plan, _row(session, plan, broken, climb, on, void=True))
        if isinstance(fault, (KeyboardInterrupt, Interrupted)):
            told = "" if isinstance(fault, KeyboardInterrupt) else fault.hint
            raise Interrupted(
                f"the boot of line {plan.line.name} was interrupted; no rank of it was left running",
                hint=told or "sparkctl boot starts it again",
            ) from None
        raise
    void = not ended.ok and not ended.blames_what_was_booted
    _append(session, plan, _row(session, plan, ended, climb, on, void=void))
    kept.keep(session, plan.boot, ended.logs)
    return ended


def _row(
    session: Session, plan: Plan, ended: Boot, climb: str | None, on: tuple[str, ...], *, void: bool
) -> Body:
    return record.boot(
        boot=plan.boot,
        climb=climb,
        on=on,
        why=": ".join(filter(None, (ended.node, ended.why))),
        simulated=session.simulated,
        recipe_digest=digest(plan.recipe),
        seconds=ended.seconds,
        findings=tuple(edge.plain(ended.findings)),
        void=void,
        lowest=ended.lowest,
        stages=ended.stages,
        accepted=plan.accepted,
        evidence=ended.evidence,
    )


def _append(session: Session, plan: Plan, row: Body) -> None:
    Journal(session.ledger_path).append("boot", plan.line.name, row, session.clock.today())


def _noting(session: Session, plan: Plan, report: Report) -> Report:
    """Write a step before and after each stage, on disk before the stage goes on."""
    recipe_digest = digest(plan.recipe)

    def note(progress: Progress) -> None:
        if progress.state in {"began", "done", "failed"}:
            body = record.step(
                boot=plan.boot,
                stage=progress.stage,
                state=progress.state,
                why=progress.detail,
                recipe_digest=recipe_digest,
                simulated=session.simulated,
                seconds=progress.seconds,
            )
            Journal(session.ledger_path).append("step", plan.line.name, body, session.clock.today())
        report(progress)

    return note
