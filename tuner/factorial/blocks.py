"""The boots of a climb before they are made: the arming pass, and folded two-level blocks over the factors that are open.

All orders are drawn by SHA-256 of the seed and a place, so a climb that is taken up again, anywhere and with any library,
plans the same boots.
"""

import hashlib
from collections.abc import Iterable
from typing import TypeVar

from tuner.factorial.factors import Factor, needs, ordered, standing
from tuner.factorial.hadamard import hadamard, runs_of_block
from tuner.lever import Ladder
from tuner.steps import On

T = TypeVar("T")


def arming(ladder: Ladder, seed: int) -> tuple[On, ...]:
    """Return the arming pass: base, half of the levers one at a time, base, the other half; in random order.

    A lever that requires others is booted with them. Levers of kind profile are not booted.
    """
    names = shuffled((lever.id for lever in ladder.levers if lever.kind == "speed"), f"{seed}/arming")
    alone = tuple(ordered(ladder, {name, *needs(ladder, name)}) for name in names)
    half = (len(alone) + 1) // 2
    return ((), *alone[:half], (), *alone[half:])


def block(ladder: Ladder, factors: tuple[Factor, ...], stack: On, key: str) -> tuple[On, ...]:
    """Return the runs of one folded block over open factors, on top of a stack.

    Columns of a Hadamard matrix are dealt to the factors with random signs; each run stands beside its mirror image, in
    which every factor is on that was off. So each factor is on in half of the runs, orthogonal to the others, clear of
    interactions between any two (resolution IV), and a slow drift cancels within each pair. Of levers that exclude each
    other one is on in each such run, as evenly as can be.
    """
    order = runs_of_block(len(factors)) // 2
    matrix = hadamard(order)
    columns = shuffled(range(order), f"{key}/columns")
    signs = [_number(f"{key}/sign/{at}") % 2 * 2 - 1 for at in range(len(factors))]
    pairs: list[tuple[tuple[bool, ...], tuple[bool, ...]]] = []
    for row in shuffled(range(order), f"{key}/rows"):
        levels = tuple(
            bool(matrix[row, column] * sign > 0) for column, sign in zip(columns, signs, strict=False)
        )
        mirror = tuple(not level for level in levels)
        pairs.append((levels, mirror) if _number(f"{key}/first/{row}") % 2 else (mirror, levels))
    return _named(ladder, factors, stack, key, [run for pair in pairs for run in pair])


def shuffled(items: Iterable[T], key: str) -> tuple[T, ...]:
    """Return the items in an order drawn from the key."""
    listed = tuple(items)
    places = sorted(range(len(listed)), key=lambda at: _number(f"{key}/{at}"))
    return tuple(listed[at] for at in places)


def _named(
    ladder: Ladder, factors: tuple[Factor, ...], stack: On, key: str, runs: list[tuple[bool, ...]]
) -> tuple[On, ...]:
    """Turn levels of factors into levers that are on; members of a factor take turns."""
    turns = {factor: shuffled(factor, f"{key}/{factor[0]}") for factor in factors}
    taken = dict.fromkeys(factors, 0)
    named: list[On] = []
    for run in runs:
        on = set(stack)
        for factor, level in zip(factors, run, strict=True):
            if level:
                on.add(turns[factor][taken[factor] % len(factor)])
                taken[factor] += 1
        named.append(standing(ladder, on))
    return tuple(named)


def _number(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8])
