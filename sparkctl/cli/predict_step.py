"""`sparkctl predict step`: what a decode step of a recipe reads and takes, by sessions; a part of it fitted, and said so."""

from typing import Annotated, Any

import typer

from launcher.capacity.preset import Hardware, Model, Span
from launcher.recipe import Recipe
from sparkctl.cli import presets
from sparkctl.cli.presets import HardwareOption, ModelOption
from sparkctl.cli.session import RecipeOption, Session, SetOption, verb
from sparkctl.console import Column
from sparkctl.errors import UsageFault
from tuner.predicted import drafted, line_of
from tuner.roofline import expert
from tuner.roofline.decode import Batch, Decode, Line, decode, static_s

SESSIONS = (1, 2, 3, 4, 5, 6)


@verb
def step(
    session: Session,
    recipe: RecipeOption = None,
    set_: SetOption = None,
    model: ModelOption = None,
    hardware: HardwareOption = "gb10",
    sessions: Annotated[
        list[int] | None, typer.Option("--sessions", min=1, help="Sessions at once; may stand several times.")
    ] = None,
    depth: Annotated[
        float, typer.Option("--depth", min=0.01, max=1, help="Share of an expert's neurons that is read.")
    ] = 1.0,
    measured_ms: Annotated[
        float | None,
        typer.Option(
            "--measured-ms", min=0, help="A step of one session that you measured, to fit the rest to."
        ),
    ] = None,
    accepted: Annotated[
        float | None, typer.Option("--accepted", min=1, help="Tokens that a step yields a session.")
    ] = None,
) -> int:
    """Say what a decode step reads and takes; predicted, nothing is run."""
    asking = presets.recipe(session, recipe, set_)
    chosen, gpu = presets.of_recipe(asking, model), presets.hardware(hardware)
    batches = [Batch(sessions=count, drafted=drafted(asking)) for count in sessions or SESSIONS]
    line = line_of(asking, depth)
    # The last bandwidth is the one that was seen in a test, where there is one.
    names = tuple(gpu.bandwidth_gb_s)
    found = {
        name: [decode(chosen, line, batch, expert.roof(gpu, chosen.experts, name)) for batch in batches]
        for name in names
    }
    rest = _static(chosen, gpu, line_of(asking), drafted(asking), measured_ms)
    told = _pace(chosen, gpu, accepted, drafted(asking))
    _show(session, asking, gpu, found, rest, told)
    session.console.answer(_answer(asking, gpu, line, found, rest, told))
    return 0


def _static(
    chosen: Model, gpu: Hardware, line: Line, proposed: int, measured_ms: float | None
) -> float | None:
    """Return the seconds of a step that are not the experts': fitted to the user's measurement, else to a reported one."""
    roof = expert.roof(gpu, chosen.experts, tuple(gpu.bandwidth_gb_s)[-1])
    if measured_ms is None:
        return static_s(chosen, line.ranks, gpu.name, roof)
    experts = decode(chosen, line, Batch(sessions=1, drafted=proposed), roof).seconds.high
    if measured_ms / 1e3 < experts:
        raise UsageFault(
            f"--measured-ms {measured_ms:g} is less than the {experts * 1e3:.1f} ms that the experts alone are predicted to take",
            hint="compare a step of one session at full depth, or name the --hardware that it ran on",
        )
    return measured_ms / 1e3 - experts


def _pace(chosen: Model, gpu: Hardware, accepted: float | None, proposed: int) -> float | None:
    """Return the tokens that a step yields a session: the user's, else as reported for as many drafted tokens."""
    pace = chosen.reported.pace if chosen.reported else None
    if accepted is not None or pace is None:
        return accepted
    return pace.accepted if (pace.hardware, pace.drafted) == (gpu.name, proposed) else None


def _show(
    session: Session,
    recipe: Recipe,
    gpu: Hardware,
    found: dict[str, list[Decode]],
    rest: float | None,
    accepted: float | None,
) -> None:
    console, names = session.console, tuple(found)
    console.show(f"{recipe.name} on {gpu.name}: a decode step on the rank that reads most, predicted")
    titles = [
        "sessions",
        "rows",
        "distinct",
        "GB/rank",
        *(f"ms@{gpu.bandwidth_gb_s[name]:g}" for name in names),
    ]
    titles += ["step ms"] if rest is not None else []
    titles += ["tok/s"] if rest is not None and accepted else []
    rows = []
    for at, one in enumerate(found[names[-1]]):
        row = [str(one.batch.sessions), str(one.batch.rows), _told(one.distinct), _told(one.moved, 1e-9)]
        row += [_told(found[name][at].seconds, 1e3) for name in names]
        if rest is not None:
            row.append(_told(_whole(one, rest), 1e3))
            if accepted:
                took = _whole(one, rest)
                row.append(_told(Span(low=accepted / took.high, high=accepted / took.low)))
        rows.append(tuple(row))
    console.table(tuple(Column(title=title) for title in titles), rows)
    console.show("low: all sessions choose the experts of one; high: every row chooses for itself")
    if rest is None:
        console.show("no step of this model on such a line is known to fit the rest to: give --measured-ms")
    else:
        console.show(
            f"beside its experts a step takes {rest * 1e3:.1f} ms, fitted to one step of one session"
        )


def _whole(one: Decode, rest: float) -> Span:
    return Span(low=one.seconds.low + rest, high=one.seconds.high + rest)


def _told(span: Span, scale: float = 1.0) -> str:
    ends = [f"{end:.0f}" if end >= 99.95 else f"{end:.1f}" for end in (span.low * scale, span.high * scale)]
    return "-".join(dict.fromkeys(ends))


def _answer(
    recipe: Recipe,
    gpu: Hardware,
    line: Line,
    found: dict[str, list[Decode]],
    rest: float | None,
    accepted: float | None,
) -> dict[str, Any]:
    return {
        "recipe": recipe.name,
        "hardware": gpu.name,
        "predicted": True,
        "depth": line.depth,
        "expert_parallel": line.whole,
        "static_ms": None if rest is None else rest * 1e3,
        "accepted": accepted,
        "steps": {
            name: [
                {
                    "sessions": one.batch.sessions,
                    "rows": one.batch.rows,
                    "distinct": [one.distinct.low, one.distinct.high],
                    "bytes": [one.moved.low, one.moved.high],
                    "experts_ms": [one.seconds.low * 1e3, one.seconds.high * 1e3],
                }
                for one in steps
            ]
            for name, steps in found.items()
        },
    }
