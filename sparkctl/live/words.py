"""Words: an event as one line of text for a log or a place without a terminal; '' for what only a view or `-v` needs. Pure."""

from sparkctl.live.event import Asked, Booted, Booting, Changed, Doing, Event, Judged, Staged, Stopping, What
from sparkctl.units import duration


def line(event: Event, *, stages: bool, details: bool = False) -> str:
    """Return what to print of an event; `stages` also tells each that ended, `details` also what is being done meanwhile."""
    what = event.what
    if isinstance(what, Booting | Doing):
        return _detail(what) if details else ""
    if isinstance(what, Staged):
        return _stage(what, ended=stages, began=details)
    return _said(what)


def _said(what: What) -> str:  # noqa: PLR0911 - one return a kind reads as the table it is
    match what:
        case Booted(outcome="up"):
            return ""
        case Booted() as booted:
            return _booted(booted)
        case Judged(lever=lever, verdict=verdict, why=why):
            return f"{verdict:<12} {lever}: {why}"
        case Asked(verdict=verdict, why=why):
            return f"quality {verdict}: {why}"
        case Changed(text=text):
            return f"changed {text}"
        case Stopping(promise=promise):
            return promise
        case _:
            return ""


def _stage(stage: Staged, *, ended: bool, began: bool) -> str:
    if stage.state == "began":
        return f"{stage.stage}: {stage.title}" if began else ""
    if not ended:
        return ""
    return f"{f'{stage.state:<6} {stage.stage}: {stage.title}':<60} {duration(stage.seconds):>12}"


def _detail(what: Booting | Doing) -> str:
    if isinstance(what, Doing):
        return f"{what.stage}: {what.text}" if what.stage else what.text
    return f"boot {what.number:>2}  {name(what.on)}: {what.reason}" if what.reason else ""


def name(on: tuple[str, ...]) -> str:
    """Return the name of a configuration."""
    return " + ".join(on) or "base"


def _booted(booted: Booted) -> str:
    head = f"boot {booted.number:>2}  {name(booted.on)}"
    if booted.outcome == "unfit":
        return f"{head}  not started: {booted.why}"
    figures = "  ".join(f"{metric} {value:.1f}" for metric, value in booted.figures)
    said = figures if booted.outcome == "measured" else f"{booted.outcome}: {booted.why}"
    return f"{head}  {said}  ({duration(booted.seconds)} to boot)"
