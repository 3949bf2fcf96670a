"""Warming: is an engine warm? Pure rule over the decode rates of requests that were sent one after the other."""

from collections.abc import Sequence

from tuner.workload import WarmUp


def spread(rates: Sequence[float], rule: WarmUp) -> float:
    """Return by how much the last replies differ, largest over smallest less 1; infinite while there are too few."""
    last = rates[-rule.agree :]
    return max(last) / min(last) - 1 if len(last) == rule.agree and min(last) > 0 else float("inf")


def is_warm(rates: Sequence[float], rule: WarmUp) -> bool:
    """Whether the last replies in a row agree: from there on figures count."""
    return spread(rates, rule) <= rule.within
