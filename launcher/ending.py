"""Ending: which rank of a line ended first, and what its own log gives as the cause. Pure.

A rank that dies takes the others with it, and they all complain. What is told is the first that ended, unless its log shows a mere
consequence and another one's shows a cause: the head may well be gone before the container of the rank that failed.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bootcheck import redact
from launcher import diagnosis
from launcher.diagnosis import Diagnosis
from launcher.ranks import KILLED
from launcher.troubles import fabric, meeting, software
from launcher.troubles import memory as killers

_JOURNAL = ("journalctl", "-b", "--no-pager", "-n", "2000")
"""Who ends processes from outside writes it here: the kernel and earlyoom. Of a kernel that is short of memory a page a kill. Ours."""

_MADE = re.compile(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z$", re.ASCII)

_NOT_ALL = re.compile(r"not seeing messages from other users|insufficient permissions")
"""What journalctl says to a login outside the groups adm and systemd-journal: its answer is no proof of anything then."""

_SHOWN = 40
"""Lines of a log that are shown. Ours: a traceback and what led to it."""

_CONSEQUENCES = frozenset(one.name for one in meeting.CONSEQUENCES)
_MACHINE = frozenset(one.name for one in fabric.NIC)
_SPOILS = frozenset(one.name for one in (*software.WRONG, *fabric.SLOW))
_KILLERS = frozenset(one.name for one in killers.KILLERS)

_ERROR = re.compile(r"\bERROR\b|\w*Error\b")
_CONSEQUENCE = re.compile(
    r"died unexpectedly|Parent process exited|got 0 bytes|Connection (was likely )?closed|Connection reset|Broken pipe|EngineDeadError"
    r"|initialization failed|failed to start\.|remote process exited|clients joined|client socket has timed out"
)


_SOURCE = re.compile(r"(?:^|\] ) {4,}\S")
"""A line of source that a traceback shows, plain or behind the engine's own prefix: `raise RuntimeError(` is no error's words."""

_ANNOUNCED = re.compile(r"\bvalidation errors? for \w+$")
"""What pydantic puts before its reasons; vLLM's own words on a wrong argument stand on the next line."""

_ELSEWHERE = re.compile(r"^ +For further information visit ")

_LONGEST = 600
"""Characters of an error that are told; the log that is shown beside it has all. Ours."""

_GONE = "no such container"
_DOWN = (_GONE, "is not running")


def journal_argv(made: str) -> tuple[str, ...] | None:
    """Return what reads a node's journal since a container was made; None when `made` is no time of docker's.

    What the journal tells of earlier is not why this rank ended. The time is the node's own, so that no other clock counts.
    """
    found = _MADE.match(made.strip())
    return (*_JOURNAL, "--since", f"{found[1]} {found[2]} UTC") if found else None


def is_whole(said: str) -> bool:
    """Whether journalctl showed all that there is, by what it said beside it."""
    return not _NOT_ALL.search(said)


def is_gone(said: str) -> bool:
    """Whether docker says that there is no such container."""
    return _GONE in said.lower()


def is_down(said: str) -> bool:
    """Whether docker says that there is nothing to kill."""
    return any(text in said.lower() for text in _DOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """A rank's container that does not run any more; `code` is None when nobody knows it, `is_gone` when it was removed."""

    node: str
    name: str
    code: int | None = None
    is_gone: bool = False

    @property
    def is_killed(self) -> bool:
        """Whether the exit code says that a signal ended it."""
        return self.code in KILLED

    def __str__(self) -> str:
        if self.is_gone:
            return f"{self.name} is gone"
        signal = f" ({KILLED[self.code]})" if self.code in KILLED else ""
        return f"{self.name} ended with exit code {'unknown' if self.code is None else self.code}{signal}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why a line does not get ready: on which node, what was said, the remedy, and the end of that rank's log."""

    node: str
    said: str
    hint: str
    log: tuple[str, ...]


def find(
    ends: Sequence[End],
    names: Mapping[str, str],
    logs: Mapping[str, Sequence[str]],
    journals: Mapping[str, Sequence[str]],
) -> Cause:
    """Return the cause of a line's end.

    Args:
        ends: ranks that ended by themselves, in the order in which it was learnt; at least one.
        names: the container of every rank, by node in rank order.
        logs: the end of every rank's log, by node.
        journals: what each node's journal tells since its rank was made; a node whose journal was not read is left out.

    """
    machine = lost_machine(journals)
    if machine:
        node, lost = machine
        how = f"{ends[0]}; {lost.said}"
        return Cause(node=node, said=how, hint=lost.hint, log=shown(tuple(logs.get(ends[0].node, ()))))
    ended = {end.node: end for end in ends}
    candidates = (*ended, *(node for node in names if node not in ended))
    for node in candidates:
        end, log = ended.get(node), tuple(logs.get(node, ()))
        if end and end.is_killed:
            return _killed(end, log, journals.get(node))
        known = _known(log)
        if known or _own_errors(log, only_marked=end is None):
            how = str(end) if end else f"{names[node]} failed and {ends[0]}"
            return _told(node, how, log, known)
    first = tuple(logs.get(ends[0].node, ()))
    return _told(ends[0].node, str(ends[0]), first, _known(first, own=False))


def lost_machine(journals: Mapping[str, Sequence[str]]) -> tuple[str, Diagnosis] | None:
    """Return a node whose kernel log tells of a lost network card: whatever the engine says follows from that."""
    for node, journal in journals.items():
        found = next((one for one in diagnosis.explain_all(journal) if one.name in _MACHINE), None)
        if found:
            return node, found
    return None


def remarks(logs: Mapping[str, Sequence[str]]) -> tuple[Diagnosis, ...]:
    """Return what the logs of a line that serves tell of: faults that make it wrong or slow, then warnings; each once."""
    found: dict[str, Diagnosis] = {}
    for log in logs.values():
        for told in diagnosis.explain_all(log):
            if told.name in _SPOILS or told.kind == "warning":
                found.setdefault(told.name, told)
    return tuple(sorted(found.values(), key=lambda told: not told.is_fault))


def _known(log: tuple[str, ...], *, own: bool = True) -> Diagnosis | None:
    """Return the known trouble that a log tells of; an `own` one is a cause and no consequence."""
    faults = [one for one in diagnosis.explain_all(log) if one.is_fault]
    return next((one for one in faults if not own or one.name not in _CONSEQUENCES), None)


def _own_errors(log: tuple[str, ...], *, only_marked: bool = False) -> list[str]:
    """Return the error lines that are no consequence; of a rank that still runs only those that are marked as errors."""
    errors = [line for line in _errors(log) if not _CONSEQUENCE.search(line)]
    return [line for line in errors if "ERROR" in line] if only_marked else errors


def _errors(log: tuple[str, ...]) -> list[str]:
    return [line for line in log if _ERROR.search(line) and not _SOURCE.search(line)]


def _told(node: str, how: str, log: tuple[str, ...], known: Diagnosis | None) -> Cause:
    hint = "the log's last lines are above; sparkctl boot --plan shows the rank's whole command"
    if known:
        hint = f"{known.said}: {known.hint}"
    return Cause(node=node, said=f"{how}: {_last_error(log)}", hint=hint, log=shown(log))


def _last_error(log: tuple[str, ...]) -> str:
    """Return the last error line, of one that only announces its reason with the reason in the indented lines below."""
    errors = _own_errors(log) or _errors(log)
    last = (errors or list(log) or ["its log is empty"])[-1]
    told = [last.strip()]
    if _ANNOUNCED.search(last):
        at = len(log) - log[::-1].index(last)
        for line in log[at:]:
            if not line.startswith(" ") or _ELSEWHERE.search(line):
                break
            told.append(line.strip())
    return redact.text(" ".join(told))[:_LONGEST]


def _killed(end: End, log: tuple[str, ...], journal: Sequence[str] | None) -> Cause:
    """Return who killed a rank: the kernel or a killer in user space if the journal says so."""
    killer = next((one for one in diagnosis.explain_all(journal or ()) if one.name in _KILLERS), None)
    if killer:
        return Cause(node=end.node, said=f"{end}: {killer.said}", hint=killer.hint, log=shown(log))
    hint = f"on {end.node} look for `Out of memory` in dmesg and for earlyoom in {' '.join(_JOURNAL[:2])}"
    nobody = "; the journal since its start names nobody"
    if journal is None:
        nobody = "; the node's journal could not be read, which would name who did it"
        hint += "; a login in the group systemd-journal may read it, so that sparkctl does"
    return Cause(
        node=end.node,
        said=f"{end}: it was killed; its log says last: {_last_error(log)}{nobody}",
        hint=hint,
        log=shown(log),
    )


def shown(log: Sequence[str]) -> tuple[str, ...]:
    """Return the last lines of a log for a person, secrets withheld."""
    return tuple(redact.lines(log)[-_SHOWN:])
