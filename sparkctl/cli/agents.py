"""`sparkctl bench --agents`: sessions of agents against a line or an endpoint, one row for each number of live sessions."""

from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ledger import agents as rows
from ledger import replies
from ledger.journal import Journal
from ledger.texts import Texts
from sparkctl import content, edge
from sparkctl.cli.hold import hold
from sparkctl.cli.session import Session
from sparkctl.console import Column
from sparkctl.errors import FileFault, Refused, UsageFault
from sparkctl.line import Line
from tuner.agents import calibration, replay, report, session, source
from tuner.agents.authored import AgentWorkload
from tuner.agents.exchange import Level
from tuner.agents.filler import Voice
from tuner.agents.report import Figures, Spread
from tuner.agents.session import Load
from tuner.client import Endpoint

DEFAULT_LIVE = "1,2,4,8,16,32"
DEFAULT_IDLE_CAP_S = 10.0
"""As AgentX caps a recorded wait (ai-dynamo/aiperf, docs/benchmark-modes/semianalysis-agentx-faq.md)."""

MOST_LIVE = 256
"""Ours: beyond, one client process is what is measured."""

CHARACTERS_A_TOKEN = 4.0
"""Of the first sample only, whose count by the server replaces it."""

VOICE_OF = "coding"
"""The workload whose words filler is drawn from."""

_VOID_SHOWN = 300
_COLUMNS = (
    *("live", "tok/s a user", "p50", "p90", "end to end", "sessions/min", "session s", "busy s"),
    *("TTFT p50", "TTFT p90", "prompt", "cached", "calls", "failed"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked for on the command line."""

    load: Load
    live: tuple[int, ...]
    idle_cap_s: float
    most_s: float | None
    output: Path | None


def asked(
    name: str,
    sessions: str | None,
    idle_cap_s: float | None,
    minutes: float | None,
    take: int | None,
    output: Path | None,
) -> Asked:
    """Check the options that go with `--agents`, and read what it names.

    Raises:
        UsageFault: one of them is not what it must be.
        FileFault: the file is missing or wrong.

    """
    told = DEFAULT_LIVE if sessions is None else sessions
    parts = told.split(",")
    if not all(one.strip().isdecimal() and 1 <= int(one) <= MOST_LIVE for one in parts):
        raise UsageFault(
            f"--sessions {told}: wanted whole numbers from 1 to {MOST_LIVE}",
            hint="for example --sessions 1,2,4",
        )
    live = tuple(int(one) for one in parts)
    if len(set(live)) < len(live):
        raise UsageFault(f"--sessions {told}: a number stands twice", hint="give each once")
    cap_s = DEFAULT_IDLE_CAP_S if idle_cap_s is None else idle_cap_s
    for option, value, least in (
        ("--idle-cap", cap_s, 0.0),
        ("--minutes", minutes, 0.01),
        ("--take", take, 1),
    ):
        if value is not None and not least <= value < float("inf"):
            raise UsageFault(
                f"{option} {value:g}: wanted a number of at least {least:g}", hint="give a larger one"
            )
    return Asked(
        load=read_load(name, take),
        live=live,
        idle_cap_s=cap_s,
        most_s=None if minutes is None else minutes * 60,
        output=output,
    )


def alone(**given: object) -> None:
    """Refuse options that mean nothing without `--agents`.

    Raises:
        UsageFault: one of them was given.

    """
    if stray := [f"--{name.replace('_', '-')}" for name, value in given.items() if value is not None]:
        raise UsageFault(
            f"{', '.join(stray)} goes with --agents", hint="for example --agents coding --sessions 1,4"
        )


def measure(session_: Session, wanted: Asked, endpoint: Endpoint, own: Line | None, boot: str) -> int:
    """Run every level, write a row for each that a line of ours served, and show them."""
    run_tag = session_.new_id("agents")
    levels: list[Level] = []
    with (
        hold(own) if own else nullcontext(),
        session_.console.work(f"measuring {endpoint.url}"),
    ):
        load, voice = _prepared(session_, wanted.load, endpoint, run_tag)
        session_.console.say(_headline(load, wanted))
        for live in wanted.live:
            level = replay.run(
                endpoint,
                load,
                live=live,
                idle_cap_s=wanted.idle_cap_s,
                most_s=wanted.most_s,
                voice=voice,
                run_tag=run_tag,
                clock=session_.clock,
                report=session_.console.progress,
            )
            levels.append(level)
            if own:
                replies.keep(Texts.beside(session_.ledger_path), (one.text for one in level.exchanges))
                body = rows.bench(level, boot=boot, simulated=session_.simulated)
                Journal(session_.ledger_path).append("bench", own.name, body, session_.clock.today())
            if any(one.fault for one in level.exchanges):
                break
    if wanted.output:
        _write(wanted.output, levels)
    return _show(session_, own.name if own else None, wanted, load, levels)


def read_load(name: str, take: int | None) -> Load:
    """Read a workload by its name, or a file of any of the three forms.

    Raises:
        FileFault: there is no such file, or it is wrong.

    """
    path = content.agents(name)
    found = source.read(edge.lines(path), source=str(path), take=take)
    if found is not None:
        return session.of_trace(found, path.name)
    workload = edge.read(path, AgentWorkload)
    return session.of_workload(replace(workload, sessions=workload.sessions[:take]))


def _prepared(session_: Session, load: Load, endpoint: Endpoint, run_tag: str) -> tuple[Load, Voice | None]:
    """Leave out what the server has no room for, and learn how many characters a token has."""
    room = calibration.room(endpoint)
    fitting = session.fitting(load, room)
    if not fitting.sessions:
        raise Refused(
            f"{load.name}: every session has a call of more than the {room} tokens that the server takes",
            hint="serve a longer context, or take a trace of shorter sessions",
        )
    if load.words != "filler":
        return fitting, None
    words = edge.read(content.agents(VOICE_OF), AgentWorkload)
    texts = " ".join(turn.text for one in words.sessions for turn in one.turns)
    voice = Voice(words=tuple(sorted(set(texts.split()))), characters_a_token=CHARACTERS_A_TOKEN)
    return fitting, calibration.calibrated(
        endpoint, voice, run_tag=run_tag, clock=session_.clock, limit_s=load.limit_s
    )


def _headline(load: Load, wanted: Asked) -> str:
    calls = sum(len(one.turns) for one in load.sessions)
    said = [
        f"{load.name}: {_counted(len(load.sessions), 'session')}, {_counted(calls, 'call')}; {session.MEANING[load.words]}",
        f"no wait is longer than {wanted.idle_cap_s:g} s",
    ]
    if load.shares_system:
        said.append("all sessions share one system prompt, which the cache may hold")
    if load.left_out:
        said.append(f"{_counted(load.left_out, 'session')} left out: longer than the server takes")
    if load.unwaited:
        said.append(f"{load.unwaited} calls tell no wait and start at once")
    if wanted.most_s:
        said.append(f"no call begins after {wanted.most_s / 60:g} min of a level")
    return "\n".join(said)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _write(path: Path, levels: list[Level]) -> None:
    try:
        path.write_text(edge.to_json({"levels": [_plain(one) for one in levels]}), encoding="utf-8")
    except OSError as fault:
        raise FileFault(f"{path}: cannot be written: {fault}", hint="name another file with -o") from fault


def _plain(level: Level) -> dict[str, Any]:
    """Return a level with every call and without the load's own text: its name and digest stand for it."""
    told: dict[str, Any] = {
        name: edge.plain(getattr(level, name)) for name in Level.__slots__ if name != "load"
    }
    return {
        "workload": level.load.name,
        "workload_digest": level.load.digest,
        "words": level.load.words,
        **told,
    }


def _show(session_: Session, line: str | None, wanted: Asked, load: Load, levels: list[Level]) -> int:
    console = session_.console
    found = [_judged(one) for one in levels]
    label = " (simulated)" if session_.simulated else ""
    console.table(
        tuple(Column(title=title) for title in (f"{_COLUMNS[0]}{label}", *_COLUMNS[1:])),
        [_row(figures) for figures, _ in found],
    )
    for figures, voids in found:
        for void in voids:
            console.show(f"void ({figures.live} live): {' '.join(void.split())[:_VOID_SHOWN]}")
    if load.words == "filler":
        console.show(session.MEANING["filler"])
    sound = not any(voids for _, voids in found)
    console.answer(
        {
            "line": line,
            "ok": sound,
            "workload": load.name,
            "workload_digest": load.digest,
            "words": load.words,
            "meaning": session.MEANING[load.words],
            "idle_cap_s": wanted.idle_cap_s,
            "most_s": wanted.most_s,
            "sessions_left_out": load.left_out,
            "calls_without_wait": load.unwaited,
            "levels": [_answer(figures, voids) for figures, voids in found],
            "simulated": session_.simulated,
        }
    )
    return 0 if sound else 1


def _judged(level: Level) -> tuple[Figures, tuple[str, ...]]:
    """Return a level's figures and why it is void; a void one shows no figure."""
    voids, figures = report.voids(level), report.figures(level)
    return report.withheld(figures) if voids else figures, voids


def _answer(found: Figures, voids: tuple[str, ...]) -> dict[str, Any]:
    more = {"uncached_tokens": found.uncached_tokens, "cached_share": found.cached_share}
    return {**asdict(found), **more, "voids": list(voids)}


def _row(found: Figures) -> tuple[str, ...]:
    def shown(spread: Spread | None, which: str, digits: int = 1) -> str:
        return "" if spread is None else f"{getattr(spread, which):.{digits}f}"

    return (
        str(found.live),
        shown(found.per_user, "mean"),
        shown(found.per_user, "p50"),
        shown(found.per_user, "p90"),
        shown(found.end_to_end, "mean"),
        "" if found.sessions_per_min is None else f"{found.sessions_per_min:.2f}",
        shown(found.session_s, "mean"),
        shown(found.busy_s, "mean"),
        shown(found.ttft_s, "p50", 2),
        shown(found.ttft_s, "p90", 2),
        f"{found.prompt_tokens:,}",
        "" if found.cached_share is None else f"{found.cached_share:.0%}",
        str(found.calls),
        str(found.failed),
    )
