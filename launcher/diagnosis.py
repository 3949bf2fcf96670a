"""Diagnosis: what the logs of an engine, a kernel or a journal tell of known troubles, with figures and remedy. Pure.

The order of TROUBLES is that of causes before consequences: a node that lost its network card also has an engine that timed out,
and a head whose worker died says so last. So the first that matches is the most telling one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bootcheck import redact
from launcher.troubles import fabric, figures, meeting, memory, software
from launcher.troubles.trouble import Kind, Trouble, compiled

TROUBLES: tuple[Trouble, ...] = (
    # The machine itself, then whoever ended the engine from outside.
    *fabric.NIC,
    *memory.KILLERS,
    # What a rank finds on its own node.
    *software.TROUBLES,
    *memory.TROUBLES,
    # What ranks find in each other.
    *meeting.TROUBLES,
    *fabric.TROUBLES,
    *meeting.CONSEQUENCES,
    # The line may well serve.
    *software.WRONG,
    *fabric.SLOW,
    *meeting.WARNINGS,
    *software.WARNINGS,
    # No trouble at all.
    *software.NOTES,
    *meeting.NOTES,
    *figures.NOTES,
    *fabric.NOTES,
)

_LONGEST = 4000
"""Characters of a line that are looked at; a line of an engine that says what is wrong is far shorter. Ours."""

_COLOUR = compiled(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One trouble as a log tells it. `figures` are its numbers by name: memory in GiB (`_gib`), time in s (`_s`).

    Only a `fault` explains why a rank ended or must not go on. Secrets are withheld from `said`.
    """

    name: str
    kind: Kind
    said: str
    hint: str
    source: str
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_fault(self) -> bool:
        """Whether it explains a boot that failed or must be stopped."""
        return self.kind == "fault"


def explain(lines: Sequence[str]) -> Diagnosis | None:
    """Return the most telling trouble of a log: a fault before a warning before information; None when nothing is known."""
    found = explain_all(lines)
    return found[0] if found else None


def explain_all(lines: Sequence[str]) -> tuple[Diagnosis, ...]:
    """Return everything that a log tells of, the most telling first."""
    read = _clean(lines)
    told = [(trouble, trouble.read(read)) for trouble in TROUBLES]
    return tuple(
        Diagnosis(
            name=trouble.name,
            kind=trouble.kind,
            said=redact.text(one.said),
            hint=one.hint,
            source=trouble.source,
            figures=one.figures,
        )
        for kind in ("fault", "warning", "information")
        for trouble, one in told
        if one and trouble.kind == kind
    )


def _clean(lines: Sequence[str]) -> tuple[str, ...]:
    """Return lines without colours and blank ends; a progress bar's states, parted by carriage returns, are lines of their own."""
    parts = (part for line in lines for part in line.splitlines())
    return tuple(text for part in parts if (text := _COLOUR.sub("", part[:_LONGEST]).rstrip()))
