"""View: a state at a moment as what Rich prints, for any width from 60 columns on. Pure: the same state and moment, the same view."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sparkctl.live import words
from sparkctl.live.state import Line, Now, State
from sparkctl.units import duration

MOST_VERDICTS = 8
MOST_LOST = 3
MOST_WARNINGS = 2
"""What is shown of long lists, the last of each: the view must fit a terminal of 24 lines for one line of nodes. Ours."""

_STYLES = {"accept": "green", "reject": "red", "inconclusive": "yellow", "open": "dim"}
_STYLES |= {"void": "yellow", "failed": "red", "unfit": "yellow", "warning": "yellow"}


def view(state: State, *, s: float, at: str) -> RenderableType:
    """Return what is shown when a line's clock says `s` and the wall's `at`."""
    shown = [part for line in state.lines for part in (*_line(line, s, at), Text(""))]
    return Group(*shown[:-1])


def _line(line: Line, s: float, at: str) -> Iterator[RenderableType]:
    yield _head(line, s)
    if line.now:
        yield from _now(line, line.now, s)
    if told := _end(line, s, at):
        yield Text(told)
    facts = (
        *_verdicts(line),
        *_lost(line),
        *(("warning", "", text) for text in line.warned[-MOST_WARNINGS:]),
    )
    if facts:
        yield _facts(facts)
    if line.stopping:
        yield Text(line.stopping, style="bold yellow")


def _head(line: Line, s: float) -> RenderableType:
    head = Table.grid(expand=True, padding=(0, 1, 0, 0))
    head.add_column(ratio=1)
    head.add_column(justify="right", no_wrap=True)
    label = ", simulated" if line.began.simulated else ""
    head.add_row(Text(f"line {line.name}, {line.began.what}{label}", style="bold"), _span(s - line.since_s))
    return head


def _now(line: Line, now: Now, s: float) -> Iterator[RenderableType]:
    if now.boot:
        most = f" of {line.began.most} at most" if line.began.most else ""
        of = "" if line.began.verb == "boot" else f"boot {now.boot.number}{most}: {words.name(now.boot.on)}, "
        yield Text(f"{of}since {_time(now.since_at)}")
        if now.boot.reason:
            yield Text(f"  because {now.boot.reason}")
    if now.stages:
        yield Text(
            "  " + ", ".join(f"{one.stage} {_ended(one.state)}{_span(one.seconds)}" for one in now.stages)
        )
    if now.stage:
        yield Text(f"  {now.stage} for {_span(s - now.stage_s)}: {now.doing}")
    elif now.doing:
        yield Text(f"  {now.doing}")
    if now.nodes:
        grid = Table.grid(padding=(0, 2, 0, 0))
        for one in now.nodes:
            grid.add_row(Text(f"    {one.name}"), Text(one.doing), Text(_span(s - one.since_s)))
        yield grid


def _ended(state: str) -> str:
    return "" if state == "done" else f"{state} after "


def _end(line: Line, s: float, at: str) -> str:
    """Say when the work will be over: after the boots that are expected, and at the latest; by how long this boot has run over."""
    began = line.began
    if not began.boot_s or line.ended:
        return ""
    spent = s - line.now.since_s if line.now and line.now.boot else 0.0
    if spent > began.boot_s:
        return (
            f"this boot takes {_span(spent - began.boot_s)} longer than {_span(began.boot_s)}, {began.origin}"
        )
    said = [
        f"{word} {_clock(at, (boots - line.done) * began.boot_s - spent, began.pace)}"
        for word, boots in (("ends about", began.expected), ("at the latest", began.most))
        if boots > line.done
    ]
    return f"{', '.join(said)}: {_span(began.boot_s)} a boot, {began.origin}" if said else ""


def _verdicts(line: Line) -> Iterator[tuple[str, str, str]]:
    left_out = len(line.judged) - MOST_VERDICTS
    if left_out > 0:
        yield "", f"{left_out} earlier", "verdicts are in the ledger"
    for one in line.judged[-MOST_VERDICTS:]:
        yield one.verdict, one.lever, one.why
    if line.open:
        yield "open", str(len(line.open)), ", ".join(line.open)


def _lost(line: Line) -> Iterator[tuple[str, str, str]]:
    """Yield the boots that say nothing, or that failed."""
    lost = [one for one in line.booted if one.outcome in {"void", "failed", "unfit"}]
    if len(lost) > MOST_LOST:
        yield "void", f"{len(lost)} boots", "void or failed in all, the last were"
    for one in lost[-MOST_LOST:]:
        yield one.outcome, f"boot {one.number}", one.why


def _facts(facts: Sequence[tuple[str, str, str]]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold", max_width=24)
    grid.add_column(overflow="fold")
    for word, name, why in facts:
        grid.add_row(Text(word, style=_STYLES.get(word, "")), Text(name), Text(why))
    return grid


def _clock(at: str, seconds: float, pace: float) -> str:
    """Return when so many of the line's seconds will have passed."""
    moment = datetime.fromisoformat(at) + timedelta(seconds=max(0.0, seconds) / pace)
    days = (moment.date() - datetime.fromisoformat(at).date()).days
    return f"{moment:%H:%M} UTC{f' in {days} days' if days > 1 else ' tomorrow' if days else ''}"


def _span(seconds: float) -> str:
    """Return a time that runs, without the fractions that only a measurement has."""
    return f"{max(0, round(seconds))} s" if seconds < 60 else duration(seconds)


def _time(at: str) -> str:
    return f"{datetime.fromisoformat(at):%H:%M} UTC"
