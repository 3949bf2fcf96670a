"""Choice: are resident rows worth their memory on this node? Both paths look up the same steps in turns, and the faster one is kept.

The 95th percentile decides: a step waits for its slowest row, on the slowest rank, so the mean hides what is felt. Equal is not faster: rows
that gain nothing give their memory back.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.engram.definition import ROW_VALUES
from sparkctl_vllm.engram.reader import Reader
from sparkctl_vllm.engram.row_ids import Ids
from sparkctl_vllm.refusal import demand

LEAST_STEPS = 100
"""Ours: of fewer steps the 95th percentile is one of the five slowest, and says little."""
WARM = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which path is kept, and what both measured over so many steps, us: the 95th percentile, and the median beside it."""

    keeps: Literal["resident", "disk"]
    resident_p95_us: float
    disk_p95_us: float
    resident_median_us: float
    disk_median_us: float
    steps: int

    def told(self) -> str:
        """Return the line for a log, behind whose rows it speaks of."""
        return (
            f"keeps {self.keeps}: p95 {self.resident_p95_us:.0f} us resident, {self.disk_p95_us:.0f} us all from disk "
            f"(medians {self.resident_median_us:.0f} and {self.disk_median_us:.0f}, {self.steps} steps)"
        )


def choose(resident_us: Sequence[float], disk_us: Sequence[float]) -> Choice:
    """Return the choice that two equally long series of waits lead to."""
    demand(len(resident_us) == len(disk_us), "steps", (len(resident_us), len(disk_us)), "as many of both")
    demand(len(resident_us) >= LEAST_STEPS, "steps", len(resident_us), f"at least {LEAST_STEPS}")
    (resident, resident_median), (disk, disk_median) = (
        (float(np.percentile(one, 95)), float(np.median(one))) for one in (resident_us, disk_us)
    )
    return Choice(
        keeps="resident" if resident < disk else "disk",
        resident_p95_us=resident,
        disk_p95_us=disk,
        resident_median_us=resident_median,
        disk_median_us=disk_median,
        steps=len(disk_us),
    )


Look = Callable[[Ids, NDArray[np.uint16]], float]
"""Looks up a step's rows into bfloat16 bits [lookups, 256], and returns how long that took, us."""


def measured(resident: Look, disk: Look, steps: Sequence[Ids], *, exact: bool) -> Choice:
    """Look up every step by both paths, in turns, and choose; rows that differ between them are refused: one of the files is wrong.

    `exact` is false for rows in fp4, which are not the disk's.
    """
    most = max((ids.size for ids in steps), default=0)
    outs = [np.zeros((most, ROW_VALUES), dtype=np.uint16) for _ in range(2)]
    waits: tuple[list[float], list[float]] = ([], [])
    for number, ids in enumerate(steps):
        for turn in (number % 2, 1 - number % 2):
            waited = (resident if turn == 0 else disk)(ids, outs[turn])
            if number >= WARM:
                waits[turn].append(waited)
        same = not exact or bool((outs[0][: ids.size] == outs[1][: ids.size]).all())
        demand(
            same,
            "resident rows",
            f"not those of the disk, in step {number}",
            "the same bytes",
            "pack them anew",
        )
    return choose(*waits)


def by(reader: Reader) -> Look:
    """Return how a reader looks up on the CPU."""

    def look(ids: Ids, out: NDArray[np.uint16]) -> float:
        begin = time.perf_counter()
        reader.begin(ids, out)
        reader.wait(out)
        return 1e6 * (time.perf_counter() - begin)

    return look
