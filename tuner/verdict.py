"""The verdict on one lever: accept, reject or inconclusive, what it rests on, and what the seeds' rule would have said.

The seeds' rule is that of the public ladder from which our first levers come. Who judges: `tuner.evidence` one lever at a time,
`tuner.factorial.judgement` all at once.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from tuner.lever import Ladder, Lever
from tuner.statistics import Comparison

Outcome = Literal["accept", "reject", "inconclusive"]

SeedRule = Literal["accept", "reject", "none"]
"""What one boot of each arm says by the seeds' rule; `none` where one of the two is missing."""

MOST_FAILURES = 2
"""Failed boots with the lever on (does not start, or breaks a smoke) that reject it: one may be bad luck."""

MOST_VOIDS = 2
"""Void boots with the lever on that are repeated; one more and the lever stays open."""

SEED_GAIN = 0.03
SEED_LOSS = 0.05
"""+3 % on a primary, at most 5 % loss of prefill, smokes clean, one boot each.

Origin: the tuning ladder of bot-lab-21/DeepSeek-V4.1-Flash-EXL3-DGX-Spark (reported).
"""

FAILS = "its quality run fails: see the row of kind quality (sparkctl ledger list)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was decided on a lever and from which numbers.

    `metrics` holds the comparison of each primary (its interval is the one that decided, see `confidence`) and of each
    guard. `boots` counts what this lever cost, voids and failures among them; boots of the stack that an earlier lever
    already paid for are not counted, only used. `wanted` is the number of further boots that an open lever asks for.
    `by_line` holds the same comparisons for each line of a climb over two, and is empty for one line.
    """

    lever: str
    verdict: Outcome
    metrics: Mapping[str, Comparison]
    boots: int
    voids: int
    seed_rule: SeedRule
    why: str
    wanted: int | None = None
    by_line: Mapping[str, Mapping[str, Comparison]] = field(default_factory=dict)


def unmeasured(lever: Lever, verdict: Outcome, why: str) -> Verdict:
    """Return the verdict on a lever that was not booted at all."""
    return Verdict(lever=lever.id, verdict=verdict, metrics={}, boots=0, voids=0, seed_rule="none", why=why)


def seed_rule(ladder: Ladder, base: Mapping[str, float], arm: Mapping[str, float]) -> SeedRule:
    """Return what the seeds' rule says of one boot of each arm, given as metric name to value."""
    named = {*ladder.primary, *(guard.metric for guard in ladder.guards)}
    if not named <= base.keys() or not named <= arm.keys():
        return "none"
    gains = any(arm[name] / base[name] >= 1 + SEED_GAIN for name in ladder.primary)
    keeps = all(arm[guard.metric] / base[guard.metric] >= 1 - SEED_LOSS for guard in ladder.guards)
    return "accept" if gains and keeps else "reject"


def with_quality(lever: Lever, quality: str, found: tuple[Outcome, str]) -> tuple[Outcome, str]:
    """Hold back a gain that may be paid for in what the model says: a lever with `numerics` needs a passed quality."""
    outcome, why = found
    if outcome == "accept" and quality == "fails":
        return "reject", FAILS
    if outcome != "accept" or not lever.numerics or quality == "passes":
        return found
    held = "it is meant to change numerics and may be accepted with a passed quality only, and its quality run says"
    return "inconclusive", f"{held} {quality} (sparkctl quality); {why}"


def answer(verdict: Verdict) -> dict[str, object]:
    """Return the whole verdict in the shape of the JSON answers and of the ledger.

    What cannot be known yet (nan, infinite) is null, and half surrogate pairs in `why`, which may quote a server, are
    spelled out: neither has a word in JSON or UTF-8. `by_line` is there for a climb over two lines only.
    """
    by_line = {line: comparisons(metrics) for line, metrics in verdict.by_line.items()}
    return {
        "lever": verdict.lever,
        "verdict": verdict.verdict,
        "metrics": comparisons(verdict.metrics),
        "boots": verdict.boots,
        "voids": verdict.voids,
        "seed_rule": verdict.seed_rule,
        "why": verdict.why.encode("utf-8", "backslashreplace").decode(),
        "boots_wanted": verdict.wanted,
        **({"by_line": by_line} if by_line else {}),
    }


def comparisons(metrics: Mapping[str, Comparison]) -> dict[str, object]:
    """Return comparisons by metric as plain JSON."""
    return {
        name: {
            **{key: _finite(value) for key, value in asdict(found).items() if key != "warnings"},
            "warnings": list(found.warnings),
        }
        for name, found in metrics.items()
    }


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
