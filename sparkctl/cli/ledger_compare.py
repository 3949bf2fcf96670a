"""`sparkctl ledger compare`: any two of boots, stacks, climbs, epochs, imported rows and result files, metric by metric."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ledger.boots import Measured, measured
from ledger.compared import Compared, compared
from ledger.compared import Line as Shown
from ledger.entry import Row
from ledger.epochs import Epoch, epochs, fingerprint
from ledger.journal import Journal
from ledger.sides import Side, SideFault, of_metrics, resolve
from sparkctl import edge
from sparkctl.cli.recorded import read
from sparkctl.cli.session import LineOption, Session, verb
from sparkctl.console import Column
from sparkctl.errors import FileFault, Refused, UsageFault
from sparkctl.units import percent
from tuner import results
from tuner.results.figures import Figures
from tuner.results.named import named


@verb
def compare(
    session: Session,
    first: Annotated[
        str, typer.Argument(metavar="A", help="A boot, stack, climb, epoch:N, imported row, or file.")
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="Likewise; ratios are B over A.")],
    line: LineOption = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw the ratios with their intervals: .png or .svg.")
    ] = None,
) -> int:
    """Compare two of anything that was measured: ratio and interval by metric.

    A and B are a boot's id, a stack such as base or a+b (of the last climb that has it), a climb's id, CLIMB:STACK, epoch:N or
    epoch:N:STACK, the name of an imported row, or a bench result in a file. `~` means that no difference is shown.
    """
    rows = read(session).rows
    of_line = epochs_of(session, measured(rows), line)
    sides = [_side(word, rows, of_line, line) for word in (first, second)]
    found = compared(sides[0], sides[1], of_line)
    if not found.lines:
        raise Refused(
            f"{first} and {second} have no metric in common: {', '.join(found.only) or 'neither has any'}",
            hint="compare benches of the same workload",
        )
    if plot:
        from sparkctl.cli import compared_plot  # noqa: PLC0415  # matplotlib is heavy, and most calls draw nothing

        compared_plot.draw(plot, found)
    _show(session, found)
    session.console.answer(_answer(found, plot))
    return 0


def epochs_of(session: Session, boots: Sequence[Measured], line: str | None) -> tuple[Epoch, ...]:
    """Return the epochs of the boots of one line; none where they are of several lines, since each has its own."""
    own = [one for one in boots if line is None or one.line == line]
    if len({(one.line, one.simulated) for one in own}) != 1:
        return ()
    whole = Journal(session.ledger_path).whole({one.n for one in own})
    told = {row.n: fingerprint(row.body) for row in whole}
    return epochs([(one.boot, told[one.n]) for one in sorted(own, key=lambda one: one.n)])


def _side(word: str, rows: Sequence[Row], of_line: Sequence[Epoch], line: str | None) -> Side:
    path = Path(word)
    if path.is_file():
        return _of_file(path)
    try:
        return resolve(word, rows, of_line, line)
    except SideFault as fault:
        hint = "sparkctl ledger list shows what was recorded; a file must be a bench result, and --line names one of several lines"
        raise UsageFault(str(fault), hint=hint) from fault


def figures_of(path: Path) -> Figures:
    """Read the figures of a bench result, ours or another tool's."""
    raw = edge.parse_json(edge.read_text(path), source=str(path))
    try:
        return results.of_document(raw).figures
    except ValueError as fault:
        raise FileFault(f"{path}: {fault}", hint="sparkctl audit says what is in it") from fault


def _of_file(path: Path) -> Side:
    figures = figures_of(path)
    label = "" if figures.tool == "sparkctl" else f"reported, {figures.tool}" if figures.tool else ""
    return of_metrics(str(path), label, named(figures))


def _show(session: Session, found: Compared) -> None:
    console = session.console
    for noun, side in (("A", found.first), ("B", found.second)):
        label = f" ({side.label})" if side.label else ""
        console.show(f"{noun}: {side.name}{label}, {_boots(side)}")
    console.table(
        (*(Column(title=title) for title in ("metric", "A", "B", "B over A", "95 % interval", "n")),),
        [_row(found, one) for one in found.lines],
    )
    if found.only:
        console.show(f"only on one side: {', '.join(found.only)}")
    for warning in found.warnings:
        console.show(f"warning: {warning}")


def _boots(side: Side) -> str:
    count = len(side.boots)
    return "one result" if not count else "one boot" if count == 1 else f"{count} boots"


def _row(found: Compared, one: Shown) -> tuple[str, ...]:
    comparison = one.comparison
    means = [_mean(side.values[one.metric, one.unit]) for side in (found.first, found.second)]
    shown = percent(comparison.estimate) if one.differs else "~"
    return (
        f"{one.metric} ({one.unit})",
        *(f"{mean:.4g}" for mean in means),
        shown,
        _interval(comparison.low, comparison.high),
        f"{comparison.n_base} and {comparison.n_arm}",
    )


def _interval(low: float, high: float) -> str:
    return "not known" if low == 0 or math.isinf(high) else f"{percent(low)} to {percent(high)}"


def _mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _answer(found: Compared, plot: Path | None) -> dict[str, Any]:
    return {
        "first": _told(found.first),
        "second": _told(found.second),
        "metrics": {
            one.metric: {
                "unit": one.unit,
                "ratio": one.comparison.estimate,
                "low": one.comparison.low if one.comparison.low > 0 else None,
                "high": one.comparison.high if math.isfinite(one.comparison.high) else None,
                "n": [one.comparison.n_base, one.comparison.n_arm],
                "differs": one.differs,
            }
            for one in found.lines
        },
        "only": list(found.only),
        "warnings": list(found.warnings),
        "plot": str(plot) if plot else None,
    }


def _told(side: Side) -> dict[str, Any]:
    return {
        "name": side.name,
        "label": side.label,
        "boots": [one.boot for one in side.boots],
        "values": {metric: list(values) for (metric, _), values in side.values.items()},
    }
