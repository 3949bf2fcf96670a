"""Resident Engram rows: what fits beside the cache on the rank that binds, and what others saw that many answer."""

from dataclasses import replace

import pytest

from launcher.capacity import config, memory, resident
from launcher.capacity.memory import Table
from launcher.capacity.preset import Hardware
from launcher.overlay import Settings, overlay
from sparkctl import content, edge
from sparkctl.cli import memory_table, presets
from sparkctl.cli.served import read_recipe
from sparkctl.units import GIB

GB10 = edge.read(content.hardware("gb10"), Hardware)
TABLES = {1: 384006168, 14: 384016682}


def table(pin: float, beside: Settings | None = None) -> Table:
    """The memory table of the four-node recipe with that cache, and what else is set."""
    recipe, engine = read_recipe("v41-flash-exl3-tp4")
    changed = overlay(recipe, {"memory.kv_cache_gib": pin, **(beside or {})}, engine)
    model = presets.of_recipe(changed, None)
    return memory_table.table(changed, config.attention(model.config, recipe.name), model, GB10)


@pytest.mark.parametrize("pin", [8.0, 12.0, 16.0, 20.0])
def test_what_fits_leaves_the_guard_its_floor(pin: float) -> None:
    """With the rows the binding rank is above the floor at the high end of every span; with a million more it is not."""
    found = table(pin)
    spare = found.left(found.binding).low - found.setup.guard_gib
    for one in resident.fitting(found):
        size = memory.RESIDENT_ROW_BYTES[one.kind]
        million = 2 * 1e6 / 4 * size / GIB
        lines = sum(rows / 4 / 480 * 64 for rows in TABLES.values()) / GIB
        assert one.gib == pytest.approx(2 * one.rows / 4 * size / GIB + lines, rel=1e-6)
        assert one.gib <= spare < one.gib + million


@pytest.mark.parametrize(("kind", "rows"), [("fp8", 1), ("fp8", 5), ("fp8", 20), ("fp4", 100)])
def test_rows_that_a_recipe_keeps_are_a_line_and_change_nothing_of_what_fits(kind: str, rows: int) -> None:
    """Millions of each table: what they take on a rank, and as many fit in all as without them."""
    asked: Settings = {"engram.rows": "/r", "engram.resident": rows * 1_000_000, "engram.format": kind}
    found, without = table(12.0, asked), table(12.0)
    line = next(one for one in found.lines if one.name == "resident Engram rows")
    lines = sum(every / 4 / 480 * 64 for every in TABLES.values())
    wanted = (2 * rows * 1e6 / 4 * memory.RESIDENT_ROW_BYTES[kind] + lines) / GIB
    assert line.gib[found.binding].high == pytest.approx(wanted, rel=1e-6)
    assert found.used(0).high - without.used(0).high == pytest.approx(wanted, rel=1e-6)
    assert resident.fitting(found) == resident.fitting(without)
    assert "resident Engram rows" not in {one.name for one in without.lines}


def test_a_hundred_million_fit_beside_the_pin_in_fp4_alone() -> None:
    """On the rank that binds, with a cache of 12 GiB; in fp8 beside one of 10."""
    assert [one.rows >= 100_000_000 for one in resident.fitting(table(12.0))] == [False, True]
    assert [one.rows >= 100_000_000 for one in resident.fitting(table(10.0))] == [True, True]


def test_half_the_bytes_hold_nearly_twice_the_rows() -> None:
    """fp4 rows take 136 bytes instead of 264."""
    eight, four = resident.fitting(table(12.0))
    assert four.rows / eight.rows == pytest.approx(264 / 136, rel=0.02)


def test_nothing_fits_where_the_cache_takes_all() -> None:
    """A pin beyond the largest safe one leaves rows nothing."""
    assert [one.rows for one in resident.fitting(table(24.0))] == [0, 0]
    assert [one.gib for one in resident.fitting(table(24.0))] == [0.0, 0.0]


def test_a_model_without_tables_on_disk_has_no_rows_to_keep() -> None:
    """Tables in memory, or none."""
    found = table(12.0)
    assert resident.fitting(replace(found, setup=replace(found.setup, engram="resident"))) == ()
    assert resident.fitting(replace(found, setup=replace(found.setup, engram="none"), tables_gib=0.0)) == ()


def test_the_whole_table_is_the_most() -> None:
    """On a machine with more memory than rows."""
    found = replace(table(12.0), total_gib=900.0)
    assert {one.rows for one in resident.fitting(found)} == {384_000_000}


@pytest.mark.parametrize(
    ("rows", "percent"), [(1_000_000, 43.0), (20_000_000, 74.0), (100_000_000, 92.7), (999_999, None), (100_000_001, None)]
)  # fmt: skip
def test_the_published_curve(rows: int, percent: float | None) -> None:
    """The published points themselves; beyond them nothing is said."""
    assert resident.answered(rows) == percent
    between = resident.answered(30_000_000)
    assert between is not None
    assert 74 < between < 84
