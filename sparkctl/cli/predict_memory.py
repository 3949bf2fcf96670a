"""`sparkctl predict memory`: what each rank will hold, which rank binds, and what would fit."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from launcher.capacity.memory import Table, weights_gib
from launcher.capacity.preset import Span
from launcher.capacity.resident import Fitting, fitting
from sparkctl.cli import memory_table, presets
from sparkctl.cli.presets import ConfigOption, HardwareOption, ModelOption
from sparkctl.cli.session import RecipeOption, Session, SetOption, verb
from sparkctl.console import Column, Console


@verb
def memory(
    session: Session,
    recipe: RecipeOption = None,
    set_: SetOption = None,
    model: ModelOption = None,
    config: ConfigOption = None,
    weights: Annotated[
        Path | None,
        typer.Option("--weights", metavar="DIR", help="Folder of safetensors files; only headers are read."),
    ] = None,
    hardware: HardwareOption = "gb10",
) -> int:
    """Say what each rank will hold, which rank binds and what would fit; predicted, nothing is booted."""
    asking = presets.recipe(session, recipe, set_)
    attention = presets.attention(asking, model, config)
    known = presets.served(asking) if model is None and weights else presets.of_recipe(asking, model)
    found = memory_table.table(asking, attention, known, presets.hardware(hardware), files=weights)
    session.console.show(f"{asking.name}: memory of each rank, predicted for {hardware}")
    show(session.console, found)
    session.console.answer({"recipe": asking.name, **answer(found)})
    return {"yes": 0, "perhaps": 4, "no": 1}[found.fits]


def show(console: Console, found: Table) -> None:
    """Print a memory table, which rank binds, and what would fit."""
    alike = _alike(found)
    ranks = [members[0] for members in alike]
    titles = [f"rank{'s' if len(members) > 1 else ''} {','.join(map(str, members))}" for members in alike]
    console.table(
        (Column(title="GiB"), *(Column(title=title) for title in titles), Column(title="from")),
        [
            *((line.name, *(told(line.gib[rank]) for rank in ranks), line.origin) for line in found.lines),
            ("in all", *(told(found.used(rank)) for rank in ranks), ""),
            (f"left of {found.total_gib:g}", *(told(found.left(rank)) for rank in ranks), ""),
        ],
    )
    for text in _said(found):
        console.show(text)


def _alike(found: Table) -> list[list[int]]:
    """Gather the ranks that hold the same: they share a column."""
    by_lines = dict[tuple[Span, ...], list[int]]()
    for rank in range(found.ranks):
        by_lines.setdefault(tuple(line.gib[rank] for line in found.lines), []).append(rank)
    return list(by_lines.values())


def told(span: Span) -> str:
    """Return a span as text: one figure, or two where they differ."""
    low, high = f"{span.low:.1f}", f"{span.high:.1f}"
    small = f"{span.high:.2f}" if span.high < 0.95 else high
    if low == high:
        return small
    return f"{low} to {high}" if span.low < 0 else f"{low}-{high}"


def answer(found: Table) -> dict[str, Any]:
    """Return a memory table as plain data."""
    ranks = range(found.ranks)
    return {
        "predicted": True,
        "total_gib": found.total_gib,
        "lines": [
            {
                "name": line.name,
                "gib": [[span.low, span.high] for span in line.gib],
                "from": line.origin,
                "counted_by_the_engine": line.counted,
            }
            for line in found.lines
        ],
        "weights_gib": list(weights_gib(memory_table.weights_of(found))),
        "used_gib": [[found.used(rank).low, found.used(rank).high] for rank in ranks],
        "left_gib": [[found.left(rank).low, found.left(rank).high] for rank in ranks],
        "binding_rank": found.binding,
        "guard_gib": found.setup.guard_gib,
        "fits": found.fits,
        "safe_kv_cache_gib": found.safe_pin_gib,
        "safe_utilisation": found.safe_utilisation,
        "resident_engram_rows": [asdict(one) for one in fitting(found)],
    }


def _said(found: Table) -> list[str]:
    rank, setup, cache = found.binding, found.setup, found.lines[found.cache].gib[found.binding]
    by_rank = dict.fromkeys(f"{size:.1f}" for size in weights_gib(memory_table.weights_of(found)))
    left = f"{told(found.left(rank))} left, the guard stops at {setup.guard_gib:g}"
    said = [
        f"weights {' and '.join(by_rank)} GiB; rank {rank} binds: {left}",
        {
            "yes": "fits, at the high end of every span",
            "perhaps": "may fit: only if the spans are at their low ends",
            "no": "does not fit, not even at the low end of every span",
        }[found.fits],
    ]
    if found.safe_pin_gib > 0:
        said.append(
            f"largest safe cache pin: --set memory.kv_cache_gib={found.safe_pin_gib:g}, on every rank"
        )
    else:
        said.append(f"no cache is safe: rank {rank} is too full without; take more ranks or fewer bits")
    said.append(
        f"largest safe utilisation: {found.safe_utilisation:.2f}; the recipe sets {setup.utilisation:g}"
    )
    said += [text for one in fitting(found) if one.rows for text in _rows(one)]
    if not cache.high:
        said.append(f"utilisation {setup.utilisation:g} leaves nothing for the cache: vLLM will not start")
    return said


def _rows(one: Fitting) -> Iterator[str]:
    yield f"hot Engram rows that fit: {one.rows // 10**6} million a table in {one.kind}, {one.gib:.1f} GiB a rank"
    if one.answered is not None:
        yield f"  others saw that many answer {one.answered:.0f} % of lookups; see docs/engram.md"
