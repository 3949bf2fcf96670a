"""What an Engram benchmark says: waits of each path as median, 95th and 99th percentile, ratios with intervals, and where ours does not hold."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

OURS, OURS_LEAD = "ours", "ours, with lead"
DISK, DISK_LEAD = "all-disk, native", "all-disk, native, with lead"
FALL, FALL_AT = 3.0, 92.7
"""The bar: with lead and 92.7 % of the lookups resident the 95th percentile of the wait falls threefold against all-disk without lead."""
RESAMPLES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One path at one step size and coverage: what each step waited, in us, for both tables."""

    path: str
    tokens: int
    coverage: float
    waits_us: tuple[float, ...]
    alone: tuple[bool, ...]
    """Whether no other program took the core from the step's thread meanwhile."""
    misses: float
    """Distinct rows of a step, both tables, that are not resident; a mean."""
    cache_there: float
    """Share of the pages that the page cache should hold and did, at the end; the least over the files."""
    wrong: int

    def at(self, percent: float) -> float:
        """Return a percentile of the waits, us."""
        return float(np.percentile(self.waits_us, percent))

    @property
    def p95_alone(self) -> float:
        """Return the 95th percentile over the steps from which the core was not taken, us; of none NaN."""
        own = [wait for wait, alone in zip(self.waits_us, self.alone, strict=True) if alone]
        return float(np.percentile(own, 95)) if own else float("nan")

    def document(self) -> dict[str, Any]:
        """Return it for JSON; the single waits are left out."""
        return {
            "path": self.path,
            "tokens": self.tokens,
            "coverage_percent": self.coverage,
            "steps": len(self.waits_us),
            "us": {"median": self.at(50), "p95": self.at(95), "p99": self.at(99)},
            "p95_alone_us": self.p95_alone,
            "share_alone": float(np.mean(self.alone)),
            "misses": self.misses,
            "cache_there": self.cache_there,
            "wrong": self.wrong,
        }


def ratio(of: Case, to: Case, percent: float) -> tuple[float, float, float]:
    """Return how often a percentile of `of` holds one of `to`, and a 95 % bootstrap interval over the steps, drawn in pairs."""
    both = np.array([of.waits_us, to.waits_us])
    drawn = np.random.default_rng(0).integers(0, both.shape[1], (RESAMPLES, both.shape[1]))
    first, second = (np.percentile(one[drawn], percent, axis=1) for one in both)
    low, high = np.percentile(first / second, [2.5, 97.5])
    return of.at(percent) / to.at(percent), float(low), float(high)


def faults(cases: Sequence[Case]) -> list[str]:
    """Return where ours is slower than all-disk beyond the interval, where it falls less than the bar, and where rows were wrong."""
    found = [
        f"{one.path}, {one.tokens} tokens, {one.coverage} %: {one.wrong} wrong rows"
        for one in cases
        if one.wrong
    ]
    for one in cases:
        if one.path not in {OURS, OURS_LEAD}:
            continue
        for percent in (50, 95):
            other = DISK if one.path == OURS else DISK_LEAD
            _, low, _ = ratio(one, _same(cases, one, other), percent)
            if low > 1:
                found.append(
                    f"{one.path}, {one.tokens} tokens, {one.coverage} %: slower than {other} at {percent} %"
                )
        if one.path == OURS_LEAD and one.coverage == FALL_AT:
            fall, low, high = ratio(_same(cases, one, DISK), one, 95)
            if fall < FALL:
                found.append(
                    f"{one.tokens} tokens: falls {fall:.1f}fold ({low:.1f} to {high:.1f}), wanted {FALL:g}"
                )
    return found


def told(cases: Sequence[Case]) -> str:
    """Return the table, one line a path."""
    lines = [
        "| resident | tokens | misses | path | median, us | p95 | p99 | p95 against all-disk native | core kept | p95 of those |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in cases:
        share, low, high = ratio(one, _same(cases, one, DISK), 95)
        lines.append(
            f"| {one.coverage:g} % | {one.tokens} | {one.misses:.1f} | {one.path} | {one.at(50):.0f} | {one.at(95):.0f} | {one.at(99):.0f} "
            f"| {share:.2f} ({low:.2f} to {high:.2f}) | {np.mean(one.alone):.0%} | {one.p95_alone:.0f} |"
        )
    there = min(one.cache_there for one in cases)
    lines.append(f"\nPages that the page cache should hold and did: at least {there:.1%}")
    return "\n".join(lines)


def _same(cases: Sequence[Case], like: Case, path: str) -> Case:
    return next(
        one for one in cases if (one.path, one.tokens, one.coverage) == (path, like.tokens, like.coverage)
    )
