"""Coverage: what share of lookups keeping the hottest rows would answer, on text that did not choose them. Pure.

In-sample figures flatter: rows that one document alone reads look hot in it. The rows are chosen by one file of counts and judged by another.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparkctl_vllm.engram.counts import Counted, Ledger
from sparkctl_vllm.refusal import demand


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """Rows kept of a table, and the share of the held-out lookups, 0 to 1, that they answer."""

    layer: int
    rows: int
    share: float


def covered(chosen: Ledger, judged: Ledger, sizes: Sequence[int]) -> tuple[Covered, ...]:
    """Return the share for each table and number of rows kept. Raises Refusal where a corpus is in both, or a table is of another size."""
    both = {one.fingerprint for one in chosen.corpora} & {one.fingerprint for one in judged.corpora}
    names = [one.name for one in judged.corpora if one.fingerprint in both]
    demand(
        not names,
        "held-out corpus",
        f"{', '.join(names)} also chose the rows",
        "text that did not choose them",
    )
    found = []
    for layer, table in chosen.tables.items():
        other = judged.tables.get(layer)
        same = other is not None and other.rows == table.rows
        demand(same, f"table of layer {layer}", "not of the same size in both", "counts of the same model")
        if other is not None:
            found += [
                Covered(layer=layer, rows=size, share=one) for size, one in _shares(table, other, sizes)
            ]
    return tuple(found)


def _shares(table: Counted, judged: Counted, sizes: Sequence[int]) -> list[tuple[int, float]]:
    order = np.argsort(-table.counts.astype(np.int64), kind="stable")
    place = np.searchsorted(judged.ids, table.ids)
    known = place < len(judged.ids)
    known[known] = judged.ids[place[known]] == table.ids[known]
    answered = np.zeros(len(table.ids), dtype=np.int64)
    answered[known] = judged.counts[place[known]]
    running = np.concatenate([[0], np.cumsum(answered[order])])
    lookups = judged.lookups
    demand(lookups > 0, "held-out lookups", 0, "some text")
    return [(size, float(running[min(size, len(order))]) / lookups) for size in sizes]
