"""`sparkctl proxy`: stand before a line, watch its replies as they stream, and repair those that are about to collapse."""

import asyncio
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from ledger.entry import Body
from ledger.journal import Journal
from proxy.server import Settings, running
from proxy.tally import Event, Tally
from proxy.thresholds import Thresholds
from sparkctl import edge
from sparkctl.cli.endpoint import Chosen, choose
from sparkctl.cli.session import LineOption, RehearsalOption, ScenarioOption, Session, practise, verb
from sparkctl.errors import FileFault, LedgerFault, UsageFault
from tuner.client import address

MOST_HELD = 4096
"""Tokens: more than any loop takes to show; ours."""

_DONE = {
    "continue": "continued with full reads",
    "anew": "asked anew with full reads",
    "tell": "left as it is",
}


@verb
def proxy(
    session: Session,
    line: LineOption = None,
    url: Annotated[str | None, typer.Option("--url", help="Any endpoint instead of a line.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="The served name at --url.")] = None,
    listen: Annotated[
        str, typer.Option("--listen", metavar="ADDRESS:PORT", help="Where clients ask; port 0: any free one.")
    ] = "127.0.0.1:8100",
    hold: Annotated[
        int, typer.Option("--hold", help="Tokens held back, so that damage among them is never seen.")
    ] = 0,
    thresholds: Annotated[
        Path | None, typer.Option("--thresholds", help="What --calibrate wrote for this model.")
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            "--calibrate", help="Read all in full, repair nothing, write thresholds here at the end."
        ),
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Watch nothing: every byte goes through.")] = False,
    rehearsal: RehearsalOption = False,
    scenario: ScenarioOption = None,
) -> int:
    """Watch replies as they stream, and repair those about to collapse.

    Speaks the API of the line until Ctrl-C; every alarm is told, and written to the ledger.
    """
    host, port = _place(listen)
    if not 0 <= hold <= MOST_HELD:
        raise UsageFault(f"--hold {hold}: wanted 0 to {MOST_HELD} tokens", hint="for example --hold 64")
    if calibrate and (off or thresholds or hold):
        raise UsageFault(
            "--calibrate goes without --off, --hold and --thresholds", hint="calibrate first, then serve"
        )
    known = edge.read(thresholds, Thresholds) if thresholds else Thresholds()
    practise(session, rehearsal, scenario)
    chosen = choose(session, line, url, model)
    upstream = address(chosen.endpoint.url)
    if known.model and known.model != chosen.endpoint.model:
        raise UsageFault(
            f"{thresholds}: calibrated on {known.model}, the line serves {chosen.endpoint.model}",
            hint="calibrate on this model: sparkctl proxy --calibrate FILE",
        )
    settings = Settings(
        upstream=upstream, thresholds=known, hold=hold, off=off, calibrate=calibrate is not None
    )
    if not (off or calibrate) and (where := known.lacking):
        session.console.say(
            f"the mean surprise is not watched {where}: no limit is known; sparkctl proxy --calibrate FILE finds one"
        )
    tally = asyncio.run(_serve(session, chosen, settings, host, port))
    if calibrate:
        return _calibrated(session, chosen, tally, calibrate)
    return _show(session, chosen, tally)


async def _serve(session: Session, chosen: Chosen, settings: Settings, host: str, port: int) -> Tally:
    stop = asyncio.Event()
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(one, stop.set)

    def tell(event: Event) -> None:
        _tell(session, chosen, event)

    async with running(settings, host, port, tell) as (served, at):
        kind = "passing all through" if settings.off else "calibrating" if settings.calibrate else "watching"
        session.console.say(f"{kind}: http://{host}:{at} for {settings.upstream}; Ctrl-C ends it")
        await stop.wait()
        return served.tally


def _tell(session: Session, chosen: Chosen, event: Event) -> None:
    """Log an alarm and write it down; a ledger that cannot be written must not end the replies."""
    alarm = event.alarm
    why = f" ({alarm.why})" if alarm.why else ""
    session.console.warn(
        f"alarm at token {alarm.at_tokens} ({alarm.sign.reason}): {alarm.sign.measured}, wanted {alarm.sign.wanted}; "
        f"{_DONE[alarm.action]}{why}; {alarm.dropped_tokens} tokens dropped, {alarm.late_tokens} were sent already"
    )
    name = chosen.line.name if chosen.line else ""
    try:
        Journal(session.ledger_path).append(
            "alarm", name, body(session, chosen, event), session.clock.today()
        )
    except LedgerFault as fault:
        session.console.warn(f"this alarm is not in the ledger: {fault.message}")


def body(session: Session, chosen: Chosen, event: Event) -> Body:
    """Return the ledger's body of an alarm; numbers that JSON has no word for are not among them."""
    alarm = event.alarm
    return {
        "simulated": session.simulated,
        "boot": chosen.boot,
        "url": chosen.endpoint.url,
        "model": event.model,
        "reason": alarm.sign.reason,
        "measured": alarm.sign.measured,
        "wanted": alarm.sign.wanted,
        "temperature": event.temperature,
        "threshold": event.limits.logprob,
        "surprise": event.limits.surprise,
        "action": alarm.action,
        "why": alarm.why,
        "at_tokens": alarm.at_tokens,
        "clean_tokens": alarm.sign.clean_tokens,
        "kept_tokens": alarm.kept_tokens,
        "dropped_tokens": alarm.dropped_tokens,
        "late_tokens": alarm.late_tokens,
    }


def _calibrated(session: Session, chosen: Chosen, tally: Tally, path: Path) -> int:
    """Write the thresholds; exit 4 where no temperature had replies enough."""
    from proxy import calibration  # noqa: PLC0415  # SciPy loads only when it is asked

    found = calibration.calibrate(chosen.endpoint.model, tally.depths, tally.loops)
    for temperature in sorted({*tally.depths, *tally.loops}):
        healthy, loops = len(tally.depths.get(temperature, ())), tally.loops.get(temperature, 0)
        session.console.show(f"temperature {temperature:g}: {healthy} healthy replies, {loops} that loop")
    for one in found.thresholds:
        mean = "no limit of the mean" if one.surprise is None else f"a mean above {one.surprise:g} nats"
        session.console.show(
            f"temperature {one.temperature:g}: tokens below {one.logprob:g}, {mean}; {one.alarms} of {one.replies} healthy replies "
            f"raise an alarm, {100 * one.low:.2g} to {100 * one.high:.2g} % with 95 % confidence"
        )
    if found.thresholds and (where := found.lacking):
        session.console.show(
            f"the mean surprise is not watched {where}: wanted {calibration.wanted(2)} healthy replies, and some of 64 tokens"
        )
    if found.thresholds:
        _write(path, found)
    else:
        session.console.show(
            f"no thresholds: wanted {calibration.wanted()} healthy replies of one temperature"
        )
    session.console.answer({"ok": bool(found.thresholds), **edge.plain(found)})
    return 0 if found.thresholds else 4


def _write(path: Path, found: Thresholds) -> None:
    try:
        path.write_text(edge.to_json(edge.plain(found)), encoding="utf-8")
    except OSError as fault:
        raise FileFault(f"{path}: cannot be written: {fault}", hint="name another file") from fault


def _show(session: Session, chosen: Chosen, tally: Tally) -> int:
    told: dict[str, Any] = {
        "line": chosen.line.name if chosen.line else None,
        "ok": True,
        "requests": tally.requests,
        "watched": tally.watched,
        "unwatched": tally.unwatched,
        "broken": tally.broken,
        "alarms": tally.alarms,
        "simulated": session.simulated,
    }
    session.console.show(
        f"{tally.requests} requests, {tally.watched} replies watched, {tally.broken} broken off"
    )
    for why, count in {**tally.unwatched, **tally.alarms}.items():
        session.console.show(f"  {count} x {why}")
    session.console.answer(told)
    return 0


def _place(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise UsageFault(
            f"--listen {listen}: wanted ADDRESS:PORT", hint="for example --listen 127.0.0.1:8100"
        )
    return host.strip("[]"), int(port)
