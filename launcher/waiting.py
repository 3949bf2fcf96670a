"""Waiting: one look after the other at a line that loads, until it answers sensibly or cannot. I/O.

There is no limit on how long that takes. A rank that ends has the others stopped at once and is named with its own error; a rank
that falls silent is named with its stage; a node that cannot be asked ends the wait after some looks.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from launcher import api, asking, ending, progress, proving, tails
from launcher.api import Seen
from launcher.command import RankCommand
from launcher.ending import End
from launcher.guard import Guard, Watched
from launcher.outcome import Outcome
from launcher.progress import Stuck
from launcher.recipe import Recipe
from launcher.watch import Watch
from sparkctl import unreachable
from sparkctl.clock import Clock
from sparkctl.line import Line
from sparkctl.shell import Shell


class Report(Protocol):
    """Is told in a few words what the line does, and by node where each does something of its own."""

    def __call__(self, text: str, /, nodes: Mapping[str, str] | None = None) -> None:
        """Tell it."""


_GRACE_S = 3
"""Between SIGTERM and SIGKILL for ranks that outlive one that ended: they wait for it and have nothing to save. Ours."""

MOST_SILENCES = 3
"""Looks in a row at which a node may stay silent while it loads: an SSH login can take longer then. Ours."""


@dataclass(slots=True, kw_only=True)
class Waiting:
    """What one wait knows and holds.

    `silences` counts looks in a row at which a node did not answer, `unread` those at which a log of a line that answers could not be
    read.
    """

    line: Line
    recipe: Recipe
    commands: tuple[RankCommand, ...]
    clock: Clock
    report: Report
    guard: Guard | None
    shell: Shell
    watch: Watch
    sought: tuple[str, ...] = ()
    silences: int = 0
    unread: int = 0

    def look(self) -> Outcome | None:
        """Look once; None means that the wait goes on."""
        return guarded(self.guard, self._tripped() or self._ranks() or self._ask())

    def _tripped(self) -> Outcome | None:
        """Return anything when the guard stopped the ranks: `guarded` then says why."""
        return Outcome() if self.guard and self.guard.tripped() else None

    def _ranks(self) -> Outcome | None:
        """Look at every rank; the second look at those that ended finds all that ended before the others are stopped."""
        ends, silent = self.watch.ends(), None
        if not ends:
            ends, silent = _look(self.shell, self.commands)
        if ends:
            return _ended(self.shell, self.commands, self.watch.ends() or ends)
        self.silences = self.silences + 1 if silent else 0
        if silent and self.silences < MOST_SILENCES:
            self.report(silent.fault)
            return None
        self.watch.resume()
        return silent

    def _ask(self) -> Outcome | None:
        """Ask the API; when it does not serve yet, see whether every rank gets on."""
        if self.silences:
            return None
        seen = api.look(self.line, self.clock)
        if seen.is_locked:
            return _locked(self.line, seen)
        if seen.health == 200 and self.recipe.model.served_name in seen.serves:
            return self._prove()
        moved = self.guard.moved() if self.guard else {}
        stuck = self.watch.stuck(moved, self.recipe.ready.silence_s)
        if stuck:
            return _stuck(self.shell, self.commands, stuck, seen, self.line)
        ranks = self.watch.ranks()
        self.report(progress.describe(ranks), progress.by_node(ranks))
        return None

    def _prove(self) -> Outcome | None:
        """Read what the logs of a line that answers prove, then ask it: what it serves with says more than what it answers."""
        self.report("the API answers; reading every rank's log, then asking the smokes")
        proven = proving.prove(self.shell, self.line, self.recipe, self.commands, self.sought)
        if proven.unclear:
            self.unread += 1
            return proven if self.unread >= MOST_SILENCES else None
        if proven.fault:
            return proven
        asked = asking.ask(self.line, self.recipe, self.clock)
        ends = self.watch.ends() if asked.fault else ()
        if ends and not self._tripped():
            return _ended(self.shell, self.commands, ends)
        return replace(proven, fault=asked.fault, node=asked.node, hint=asked.hint, smokes=asked.smokes)


def guarded(guard: Guard | None, ended: Outcome | None) -> Outcome | None:
    """Return how a step ended under a guard: when that stopped every rank, whatever else failed follows from it."""
    if guard is None:
        return ended
    guard.tell()
    trip, watched = guard.tripped(), guard.watched()
    if trip is None:
        return _seen(ended, watched) if ended else None
    hint = f"{trip.hint}; stopping was not confirmed on {', '.join(trip.left)}" if trip.left else trip.hint
    stopped = Outcome(
        fault=f"the guard stopped every rank: {trip.said}",
        unclear=trip.why == "silence",
        node=trip.node,
        hint=hint,
        log=trip.samples,
        trip=trip,
    )
    return _seen(stopped, watched)


def _seen(outcome: Outcome, watched: Watched) -> Outcome:
    """Return the outcome with what the guard saw, also of what it would have done."""
    observed = tuple(f"{one.node}: {one.said}" for one in watched.observed)
    return replace(outcome, lowest=watched.lowest, flushes=watched.flushes, observed=observed)


def _look(shell: Shell, commands: tuple[RankCommand, ...]) -> tuple[tuple[End, ...], Outcome | None]:
    """Return the ranks whose container does not run, and a node that did not answer."""
    names = {one.node: one.name for one in commands}
    argvs = {one.node: ("docker", "inspect", "--type", "container", one.name) for one in commands}
    ends: list[End] = []
    silent: Outcome | None = None
    for said in shell.run_each(argvs):
        if said.rc not in {0, None} and ending.is_gone(said.stderr):
            ends.append(End(node=said.node, name=names[said.node], is_gone=True))
        elif said.rc != 0:
            text, hint = unreachable.say(said.stderr, answered=said.rc is not None)
            fault = f"no answer while its rank loaded: {text}"
            silent = Outcome(fault=fault, node=said.node, hint=hint, unclear=True)
        elif (state := _state(said.stdout)) is None:
            fault = (
                f"docker inspect does not say whether its rank runs: {' '.join(said.stdout.split())[:80]!r}"
            )
            hint = f"run docker inspect {names[said.node]} there by hand"
            silent = Outcome(fault=fault, node=said.node, hint=hint, unclear=True)
        elif not state["Running"]:
            code = state.get("ExitCode")
            ends.append(End(node=said.node, name=names[said.node], code=code if type(code) is int else None))
    return tuple(ends), silent


def _state(text: str) -> dict[str, Any] | None:
    """Return the state that docker inspect prints, None when it cannot be read."""
    try:
        state = json.loads(text)[0]["State"]
        return state if type(state["Running"]) is bool else None
    except (ValueError, KeyError, IndexError, TypeError):
        return None


def _ended(shell: Shell, commands: tuple[RankCommand, ...], ends: tuple[End, ...]) -> Outcome:
    """Stop the ranks that outlived the first, then say which ended first and why."""
    gone = {end.node for end in ends}
    stop = ("docker", "stop", "-t", str(_GRACE_S))
    shell.run_each({one.node: (*stop, one.name) for one in commands if one.node not in gone})
    names = {one.node: one.name for one in commands}
    cause = ending.find(ends, names, _logs(shell, names), _journals(shell, names))
    return Outcome(fault=cause.said, node=cause.node, hint=cause.hint, log=cause.log)


def _logs(shell: Shell, names: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the end of each rank's log: enough for the cause to stand in it and not only what followed."""
    return {
        said.node: tuple((said.stdout + said.stderr).strip().splitlines())
        for said in tails.ask(shell, names)
        if said.rc == 0
    }


def _journals(shell: Shell, names: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what each node's journal tells since its rank was made; a node whose journal cannot be read in full is left out."""
    made = ("docker", "inspect", "--type", "container", "--format", "{{.Created}}")
    asked = shell.run_each({node: (*made, name) for node, name in names.items()})
    argvs = {said.node: argv for said in asked if (argv := ending.journal_argv(said.stdout))}
    return {
        said.node: said.stdout.splitlines()
        for said in shell.run_each(argvs)
        if said.rc == 0 and ending.is_whole(said.stderr)
    }


def _stuck(shell: Shell, commands: tuple[RankCommand, ...], stuck: Stuck, seen: Seen, line: Line) -> Outcome:
    names = {one.node: one.name for one in commands}
    log = _logs(shell, {stuck.node: stuck.name}).get(stuck.node, ())
    said = f"{stuck.said}; {line.url} {_answered(seen)}"
    machine = ending.lost_machine(_journals(shell, names))
    if machine:
        node, known = machine
        return Outcome(fault=f"{said}; {known.said}", node=node, hint=known.hint, log=ending.shown(log))
    return Outcome(fault=said, node=stuck.node, hint=stuck.hint, log=ending.shown(log))


def _answered(seen: Seen) -> str:
    if not seen.answers:
        return "does not answer"
    if seen.health != 200:
        return f"says {seen.health} on /health"
    return f"lists {', '.join(seen.serves) or 'no model'}"


def _locked(line: Line, seen: Seen) -> Outcome:
    lacks = "refuses the key of api_key_file" if seen.had_key else "wants a key, which sparkctl does not have"
    return Outcome(
        fault=f"{line.url} is up and {lacks} ({seen.health} on /health): it cannot be asked",
        node=line.head.name,
        hint="boot the line anew, so that it is started with this key"
        if seen.had_key
        else "name its key's file in the inventory (api_key_file), or serve without one where only the line's own network reaches the port",
        unclear=True,
    )
