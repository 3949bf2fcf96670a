"""`sparkctl tune --judge-only`: what this method makes of the reported rows in the ledger; boots nothing."""

from ledger.reported import Reported, imported
from ledger.retractions import live
from sparkctl import edge
from sparkctl.cli.recorded import read
from sparkctl.cli.session import Session
from sparkctl.console import Column
from sparkctl.errors import UsageFault
from sparkctl.units import percent
from tuner.lever import Ladder
from tuner.noise import reported
from tuner.rejudge import Reading, Rejudged, noise_of, rejudge
from tuner.workload import Workload, quantities


def show(session: Session, rungs: Ladder, workload: Workload) -> int:
    """Print it. Exit 4, since one boot a row leaves every lever open.

    Raises:
        UsageFault: the ledger holds no reported rows.

    """
    rows = [imported(row.body) for row in live(read(session).rows) if row.kind == "import"]
    readings = [_reading(one) for found in rows for one in found.rows]
    if not readings:
        raise UsageFault(
            f"{session.ledger_path} holds no figures of others",
            hint="sparkctl ledger import brings those that ship",
        )
    noise = noise_of(readings, reported(quantities(workload)))
    found = rejudge(readings, rungs, noise)
    names = (*rungs.primary, *(guard.metric for guard in rungs.guards))
    session.console.table(
        (
            Column(title="line"),
            Column(title="lever (reported)", fold=True),
            *(Column(title=name, fold=True) for name in names),
            *(
                Column(title=title, fold=True)
                for title in ("theirs", "seeds' rule", "by noise alone", "boots to prove it")
            ),
        ),
        [_row(one, names) for one in found],
    )
    spread = ", ".join(f"{name} {noise.scatter[name]:.1%}" for name in rungs.primary)
    source = f"as their {noise.boots} rows of base do" if noise.boots else "reported"
    session.console.show(
        f"one boot a row proves nothing: inconclusive, all of them. Boots are taken to differ by {spread} ({source}). By noise alone: the "
        f"chance that a useless lever reads as much on its better metric. Boots to prove it: on both sides together, for the gain "
        f"read or +4 % where that is more, at error {rungs.error:.0%} for all {len(found)} rows and a power of 80 %"
    )
    session.console.answer(
        {"reported": True, "noise": edge.plain(noise), "rows": [edge.plain(one) for one in found]}
    )
    return 4


def _reading(one: Reported) -> Reading:
    return Reading(
        line=one.line, row=one.row, lever=one.lever, figures=dict(one.figures), theirs=one.their_verdict
    )


def _row(one: Rejudged, names: tuple[str, ...]) -> tuple[str, ...]:
    return (
        one.reading.line,
        one.reading.lever,
        *(percent(one.ratios[name]) if name in one.ratios else "-" for name in names),
        one.reading.theirs,
        one.seed_rule,
        "-" if one.chance is None else f"{one.chance:.0%}",
        "-" if one.boots is None else str(one.boots),
    )
