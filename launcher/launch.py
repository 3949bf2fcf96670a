"""Launch: start the ranks, wait until the line answers sensibly, stop it and prove that nothing is left. I/O.

Ready means: every rank's container runs, /health answers, the served name is listed, and the smokes were answered.
"""

import secrets
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bootcheck import redact
from launcher import diagnosis
from launcher.command import RankCommand
from launcher.guard import Guard
from launcher.outcome import Outcome
from launcher.recipe import Recipe
from launcher.waiting import Report, Waiting, guarded
from launcher.watch import Watch
from sparkctl import ansible, key
from sparkctl.ansible import Answer
from sparkctl.clock import Clock
from sparkctl.line import Line
from sparkctl.shell import Shell

__all__ = ["Outcome", "Report", "start", "stop", "stop_variables", "wait_ready"]


def start(
    line: Line,
    commands: tuple[RankCommand, ...],
    clock: Clock,
    report: Report,
    guard: Guard | None = None,
) -> Outcome:
    """Start every rank in the order of `commands`; a rank that does not stay up stops the launch.

    When the guard stopped the ranks meanwhile, that is what is told: whatever else failed then follows from it.
    """

    def tell(answer: Answer) -> None:
        if said := ansible.describe(answer):
            report(said, {answer.host: answer.task})
        if guard:
            guard.tell()

    variables = {
        "launch_order": [one.node for one in commands],
        "rank_commands": {
            one.node: {"name": one.name, "argv": list(one.argv), "digest": one.digest} for one in commands
        },
        "rank_settle_s": clock.real_s(3.0),
        "rank_secret_variables": _secrets(line, commands),
    }
    started = _first_fault(ansible.run("launch", line, variables, report=tell))
    return guarded(guard, started) or started


def _secrets(line: Line, commands: tuple[RankCommand, ...]) -> dict[str, dict[str, str]]:
    """Return the variables of each rank that nobody else may see: what its engine has drawn, the API's key for the rank that serves it."""
    drawn = secrets.token_hex(32)
    found = {one.node: dict.fromkeys(one.drawn, drawn) for one in commands}
    if line.api_key_file is not None:
        found[line.head.name][key.VARIABLE] = key.read(Path(line.api_key_file))
    return {node: variables for node, variables in found.items() if variables}


def stop(line: Line, report: Callable[[str], None]) -> Outcome:
    """Stop the head, then the workers, and prove that no container of the line is left on any node."""
    answers = ansible.run(
        "stop", line, stop_variables(line), report=lambda answer: report(ansible.describe(answer))
    )
    faulty = {one.host for one in answers if one.status in {"failed", "unreachable"}}
    done = tuple(node.name for node in line.nodes if node.name not in faulty)
    return replace(_first_fault(answers), done=done)


def stop_variables(line: Line) -> dict[str, object]:
    """Return what stop.yml needs, alone and as the first part of boot.yml: the head comes first."""
    return {"stop_order": [node.name for node in line.nodes], "line": line.name}


def _first_fault(answers: tuple[Answer, ...]) -> Outcome:
    for answer in answers:
        if answer.status in {"failed", "unreachable"}:
            said, hint = ansible.explain(answer)
            log = redact.lines(str(answer.result.get("stderr", "")).splitlines())
            known = diagnosis.explain(log)
            if known and known.is_fault:
                hint = f"{known.said}: {known.hint}"
            return Outcome(
                fault=redact.text(said),
                node=answer.host,
                hint=hint,
                log=log,
                unclear=answer.status == "unreachable",
            )
    return Outcome()


def wait_ready(  # noqa: PLR0913 - the last has a default and is named by the caller
    line: Line,
    recipe: Recipe,
    commands: tuple[RankCommand, ...],
    clock: Clock,
    report: Report,
    *,
    guard: Guard | None = None,
    sought: tuple[str, ...] = (),
) -> Outcome:
    """Wait until the line is ready, a rank ends or falls silent, a node stays silent, or the guard trips."""
    news = guard.news if guard else threading.Event()
    with Shell(line) as shell, Watch(shell, commands, clock, news) as watch:
        waiting = Waiting(
            line=line,
            recipe=recipe,
            commands=commands,
            clock=clock,
            report=report,
            guard=guard,
            shell=shell,
            watch=watch,
            sought=sought,
        )
        while True:
            news.clear()
            ended = waiting.look()
            if ended:
                return replace(ended, stages=watch.stages())
            news.wait(clock.real_s(recipe.ready.poll_s))
