"""Asking: sends a battery to a served endpoint and brings home scores and answers. The one place that opens connections for it.

The questions follow one after the other, but for those that belong in flight together. What goes wrong with a request is a value.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from sparkctl.clock import Clock
from sparkctl.errors import Unclear
from tuner import client, witness
from tuner.client import Connection, Endpoint
from tuner.quality import answers, decoding, sandbox, scoring, tasks
from tuner.quality.answers import Said
from tuner.quality.asked import Asked, Counted, Server
from tuner.quality.battery import Battery
from tuner.quality.tasks import Marked, Task
from tuner.quality.wire import Wire

_STARTED = re.compile(r"^process_start_time_seconds\s+(\S+)", re.MULTILINE)


def ask(
    endpoint: Endpoint,
    battery: Battery,
    *,
    run_tag: str,
    clock: Clock,
    report: Callable[[str], None],
) -> Asked:
    """Ask a battery.

    Args:
        endpoint: where to send.
        battery: what to ask.
        run_tag: a text unique to this run.
        clock: the line's clock; time limits are its seconds.
        report: is told in a few words what is being asked.

    Raises:
        UsageFault: the address is not http(s)://HOST:PORT with a port from 1 to 65535.
        Unclear: nobody answers at the address.

    """
    wire = Wire(clock=clock, limit_s=battery.limit_s, body=battery.body, run_tag=run_tag, report=report)
    return asyncio.run(_ask(endpoint, battery, wire))


def answer(
    endpoint: Endpoint,
    battery: Battery,
    asked: Sequence[Task],
    *,
    clock: Clock,
    report: Callable[[str], None],
) -> tuple[Said, ...]:
    """Ask questions that no battery has, with the body and the time limit of one; each answer is a value, whatever went wrong.

    Raises:
        UsageFault: the address is not http(s)://HOST:PORT with a port from 1 to 65535.

    """
    wire = Wire(clock=clock, limit_s=battery.limit_s, body=battery.body, run_tag="", report=report)

    async def all_of_them() -> tuple[Said, ...]:
        async with client.connections(endpoint, 1) as lines:
            return await _answers(lines, asked, wire)

    return asyncio.run(all_of_them())


async def _ask(endpoint: Endpoint, battery: Battery, wire: Wire) -> Asked:
    every = tasks.tasks(battery, wire.run_tag)
    probe, decode = battery.probe, battery.decode
    loads = [*([1 + probe.load.in_flight] if probe else []), *(decode.sizes if decode else [])]
    most = max([1, *(one.at_once for one in every), *loads])
    async with client.connections(endpoint, most) as lines:
        if fault := await lines[0].open():
            raise Unclear(
                f"{endpoint.url}: no answer: {fault}; wanted a served endpoint",
                hint="check the address, and whether the line is up: sparkctl status",
            )
        server, before = await _server(lines[0], endpoint.model), await witness.now(lines[0])
        scored, unscored = await scoring.score(lines, probe, wire) if probe else ((), "")
        asked = tuple(one for one in every if server.longest is None or one.tokens < server.longest)
        said = await _answers(lines, asked, wire)
        decoded, undecoded = await decoding.decode(lines, decode, wire) if decode else ((), "")
        after = await witness.settled(lines[0]) if before else None
    marked, held = _marked(asked, said, wire.report)
    return Asked(
        server=server,
        scored=scored,
        unscored=unscored,
        tasks=asked,
        said=said,
        marked=marked,
        skipped=tuple(f"{one.part} {one.id}" for one in every if one not in asked),
        held=held,
        counted=Counted(prompt=wire.prompt, made=wire.made, before=before, after=after),
        decoded=decoded,
        undecoded=undecoded,
    )


async def _answers(lines: tuple[Connection, ...], asked: Sequence[Task], wire: Wire) -> tuple[Said, ...]:
    """Ask one question after the other, those with the same `at_once` on as many connections."""
    found: dict[int, Said] = {}
    for width in dict.fromkeys(one.at_once for one in asked):
        queue = iter([(at, one) for at, one in enumerate(asked) if one.at_once == width])
        await asyncio.gather(*(_work(line, queue, found, wire) for line in lines[:width]))
    return tuple(found[at] for at in range(len(asked)))


async def _work(
    line: Connection, queue: Iterator[tuple[int, Task]], found: dict[int, Said], wire: Wire
) -> None:
    for at, task in queue:
        wire.report(f"{task.part}: {task.id}")
        answer, fault = await wire.chat(line, task.body)
        found[at] = Said(fault=fault) if fault else answers.read(answer)


def _marked(
    asked: Sequence[Task], said: Sequence[Said], report: Callable[[str], None]
) -> tuple[tuple[Marked, ...], tuple[str, ...]]:
    """Judge every answer; programs are run."""
    marked: list[Marked] = []
    held: tuple[str, ...] = ()
    for task, one in zip(asked, said, strict=True):
        mark = tasks.mark(task, one)
        if not mark.fault and (program := tasks.program(task, one)):
            report(f"running the answer to {task.id}")
            ran = sandbox.run(program)
            held = ran.held
            mark = Marked(part=task.part, id=task.id, fault=ran.fault)
        marked.append(mark)
    return tuple(marked), held


async def _server(line: Connection, model: str) -> Server:
    started = _STARTED.search(await line.page("/metrics") or "")
    version = _json(await line.page("/version"))
    cards = _json(await line.page("/v1/models"))
    listed = cards.get("data") if isinstance(cards, dict) else None
    own = (
        [one for one in listed if isinstance(one, dict) and one.get("id") == model]
        if isinstance(listed, list)
        else []
    )
    longest = own[0].get("max_model_len") if own else None
    return Server(
        version=str(version.get("version", "")) if isinstance(version, dict) else "",
        started=_moment(started[1]) if started else "",
        longest=longest if isinstance(longest, int) else None,
    )


def _moment(seconds: str) -> str:
    """Return a start time of the metrics page in UTC, '' where it is none."""
    try:
        return datetime.fromtimestamp(float(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""


def _json(page: str | None) -> object:
    try:
        return json.loads(page or "null")
    except ValueError:
        return None
