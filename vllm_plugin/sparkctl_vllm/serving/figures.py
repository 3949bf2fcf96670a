"""Figures: what one rank counts while it serves, in a small file that the API's process maps too. Counters only ever rise.

The file is one of float64 numbers: how many ranks and rows the plan has, then the counters. Whoever reads it while it is written sees
each number whole, since each lies in eight aligned bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HEAD = 2
SINGLE = (
    "tiles_read",
    "tiles_whole",
    "price",
    "steps_whole_prefill",
    "steps_whole_rows",
    "rows_deepened",
    "nats",
)
"""One number each; then bytes read and bytes of whole reads by rank, and steps by their rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A view of the file: writing to it is what the other process reads."""

    numbers: NDArray[np.float64]
    ranks: int
    rows: int

    @classmethod
    def made(cls, path: Path | None, ranks: int, rows: int) -> "Figures":
        """Make the file, every counter at 0; without a path they are this process's alone."""
        size = HEAD + len(SINGLE) + 2 * ranks + rows + 1
        fresh = np.zeros(size) if path is None else np.memmap(path, np.float64, "w+", shape=(size,))
        fresh[:HEAD] = ranks, rows
        return cls(numbers=fresh, ranks=ranks, rows=rows)

    @classmethod
    def found(cls, path: Path) -> "Figures | None":
        """Return what a rank writes into a file; None where none has begun to."""
        if not path.is_file() or path.stat().st_size <= HEAD * 8:
            return None
        held = np.memmap(path, np.float64, "r")
        ranks, rows = (int(one) for one in held[:HEAD])
        return cls(numbers=held, ranks=ranks, rows=rows) if rows else None

    def single(self, name: str) -> float:
        """Return one of SINGLE."""
        return float(self.numbers[self._place(name)])

    def add(self, name: str, number: float) -> None:
        """Add to one of SINGLE."""
        self.numbers[self._place(name)] += number

    def put(self, name: str, number: float) -> None:
        """Set one of SINGLE that is no counter."""
        self.numbers[self._place(name)] = number

    @property
    def read(self) -> NDArray[np.float64]:
        """Bytes of experts that were read in budget steps, [ranks]."""
        return self._span(0, self.ranks)

    @property
    def whole(self) -> NDArray[np.float64]:
        """Bytes that the same steps would have read of the same experts whole, [ranks]."""
        return self._span(self.ranks, self.ranks)

    @property
    def steps(self) -> NDArray[np.float64]:
        """Budget steps by their rows, [rows + 1]."""
        return self._span(2 * self.ranks, self.rows + 1)

    def step(self, rows: int, read: Sequence[int], whole: Sequence[int], tile_bytes: int) -> None:
        """Count a budget step: tiles read of each rank's slice and tiles of whole reads."""
        self.steps[rows] += 1
        self.read[:] += np.asarray(read, np.float64) * tile_bytes
        self.whole[:] += np.asarray(whole, np.float64) * tile_bytes
        self.add("tiles_read", sum(read))
        self.add("tiles_whole", sum(whole))

    def _place(self, name: str) -> int:
        return HEAD + SINGLE.index(name)

    def _span(self, begin: int, count: int) -> NDArray[np.float64]:
        first = HEAD + len(SINGLE) + begin
        return self.numbers[first : first + count]
