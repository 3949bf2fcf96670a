"""Bounds of a group-sequential test, computed: how far a z has to go at each look so that all looks together err at most so often.

The z of successive looks are normal with correlation sqrt(I_j / I_k) for information I_j < I_k (boots measured). The error
is spent as boots come in by the O'Brien-Fleming-like function of Lan and DeMets, Biometrika 70 (1983); each bound follows
from those before it by integrating over the z that went on, as in Armitage, McPherson and Rowe, J. R. Stat. Soc. A 132
(1969). There is no lower bound in it: what is given up as futile may be given up or not, the error holds either way.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

_LOWEST, _HIGHEST = -8.0, 9.0
"""z beyond which no chance is left: Phi(-8) is 6e-16."""
_STEP = 1e-8
"""How fine a bound is told."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(160)
_LEAST_SPENT = 1e-13
"""Less than this cannot be told from 0 by the integration; such a look has no bound to cross."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Information at a look, in measured boots, and the share of the planned information that counts for spending (0 to 1)."""

    information: int
    share: float


def spent(error: float, share: float) -> float:
    """Return the one-sided error spent by that share of the information: 2 - 2 Phi(z_(1 - error/2) / sqrt(share))."""
    if share <= 0:
        return 0.0
    quantile = -float(scipy.special.ndtri(error / 2))
    return 2 * float(scipy.special.ndtr(-quantile / math.sqrt(min(share, 1.0))))


def bound(error: float, looks: tuple[Look, ...]) -> float:
    """Return the bound for z at the last of these looks, inf where nothing may be spent yet.

    Args:
        error: one-sided, over all looks up to the full information.
        looks: those held so far, in order, with rising information and share.

    """
    return _stage(error, looks).bound


@dataclass(frozen=True, slots=True)
class _Stage:
    """The bound of a look, and the density of the z that went on below it: at `nodes`, weighted for a sum."""

    bound: float
    nodes: NDArray[np.float64]
    masses: NDArray[np.float64]


@lru_cache(maxsize=20_000)
def _stage(error: float, looks: tuple[Look, ...]) -> _Stage:
    last = looks[-1]
    if len(looks) == 1:
        limit = _limit(spent(error, last.share), lambda z: float(scipy.special.ndtr(-z)))
        nodes, weights = _grid(limit)
        return _Stage(limit, nodes, weights * np.exp(-nodes * nodes / 2) / math.sqrt(2 * math.pi))
    before = _stage(error, looks[:-1])
    old = looks[-2]
    if last.information <= old.information:
        raise ValueError(f"information {last.information} after {old.information}, wanted more at each look")
    step = math.sqrt(last.information - old.information)
    root, drawn = math.sqrt(last.information), before.nodes * math.sqrt(old.information)

    def crossing(z: float) -> float:
        return float(before.masses @ scipy.special.ndtr((drawn - z * root) / step))

    limit = _limit(spent(error, last.share) - spent(error, old.share), crossing)
    nodes, weights = _grid(limit)
    gaps = (nodes[:, None] * root - drawn[None, :]) / step
    density = np.exp(-gaps * gaps / 2) @ before.masses * (root / step / math.sqrt(2 * math.pi))
    return _Stage(limit, nodes, weights * density)


def _limit(chance: float, crossing: Callable[[float], float]) -> float:
    """Return the z that is crossed with this chance."""
    if chance < _LEAST_SPENT or crossing(_HIGHEST) > chance:
        return math.inf
    # Bisection of the standard library: SciPy's root finders take 0.1 s to import, which every plan would pay.
    steps = range(round(_HIGHEST / _STEP))
    return _STEP * bisect_left(steps, -chance, key=lambda step: -crossing(step * _STEP))


def _grid(limit: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    half = (min(limit, -_LOWEST) - _LOWEST) / 2
    return _LOWEST + half * (_NODES + 1), half * _WEIGHTS
