"""Row ids in NumPy: compressed token ids of a batch to the rows that each token reads, [tokens, columns] int64. Pure."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.engram.tables import DEAD, LEAST_ORDER, Slice, Table
from sparkctl_vllm.refusal import demand

Ids = NDArray[np.int64]


def of_sequence(table: Table, ids: Sequence[int] | Ids, history: Sequence[int] | Ids = ()) -> Ids:
    """Return the rows of one sequence's tokens; `history` are the ids before them, the last as many as the model looks back suffice."""
    before = np.asarray(history, dtype=np.int64)
    flat = np.concatenate([before, np.asarray(ids, dtype=np.int64)])
    at = np.arange(len(before), len(flat))
    return of_batch(table, flat, at, np.zeros_like(at))


def of_batch(table: Table, flat: Ids, at: Ids, start: Ids) -> Ids:
    """Return the rows of the tokens at `flat[at]`, where `start` is the place in `flat` at which each token's sequence begins.

    Raises Refusal for an id that is neither compressed nor dead.
    """
    inside = bool(((flat >= DEAD) & (flat < table.vocabulary)).all())
    found = "" if inside else f"{flat.min()} to {flat.max()}"
    demand(inside, "compressed ids", found, f"0 to {table.vocabulary - 1}, or {DEAD} for a dead one")
    blocked = np.zeros(len(at), dtype=bool)
    mixed = np.zeros(len(at), dtype=np.int64)
    rows = np.empty((len(at), table.columns), dtype=np.int64)
    primes, offsets = np.array(table.primes), np.array(table.offsets)
    for back, multiplier in enumerate(table.multipliers):
        place = np.maximum(at - back, 0)
        seen = flat[place] if len(flat) else np.zeros(0, dtype=np.int64)
        blocked |= (at - back < start) | (seen == DEAD)
        mixed ^= np.where(blocked, table.pad, seen) * multiplier
        if back >= LEAST_ORDER - 1:
            first = (back - LEAST_ORDER + 1) * table.heads
            own = slice(first, first + table.heads)
            rows[:, own] = offsets[own] + mixed[:, None] % primes[own]
    return rows


def of_rank(rows: Ids, owned: Slice) -> Ids:
    """Return a rank's columns of a table's rows, counted from the rank's first row."""
    return np.ascontiguousarray(rows[:, owned.columns.start : owned.columns.stop] - owned.begin)
