"""One rank of a practice line: reads its vLLM command line, meets the others over TCP, loads, and serves or waits."""

import asyncio
import selectors
import signal
import sys
from pathlib import Path

from rehearsal import containers, node
from rehearsal.engine import flags, law
from rehearsal.engine.head import lead
from rehearsal.engine.killer import KILLED
from rehearsal.engine.life import Failed, Life
from rehearsal.engine.worker import follow

_DROP_S = 0.5  # of our seconds


def answer(root: Path, _name: str, arguments: list[str]) -> int:
    """Run one rank in the foreground of its container."""
    container = containers.read(Path(arguments[0]))
    # select, not epoll: its time limit has microseconds, and a step at a pace of 20 lasts 3 ms.
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    code = 1
    try:
        code = loop.run_until_complete(_run(node.read(root), container))
    finally:
        _drop_rest(loop)
        loop.close()
        node.write_json(container.root / "exit.json", (code, containers.stamp()))
    return code


def _drop_rest(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what still waits: Python would complain of it in the log, after the words that say why the rank ended."""
    loop.set_exception_handler(lambda _loop, _context: None)
    if rest := asyncio.all_tasks(loop):
        for task in rest:
            task.cancel()
        loop.run_until_complete(asyncio.wait(rest, timeout=_DROP_S))


async def _run(own: node.Node, container: containers.Container) -> int:
    """Live until the container is stopped, the line breaks, or an error ends it."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        argv = flags.read(container.argv)
    except ValueError as fault:
        sys.stdout.write(f"usage: vllm serve [model_tag] [options]\nvllm serve: error: {fault}\n")
        return 2
    life = Life(own, container, argv, law.read(own.root.parent))
    living = asyncio.ensure_future(_live(life))
    stopping = asyncio.ensure_future(stopped.wait())
    await asyncio.wait((living, stopping), return_when=asyncio.FIRST_COMPLETED)
    if living.done():
        return _closing(life, living)
    life.journal.info("launcher.py:110", "Shutting down on SIGTERM")
    return KILLED if life.is_killed else 0


async def _live(life: Life) -> None:
    wrong = flags.contradictions(life.argv)
    if wrong:
        raise Failed(wrong)
    life.start()
    await (lead(life) if life.rank == 0 else follow(life))


def _closing(life: Life, living: "asyncio.Future[None]") -> int:
    fault = living.exception()
    if fault is None:
        return 0
    if not isinstance(fault, (Failed, OSError)):
        raise fault
    place, what = (
        ("core.py:935", "EngineCore") if life.rank == 0 else ("multiproc_executor.py:912", "WorkerProc")
    )
    life.journal.error(place, f"{what} failed to start.")
    life.journal.error(place, str(fault))
    return 1
