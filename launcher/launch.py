"""Launch: start the ranks, wait until the line answers sensibly, stop it and prove that nothing is left. I/O.

Ready means: every rank's container runs, /health answers, the served name is listed, and the smokes were answered.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from launcher import api
from launcher.command import RankCommand
from launcher.recipe import Recipe
from launcher.smoke import SMOKES, Smoked
from sparkctl import ansible, unreachable
from sparkctl.ansible import Answer
from sparkctl.clock import Clock
from sparkctl.line import Line
from sparkctl.shell import Shell

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a step on the nodes ended: `fault` is empty when it did what it should."""

    fault: str = ""
    node: str = ""
    hint: str = ""
    log: tuple[str, ...] = ()
    smokes: tuple[Smoked, ...] = field(default=())


def start(line: Line, commands: tuple[RankCommand, ...], clock: Clock, report: Report) -> Outcome:
    """Start every rank, workers first, the head last; a rank that does not stay up stops the launch."""
    variables = {
        "launch_order": [node.name for node in line.workers_first],
        "rank_commands": {
            one.node: {"name": one.name, "argv": list(one.argv), "digest": one.digest} for one in commands
        },
        "rank_settle_s": clock.real_s(3.0),
    }
    answers = ansible.run("launch", line, variables, report=lambda answer: report(_tell(answer)))
    return _first_fault(answers)


def stop(line: Line, report: Report) -> Outcome:
    """Stop the head, then the workers, and prove that no container of the line is left on any node."""
    variables = {"stop_order": [node.name for node in line.nodes], "line": line.name}
    return _first_fault(ansible.run("stop", line, variables, report=lambda answer: report(_tell(answer))))


def _tell(answer: Answer) -> str:
    return f"{answer.host}: {answer.task}" if answer.status == "ok" else ""


def _first_fault(answers: tuple[Answer, ...]) -> Outcome:
    for answer in answers:
        if answer.status in {"failed", "unreachable"}:
            said, hint = (
                unreachable.say(answer.message) if answer.status == "unreachable" else (answer.message, "")
            )
            log = answer.result.get("log", "")
            lines = log.splitlines() if isinstance(log, str) else [str(line) for line in log]
            return Outcome(fault=said, node=answer.host, hint=hint, log=tuple(lines))
    return Outcome()


def wait_ready(
    line: Line, recipe: Recipe, commands: tuple[RankCommand, ...], clock: Clock, report: Report
) -> Outcome:
    """Wait until the line is ready, a rank dies, or the recipe's time is up."""
    began = clock.monotonic_s()
    with Shell(line) as shell:
        while True:
            dead = _dead_rank(shell, commands)
            if dead.fault:
                return dead
            if _serves(line, recipe, clock):
                report("the API answers; asking the smokes")
                return _smoke(line, recipe, clock)
            waited = clock.monotonic_s() - began
            if waited > recipe.ready.limit_s:
                return _too_late(shell, line, commands, waited)
            report(f"loading for {waited:.0f} s")
            clock.sleep(recipe.ready.poll_s)


def _dead_rank(shell: Shell, commands: tuple[RankCommand, ...]) -> Outcome:
    """Return the first rank whose container does not run, with the last lines of its log."""
    names = {command.node: command.name for command in commands}
    said = shell.run_each({node: ("docker", "inspect", "--type", "container", name) for node, name in names.items()})
    for one in said:
        if one.rc is None:
            text, hint = unreachable.say(one.stderr)
            return Outcome(fault=f"the node was lost while the rank loaded: {text}", node=one.node, hint=hint)
        state = _state(one.stdout) if one.rc == 0 else {}
        if not state.get("Running", False):
            tail = shell.run_each({one.node: ("docker", "logs", "--tail", "40", names[one.node])})[0]
            log = tuple((tail.stdout + tail.stderr).strip().splitlines())
            return Outcome(
                fault=f"{names[one.node]} ended with exit code {state.get('ExitCode', 'unknown')}: {_last_error(log)}",
                node=one.node,
                hint="the log's last lines are above; sparkctl boot --plan shows the rank's whole command",
                log=log,
            )
    return Outcome()


def _state(text: str) -> dict[str, Any]:
    try:
        answer = json.loads(text)
        state = answer[0]["State"]
    except (ValueError, KeyError, IndexError, TypeError):
        return {}
    return state if isinstance(state, dict) else {}


def _last_error(log: tuple[str, ...]) -> str:
    errors = [line for line in log if "ERROR" in line or "Error" in line]
    return (errors or list(log) or ["its log is empty"])[-1].strip()


def _too_late(shell: Shell, line: Line, commands: tuple[RankCommand, ...], waited: float) -> Outcome:
    head = commands[0]
    tail = shell.run_each({head.node: ("docker", "logs", "--tail", "40", head.name)})[0]
    return Outcome(
        fault=f"not ready after {waited:.0f} s: all ranks run, {line.url} does not serve",
        node=head.node,
        hint="read the head's log (sparkctl logs); a longer wait is ready.limit_s",
        log=tuple((tail.stdout + tail.stderr).strip().splitlines()),
    )


def head_log(line: Line, head: RankCommand) -> str:
    """Return the head's whole log; empty when it cannot be had, which proves nothing."""
    with Shell(line) as shell:
        said = shell.run_each({head.node: ("docker", "logs", head.name)})[0]
    return said.stdout + said.stderr if said.rc == 0 else ""


def _serves(line: Line, recipe: Recipe, clock: Clock) -> bool:
    return api.is_up(line, clock) and recipe.model.served_name in api.served_names(line, clock)


def _smoke(line: Line, recipe: Recipe, clock: Clock) -> Outcome:
    smoked = tuple(api.ask(line, recipe.model.served_name, one, clock) for one in SMOKES)
    failed = [one for one in smoked if one.fault]
    if not failed:
        return Outcome(smokes=smoked)
    first = failed[0]
    return Outcome(
        fault=f"smoke {first.name}: {first.fault}; it said {first.reply[:40]!r}",
        node=line.head.name,
        hint="the line serves but does not answer sensibly: undo the last change, and compare image and patches",
        smokes=smoked,
    )
