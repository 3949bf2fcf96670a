"""Resident rows: how many hot Engram rows of each table fit beside everything else on the fullest rank, and what others saw that many answer. Pure.

Memory is the only question here; whether rows in memory make a step faster is measured on the node (docs/engram.md).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from launcher.capacity.memory import ENGRAM_ROW_BYTES, ENGRAM_TABLES, Table
from sparkctl.units import GIB

BYTES = {"fp8": ENGRAM_ROW_BYTES, "fp4": 136}
"""Of a row: 256 values and 8 scales. What packs and serves rows is the plug-in, vllm_plugin/sparkctl_vllm/engram/row_format.py."""
LINE_ROWS, LINE_BYTES = 480, 64
"""A line says of so many rows whether they are resident, and where: vllm_plugin/sparkctl_vllm/engram/membership.py."""
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
    """Return what fits beside the cache on the rank that binds, at the high end of every span; empty where no table is read from disk."""
    if found.setup.engram != "disk" or not found.tables_gib:
        return ()
    table_rows = round(found.tables_gib * GIB / ENGRAM_TABLES / ENGRAM_ROW_BYTES)
    lines = ENGRAM_TABLES * table_rows / found.ranks / LINE_ROWS * LINE_BYTES
    spare = (found.left(found.binding).low - found.setup.guard_gib) * GIB - lines
    return tuple(_of(kind, size, spare, lines, table_rows, found.ranks) for kind, size in BYTES.items())


def answered(rows: int, points: Sequence[tuple[int, float]] = PUBLISHED) -> float | None:
    """Return percent of held-out lookups, on a line in the logarithm of the rows between published points; None outside of them."""
    for (fewer, low), (more, high) in pairwise(points):
        if fewer <= rows <= more:
            return low + (high - low) * math.log(rows / fewer) / math.log(more / fewer)
    return None


def _of(kind: str, size: int, spare: float, lines: float, table_rows: int, ranks: int) -> Fitting:  # noqa: PLR0913, PLR0917 - one place calls it
    most = min(table_rows, max(0, math.floor(spare / ENGRAM_TABLES / size * ranks)))
    rows = most // STEP * STEP
    held = (ENGRAM_TABLES * rows / ranks * size + lines) / GIB if rows else 0.0
    return Fitting(kind=kind, rows=rows, gib=held, answered=answered(rows))
