"""The confirmation: fresh boots of base and stack, and of the stack without each of its levers; figures apart from all verdicts.

An accepted lever's own estimate is too high on average (it was accepted for reading high), so only what these boots say of
the whole stack is published. The boots without one lever show it where it now stands, among the others that won.
"""

from collections.abc import Mapping

from tuner import statistics
from tuner.factorial.factors import ordered, standing
from tuner.lever import Ladder
from tuner.statistics import Comparison
from tuner.steps import On, Trial, name_of

PAIRS = 4
"""Pairs of base and stack. Ours: their standard error on six streams is 2.1 % where boots differ by 3 %."""

CONFIDENCE = 0.95


def order(ladder: Ladder, stack: On, part: tuple[int, int] = (0, 1)) -> tuple[On, ...]:
    """Return base and stack as B A A B, so that the stack serves at the end, and in the middle the stack without each of its levers once; nothing for no stack.

    Of several lines each confirms the stack for itself, and takes its `part` (which of how many) of the boots without a lever.
    """
    whole = ordered(ladder, stack)
    if not whole:
        return ()
    pairs = [run for at in range(PAIRS) for run in ((whole, ()) if at % 2 == 0 else ((), whole))]
    dropped = [_without(ladder, whole, name) for name in whole] if len(whole) > 1 else []
    dropped = dropped[part[0] :: part[1]]
    middle = len(pairs) // 2
    return (*pairs[:middle], *dropped, *pairs[middle:])


def gain(ladder: Ladder, stack: On, fresh: tuple[Trial, ...]) -> Mapping[str, Comparison]:
    """Return the stack against the base by metric, from the fresh boots alone."""
    whole = ordered(ladder, stack)
    return _compared(ladder, fresh, name_of(whole), name_of(()))


def worth(ladder: Ladder, stack: On, fresh: tuple[Trial, ...]) -> Mapping[str, Mapping[str, Comparison]]:
    """Return, by lever, the stack against the stack without it (and without what requires it)."""
    whole = ordered(ladder, stack)
    return {
        name: _compared(ladder, fresh, name_of(whole), name_of(_without(ladder, whole, name)))
        for name in whole
    }


def _without(ladder: Ladder, whole: On, name: str) -> On:
    return standing(ladder, set(whole) - {name})


def _compared(ladder: Ladder, fresh: tuple[Trial, ...], arm: str, base: str) -> dict[str, Comparison]:
    samples: dict[str, dict[str, tuple[float, ...]]] = {}
    for trial in fresh:
        if trial.outcome == "measured":
            for metric in trial.metrics:
                arms = samples.setdefault(metric.name, {})
                arms[name_of(trial.arm)] = (*arms.get(name_of(trial.arm), ()), metric.value)
    names = (*ladder.primary, *(guard.metric for guard in ladder.guards))
    return {
        name: statistics.compare(samples[name], arm, base, CONFIDENCE)
        for name in dict.fromkeys(names)
        if samples.get(name, {}).keys() >= {arm, base}
    }
