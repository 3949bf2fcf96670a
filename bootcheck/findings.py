"""Findings: what a gate says of a node, and what a set of them amounts to."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["pass", "warn", "fail", "unknown"]

_SEVERITY: dict[Verdict, int] = {"pass": 0, "warn": 1, "unknown": 2, "fail": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One judgement: on which node, by which gate, what was measured and wanted, where the wish comes from.

    `settles` marks a failure that stopping the old line or settling memory may cure.
    """

    node: str
    gate: str
    verdict: Verdict
    measured: str
    wanted: str
    origin: str
    hint: str = ""
    settles: bool = False


def worst(findings: Iterable[Finding]) -> Verdict:
    """Return the gravest verdict; no findings at all is `pass`. A failure outweighs not knowing."""
    return max((finding.verdict for finding in findings), key=_SEVERITY.__getitem__, default="pass")


def exit_code(findings: Iterable[Finding]) -> int:
    """Return 0 when the line may boot, 1 when a gate fails, 3 when something could not be told."""
    match worst(findings):
        case "pass" | "warn":
            return 0
        case "fail":
            return 1
        case "unknown":
            return 3
