"""Membership: is a row resident, and at which place? One line of 64 bytes answers both, with no hash and no search. Pure.

A line covers 480 rows: its first word counts the resident rows of all lines before it, its other fifteen are a bit a row. The place of a row
is that count and the set bits before its own. 96 million rows take 12.8 MB.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.refusal import demand

LINE_ROWS, LINE_WORDS = 480, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The lines of a table, uint32 [lines, 16], for rows 0 to `rows`, less one."""

    rows: int
    lines: NDArray[np.uint32]

    @classmethod
    def of(cls, ids: NDArray[np.uint32], rows: int) -> "Membership":
        """Return the lines for ascending ids; raises Refusal where they are not ascending or reach beyond the rows."""
        ascending = bool((ids[1:] > ids[:-1]).all())
        demand(ascending, "resident ids", "not ascending, or one twice", "each once, ascending")
        inside = len(ids) == 0 or int(ids[-1]) < rows
        demand(inside, "resident ids", f"up to {ids.max(initial=0)}", f"less than {rows}, the rank's rows")
        lines = np.zeros((-(-rows // LINE_ROWS), LINE_WORDS), dtype=np.uint32)
        line, bit = np.divmod(ids, np.uint32(LINE_ROWS))
        word = line.astype(np.int64) * LINE_WORDS + 1 + bit // 32
        # Ids ascend, so bits of one word are neighbours: reduceat joins them without a loop.
        firsts = (
            np.flatnonzero(np.r_[True, word[1:] != word[:-1]]) if len(ids) else np.zeros(0, dtype=np.int64)
        )
        bits = np.uint32(1) << (bit % 32).astype(np.uint32)
        if len(ids):
            lines.reshape(-1)[word[firsts]] = np.bitwise_or.reduceat(bits, firsts)
        held = np.bincount(line, minlength=len(lines))
        lines[:, 0] = np.r_[0, np.cumsum(held)[:-1]]
        return cls(rows=rows, lines=lines)

    def places(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the place of each row among the resident ones, -1 where it is not resident or the id is negative."""
        line, bit = np.divmod(np.maximum(ids, 0), LINE_ROWS)
        words = self.lines[line]
        own = 1 + bit // 32
        below = (np.uint32(1) << (bit % 32).astype(np.uint32)) - np.uint32(1)
        column = np.arange(LINE_WORDS)
        full = np.where((column > 0) & (column < own[..., None]), words, np.uint32(0))
        mine = np.take_along_axis(words, own[..., None], axis=-1)[..., 0]
        before = np.bitwise_count(full).sum(axis=-1) + np.bitwise_count(mine & below)
        held = (ids >= 0) & (mine >> (bit % 32).astype(np.uint32) & 1 == 1)
        return np.where(held, words[..., 0].astype(np.int64) + before, -1)
