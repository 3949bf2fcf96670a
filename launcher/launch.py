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

MOST_SILENCES = 3
"""Looks in a row at which a node may stay silent while it loads: an SSH login can take longer then. Ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a step on the nodes ended: `fault` is empty when it did what it should.

    `unclear` marks a node that could not be asked: nothing can be said of what was booted.
    """

    fault: str = ""
    unclear: bool = False
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
    answers = ansible.run("launch", line, variables, report=lambda answer: report(ansible.describe(answer)))
    return _first_fault(answers)


def stop(line: Line, report: Report) -> Outcome:
    """Stop the head, then the workers, and prove that no container of the line is left on any node."""
    answers = ansible.run(
        "stop", line, stop_variables(line), report=lambda answer: report(ansible.describe(answer))
    )
    return _first_fault(answers)


def stop_variables(line: Line) -> dict[str, object]:
    """Return what stop.yml needs, alone and as the first part of boot.yml: the head comes first."""
    return {"stop_order": [node.name for node in line.nodes], "line": line.name}


def _first_fault(answers: tuple[Answer, ...]) -> Outcome:
    for answer in answers:
        if answer.status in {"failed", "unreachable"}:
            said, hint = ansible.explain(answer)
            return Outcome(
                fault=said,
                node=answer.host,
                hint=hint,
                log=tuple(str(answer.result.get("stderr", "")).splitlines()),
                unclear=answer.status == "unreachable",
            )
    return Outcome()


def wait_ready(
    line: Line, recipe: Recipe, commands: tuple[RankCommand, ...], clock: Clock, report: Report
) -> Outcome:
    """Wait until the line is ready, a rank dies, a node stays silent, or the recipe's time is up."""
    began, silences = clock.monotonic_s(), 0
    with Shell(line) as shell:
        while True:
            looked = _look(shell, commands)
            silences = silences + 1 if looked.unclear else 0
            if looked.fault and (not looked.unclear or silences >= MOST_SILENCES):
                return looked
            if not looked.fault and _serves(line, recipe, clock):
                report("the API answers; asking the smokes")
                return _smoke(line, recipe, clock)
            waited = clock.monotonic_s() - began
            if waited > recipe.ready.limit_s:
                return _too_late(shell, line, commands, waited)
            report(looked.fault or f"loading for {waited:.0f} s")
            clock.sleep(recipe.ready.poll_s)


def _look(shell: Shell, commands: tuple[RankCommand, ...]) -> Outcome:
    """Return the first rank whose container does not run, with the end of its log, or the first silent node."""
    by_node = {command.node: command for command in commands}
    argvs = {one.node: ("docker", "inspect", "--type", "container", one.name) for one in commands}
    silent = Outcome()
    for said in shell.run_each(argvs):
        if said.rc not in {0, None} and "no such container" in said.stderr.lower():
            return _dead(shell, by_node[said.node], "is gone")
        if said.rc != 0:
            text, hint = unreachable.say(said.stderr)
            silent = Outcome(
                fault=f"no answer while its rank loaded: {text}", node=said.node, hint=hint, unclear=True
            )
            continue
        state = _state(said.stdout)
        if not state.get("Running", False):
            return _dead(
                shell, by_node[said.node], f"ended with exit code {state.get('ExitCode', 'unknown')}"
            )
    return silent


def _dead(shell: Shell, command: RankCommand, how: str) -> Outcome:
    log = _log_end(shell, command)
    return Outcome(
        fault=f"{command.name} {how}: {_last_error(log)}",
        node=command.node,
        hint="the log's last lines are above; sparkctl boot --plan shows the rank's whole command",
        log=log,
    )


def _log_end(shell: Shell, command: RankCommand) -> tuple[str, ...]:
    said = shell.run_each({command.node: ("docker", "logs", "--tail", "40", command.name)})[0]
    return tuple((said.stdout + said.stderr).strip().splitlines())


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
    return Outcome(
        fault=f"not ready after {waited:.0f} s: all ranks run, {line.url} does not serve",
        node=commands[0].node,
        hint="read the head's log (sparkctl logs); a longer wait is ready.limit_s",
        log=_log_end(shell, commands[0]),
    )


def head_log(line: Line, head: RankCommand) -> str | None:
    """Return the head's whole log, or None when it cannot be had."""
    with Shell(line) as shell:
        said = shell.run_each({head.node: ("docker", "logs", head.name)})[0]
    return said.stdout + said.stderr if said.rc == 0 else None


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
