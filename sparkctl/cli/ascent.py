"""Ascent: a climb on lines that nobody else works on, one alone or two together, and how it ended on the console."""

from contextlib import AbstractContextManager, ExitStack

from sparkctl import ansible
from sparkctl.cli import climber, joint_climber, joint_shown, tune_shown
from sparkctl.cli.climber import Limit
from sparkctl.cli.course import Planned, Wish
from sparkctl.cli.hold import hold
from sparkctl.cli.served import Served
from sparkctl.cli.session import Session
from sparkctl.cli.watch import Watch
from tuner.lever import Ladder
from tuner.workload import Workload


def climb(
    session: Session,
    lines: tuple[Served, ...],
    rungs: Ladder,
    workload: Workload,
    *,
    planned: Planned | None,
    wish: Wish,
    watched: AbstractContextManager[Watch],
) -> int:
    """Climb to the end or to the limit of the wish, from the lines' last climb where nothing is planned; return the exit code."""
    limit = Limit(
        boots=planned.boots if planned else wish.boots,
        hours=wish.hours,
        minutes_a_boot=planned.outlook.minutes_a_boot if planned else 0.0,
    )
    with ExitStack() as held:
        for one in lines:
            held.enter_context(hold(one.line))
            ansible.end_orphans(one.line)
        if len(lines) > 1:
            with watched as watch:
                together = joint_climber.run(
                    session, lines, rungs, workload, planned=planned, limit=limit, watch=watch
                )
            return joint_shown.show(session, lines, rungs, together)
        with watched as watch:
            ended = climber.run(session, lines[0], rungs, workload, planned=planned, limit=limit, watch=watch)
    return tune_shown.show(session, lines[0], rungs, ended)
