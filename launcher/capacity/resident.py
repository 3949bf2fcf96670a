"""Resident rows: how many hot Engram rows of each table fit beside everything else on the fullest rank, and what others saw that many answer. Pure.

Memory is the only question here; whether rows in memory make a step faster is measured on the node (docs/engram.md).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from launcher.capacity.memory import (
    ENGRAM_ROW_BYTES,
    ENGRAM_TABLES,
    RESIDENT_ROW_BYTES,
    Table,
    resident_bytes,
)
from sparkctl.units import GIB

STEP = 1_000_000
PUBLISHED = (
    (1_000_000, 43.0),
    (5_000_000, 59.0),
    (10_000_000, 67.0),
    (20_000_000, 74.0),
    (50_000_000, 84.0),
    (100_000_000, 92.7),
)
"""Rows kept of each table of DeepSeek-V4.1-Flash, and percent of held-out lookups that they answered: bot-lab-21's model card
(DeepSeek-V4.1-Flash-EXL3, Engram), counted over 1.12 billion tokens. Of other text it is another curve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """Rows of each table, over all ranks, that fit in a format; GiB that they take on a rank; percent that others saw them answer."""

    kind: str
    rows: int
    gib: float
    answered: float | None


def fitting(found: Table) -> tuple[Fitting, ...]:
    """Return what fits beside the cache on the rank that binds, at the high end of every span; empty where no table is read from disk.

    Rows that the recipe keeps already are among them.
    """
    setup = found.setup
    if setup.engram != "disk" or not found.tables_gib:
        return ()
    kept = resident_bytes(setup.resident_rows, setup.resident_kind, found.tables_gib, found.ranks)
    spare = (found.left(found.binding).low - setup.guard_gib) * GIB + kept
    return tuple(_of(kind, spare, found) for kind in RESIDENT_ROW_BYTES)


def answered(rows: int, points: Sequence[tuple[int, float]] = PUBLISHED) -> float | None:
    """Return percent of held-out lookups, on a line in the logarithm of the rows between published points; None outside of them."""
    for (fewer, low), (more, high) in pairwise(points):
        if fewer <= rows <= more:
            return low + (high - low) * math.log(rows / fewer) / math.log(more / fewer)
    return None


def _of(kind: str, spare: float, found: Table) -> Fitting:
    ranks, tables = found.ranks, found.tables_gib
    table_rows = round(tables * GIB / ENGRAM_TABLES / ENGRAM_ROW_BYTES)
    million = resident_bytes(2 * STEP, kind, tables, ranks) - resident_bytes(STEP, kind, tables, ranks)
    lines = resident_bytes(STEP, kind, tables, ranks) - million
    rows = min(table_rows // STEP, max(0, math.floor((spare - lines) / million))) * STEP
    held = resident_bytes(rows, kind, tables, ranks) / GIB
    return Fitting(kind=kind, rows=rows, gib=held, answered=answered(rows))
