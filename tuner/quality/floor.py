"""The restart floor: how far the same configuration lies from itself across restarts and batch mixes, and who stays under it.

Everything is compared with one reference scoring (a run's texts scored alone). The floor is the mean over other boots of the
same configuration, alone and under load; a candidate is what another configuration shows in the same mixes. What a candidate adds
is its mean less the floor's, position by position on the same texts. docs/quality.md tells what that can and cannot show.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tuner.lever import Bounds
from tuner.quality import bootstrap, divergence
from tuner.quality.bootstrap import BLOCK, Array, Estimate
from tuner.quality.logprobs import MIXES, Mix, Scored

Measure = Literal["kl_nats", "top1_changed", "loss_nats"]
"""Mean least KL from the reference; share of positions with another likeliest token; mean log-likelihood lost on the texts."""

MEASURES: tuple[Measure, ...] = ("kl_nats", "top1_changed", "loss_nats")

Outcome = Literal["passes", "exceeds", "inconclusive"]

LEAST_BOUND: Mapping[Measure, float] = {"kl_nats": 0.001, "top1_changed": 0.005, "loss_nats": 0.01}
"""What may always be added, for engines whose restarts are (nearly) the same to the bit. Ours: less than a third and half of the
floors reported by tsw2k/Deepseek-4.1-Flash-Quad-DGX-Sparks (KL 0.0036, top-1 0.988), and one percent of perplexity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The scores of one run, on one boot: every text in each mix."""

    boot: str
    scored: tuple[Scored, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One measure of a candidate: its value, the floor's, what it adds to that, and the most that it may add."""

    measure: Measure
    value: float
    floor: float
    added: Estimate
    bound: float
    bound_from: Literal["floor", "least", "ladder"]
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """What the scores amount to; without a floor nothing is judged and `why` says what is missing."""

    outcome: Outcome
    why: str
    judged: tuple[Judged, ...] = ()
    boots: int = 0
    """Boots that the floor rests on, the reference's among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """How far scores lie from the reference on one text, or on all (`text` is empty); perplexities are of the texts alone."""

    text: str
    positions: int
    perplexity: float
    reference_perplexity: float
    measures: Mapping[Measure, Estimate]


def distances(reference: Run, run: Run, seed: int, mixes: Sequence[Mix] = ("alone",)) -> tuple[Distance, ...]:
    """Return how far a run lies from the reference, on all texts first and then text by text.

    Raises:
        ValueError: the two did not score the same tokens.

    """
    names = tuple(dict.fromkeys(one.text for one in reference.scored))
    return tuple(
        _distance(reference, run, chosen, seed, mixes) for chosen in (names, *((name,) for name in names))
    )


def floor(reference: Run, repeats: Sequence[Run], seed: int) -> Mapping[str, Mapping[Measure, Estimate]]:
    """Return the floor by its parts: `restart` (alone, another boot), `mix` (loaded, the same boot), `both`.

    Parts of which there are no scores are left out.
    """
    found: dict[str, list[Array]] = {"restart": [], "mix": [], "both": []}
    sizes = _sizes(reference)
    for run in (reference, *repeats):
        if "loaded" in _mixes(run):
            found["mix"].append(_sums(run, run, ("loaded",)))
        if run is not reference:
            found["restart"].append(_sums(reference, run, ("alone",)))
            if "loaded" in _mixes(run):
                found["both"].append(_sums(reference, run, ("loaded",)))
    return {name: _estimates(np.stack(runs), sizes, seed) for name, runs in found.items() if runs}


def judge(
    reference: Run, repeats: Sequence[Run], candidates: Sequence[Run], bounds: Bounds | None, seed: int
) -> Grade:
    """Judge a candidate against the floor, or against the bounds of a ladder where it sets them.

    Args:
        reference: the run that everything is compared with.
        repeats: runs of the reference's configuration on other boots.
        candidates: runs of the configuration in question, one a boot.
        bounds: what a ladder allows to be added, measure by measure; None for the floor's own size.
        seed: of the bootstrap.

    Raises:
        ValueError: they did not score the same tokens.

    """
    if not repeats:
        return Grade(
            outcome="inconclusive",
            why="no floor yet: it needs the reference's configuration on one more boot at least",
        )
    # The reference's own boot repeats itself: it would make any candidate look nearer than a restart is.
    candidates = [run for run in candidates if run.boot != reference.boot]
    if not candidates:
        return Grade(
            outcome="inconclusive", why="this is the reference's own boot: what is judged needs another"
        )
    mixes = [mix for mix in MIXES if all(mix in _mixes(run) for run in (*repeats, *candidates))]
    ours = np.stack([_sums(reference, run, mixes) for run in candidates])
    theirs = np.stack([_sums(reference, run, mixes) for run in repeats])
    sizes = _sizes(reference)
    drawn = bootstrap.draws(ours, sizes, seed) - bootstrap.draws(theirs, sizes, seed, salt=1)
    judged = tuple(
        _judged(measure, at, (ours, theirs, sizes), drawn, bounds) for at, measure in enumerate(MEASURES)
    )
    return Grade(
        outcome=_worst(judged), why=_why(judged), judged=judged, boots=1 + len({run.boot for run in repeats})
    )


def _judged(
    measure: Measure, at: int, sums: tuple[Array, Array, Array], drawn: Array, bounds: Bounds | None
) -> Judged:
    ours, theirs, sizes = sums
    value, floors = (
        float(ours[:, at].sum() / sizes.sum() / len(ours)),
        theirs[:, at].sum(axis=1) / sizes.sum(),
    )
    base = float(floors.mean())
    bound, origin = _bound(measure, float(np.abs(floors).max() if measure == "loss_nats" else base), bounds)
    added = bootstrap.interval(value - base, drawn[:, at])
    outcome: Outcome = "inconclusive"
    if added.high <= bound:
        outcome = "passes"
    elif added.low > bound:
        outcome = "exceeds"
    return Judged(
        measure=measure, value=value, floor=base, added=added, bound=bound, bound_from=origin, outcome=outcome
    )


def _bound(
    measure: Measure, of_floor: float, bounds: Bounds | None
) -> tuple[float, Literal["floor", "least", "ladder"]]:
    given = None
    if bounds:
        most = bounds.most_perplexity_gain
        given = {
            "kl_nats": bounds.most_kl_over_floor,
            "top1_changed": bounds.most_top1_changed_over_floor,
            "loss_nats": None if most is None else math.log1p(most),
        }[measure]
    if given is not None:
        return given, "ladder"
    least = LEAST_BOUND[measure]
    return (of_floor, "floor") if of_floor > least else (least, "least")


def _estimates(runs: Array, sizes: Array, seed: int) -> Mapping[Measure, Estimate]:
    return dict(zip(MEASURES, bootstrap.estimates(runs, sizes, seed), strict=True))


def _worst(judged: Sequence[Judged]) -> Outcome:
    found = {one.outcome for one in judged}
    return "exceeds" if "exceeds" in found else "inconclusive" if "inconclusive" in found else "passes"


def _why(judged: Sequence[Judged]) -> str:
    worst = _worst(judged)
    return "; ".join(
        f"{one.measure} adds {one.added.mean:.4g} ({one.added.low:.4g} to {one.added.high:.4g}) to a floor of "
        f"{one.floor:.4g}, at most {one.bound:.4g} wanted"
        for one in judged
        if one.outcome == worst
    )


def _distance(reference: Run, run: Run, names: Sequence[str], seed: int, mixes: Sequence[Mix]) -> Distance:
    before, now = _only(reference, names), _only(run, names)
    alone = [[one for one in kept.scored if one.mix == "alone"] for kept in (before, now)]
    sums = np.stack([_sums(before, now, mixes)])
    return Distance(
        text=names[0] if len(names) == 1 else "",
        positions=int(_sizes(before).sum()),
        perplexity=divergence.perplexity(alone[1]),
        reference_perplexity=divergence.perplexity(alone[0]),
        measures=_estimates(sums, _sizes(before), seed),
    )


def _only(run: Run, names: Sequence[str]) -> Run:
    return Run(boot=run.boot, scored=tuple(one for one in run.scored if one.text in names))


def _mixes(run: Run) -> set[Mix]:
    return {one.mix for one in run.scored}


def _sizes(reference: Run) -> Array:
    """Return the number of positions of each block, text by text."""
    alone = [one for one in reference.scored if one.mix == "alone"]
    return np.array(
        [
            min(BLOCK, len(one.positions) - start)
            for one in alone
            for start in range(0, len(one.positions), BLOCK)
        ],
        dtype=np.float64,
    )


def _sums(reference: Run, run: Run, mixes: Sequence[Mix]) -> Array:
    """Return measure by block: the sums over its positions, averaged over the mixes; measured against the reference alone."""
    parts = []
    for mix in mixes:
        scored = {one.text: one for one in run.scored if one.mix == mix}
        rows = []
        for one in (kept for kept in reference.scored if kept.mix == "alone"):
            if one.text not in scored:
                raise ValueError(f"text {one.text} was not scored {mix}")
            apart = divergence.compare(one, scored[one.text])
            table = np.array([[at.kl, not at.agrees, at.loss] for at in apart], dtype=np.float64)
            rows.append(np.add.reduceat(table, np.arange(0, len(table), BLOCK), axis=0))
        parts.append(np.concatenate(rows))
    return np.asarray(np.mean(parts, axis=0).T, dtype=np.float64)
