"""Gate on memory killers: user-space watchdogs that end the largest process before our own guard would stop the ranks. Pure.

Only earlyoom says on its command line when it acts. The others keep that in files or in the cgroup tree: it cannot be told.
"""

import re
from dataclasses import dataclass

from bootcheck.facts import Unread
from bootcheck.gates.gate import Demand, NodeGate, Seen, View, reading
from bootcheck.probes.memory import Memory
from bootcheck.probes.processes import ProcessTable, Running
from sparkctl.units import GIB, KIB, gib

_INTERPRETERS = ("sh", "bash", "dash", "perl", "env", "sudo")
_UNTOLD = {
    "systemd-oomd": "acts by pressure and by swap in use, not by free memory: oomctl shows what it watches",
    "oomd": "its threshold stands in its configuration",
    "nohang": "its threshold stands in its configuration, /etc/nohang/nohang.conf",
    "dgx-anti-oom": "its threshold stands in its configuration; two public reports had 3 GB",
}
"""Killers whose threshold ps does not show, and where it stands."""

_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,6})?", re.ASCII)
_EARLYOOM_PERCENT = 10.0  # earlyoom(1): of memory and of swap, unless -m and -s say otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """When earlyoom acts: at so many bytes available while no more than so many percent of swap are free."""

    available: float
    swap_percent: float


def earlyoom(command: str, memory: Memory) -> Threshold | None:
    """Return when this earlyoom acts; None when its options cannot be read.

    Where both a share and a size are given the lower one counts (earlyoom's main.c). A share is of MemTotal up to version
    1.7 and of a smaller sum since 1.8, so that this is the most it can be.
    """
    try:
        given = {flag: _option(command.split(), flag) for flag in ("-m", "-M", "-s", "-S")}
    except ValueError:
        return None
    share, size, swap, swap_size = given.values()
    total, swap_total = float(memory.total), float(memory.swap_total or 0)
    sizes = [share / 100 * total] if share is not None else []
    sizes += [size * KIB] if size is not None else []
    swaps = [swap] if swap is not None else []
    swaps += [swap_size * KIB / swap_total * 100] if swap_size is not None and swap_total else []
    return Threshold(
        available=min(sizes, default=_EARLYOOM_PERCENT / 100 * total),
        swap_percent=min(swaps, default=_EARLYOOM_PERCENT),
    )


def _option(words: list[str], flag: str) -> float | None:
    """Return an option's last value, `-m 5`, `-m5` or `-m 5,3` (SIGTERM, then SIGKILL); None when it is not given."""
    found = None
    for word, after in zip(words, (*words[1:], ""), strict=True):
        if word.startswith(flag):
            told = (word[len(flag) :] or after).split(",")[0]
            if not _NUMBER.fullmatch(told):
                raise ValueError(f"{flag}: {told!r} is no number")
            found = float(told)
    return found


def _judge_killers(table: ProcessTable, view: View) -> Seen:
    seen = [one for running in table.running if (one := _judge_process(running, view))]
    seen += [one for row in table.unread if (one := _judge_unread(row))]
    for verdict in ("fail", "warn", "pass"):
        worst = [one for one in seen if one.verdict == verdict]
        if worst:
            return Seen(
                verdict=worst[0].verdict, measured="; ".join(one.measured for one in seen), hint=worst[0].hint
            )
    return Seen(verdict="pass", measured="no memory killer runs")


def _judge_process(running: Running, view: View) -> Seen | None:
    words = [word.rpartition("/")[2] for word in running.command.split()[:3]]
    is_script = bool(words) and words[0].startswith(("python", *_INTERPRETERS))
    for name in words if is_script else words[:1]:
        if name == "earlyoom":
            return _judge_earlyoom(running, view)
        for killer, why in _UNTOLD.items():
            if name == killer or name.startswith((f"{killer}.", f"{killer}-")):
                return Seen(
                    verdict="warn", measured=f"{killer} (pid {running.pid}): {why}", hint=_LOOK.format(killer)
                )
    return None


def _judge_unread(row: str) -> Seen | None:
    """A row of ps that cannot be read tells a name at most."""
    names = [word.rpartition("/")[2] for word in row.split()]
    name = next((one for one in ("earlyoom", *_UNTOLD) if one in names), None)
    if name is None:
        return None
    measured = f"{name}: its row of ps cannot be read"
    return Seen(verdict="warn", measured=measured, hint=_LOOK.format(name))


def _judge_earlyoom(running: Running, view: View) -> Seen:
    memory, named = view.facts.one(Memory), f"earlyoom (pid {running.pid})"
    when = None if isinstance(memory, Unread) else earlyoom(running.command, memory)
    if when is None or isinstance(memory, Unread):
        return Seen(
            verdict="warn", measured=f"{named}: cannot tell when it acts", hint=_LOOK.format("earlyoom")
        )
    guard = view.floors.guard_available_gib.value * GIB
    measured = f"{named} acts at {gib(when.available)} MemAvailable"
    if when.available < guard:
        return Seen(verdict="pass", measured=measured)
    hint = f"start it with -M {round(guard / 2 / KIB)}, half of the guard's floor, or stop it while the line serves"
    free = 100 * (memory.swap_free or 0) / memory.swap_total if memory.swap_total else 0.0
    # What a rank holds on the GPU cannot be swapped out, so swap stays free and holds the killer back.
    if free > when.swap_percent:
        return Seen(
            verdict="warn", measured=f"{measured}, held back only by swap, {free:.0f} % free", hint=hint
        )
    return Seen(verdict="fail", measured=f"{measured}, swap does not hold it back", hint=hint)


_LOOK = (
    "read {}'s configuration and keep its threshold under the guard's floor, or stop it while the line serves"
)

GATES = (
    NodeGate(
        name="memory-killer",
        section="memory",
        about="nothing kills a rank before the guard would stop the line",
        demand=lambda floors: Demand(
            wanted=f"no killer that acts above {floors.guard_available_gib.value:g} GiB MemAvailable, where the guard stops "
            "every rank",
            origin=floors.guard_available_gib.origin,
        ),
        remedy="set its threshold under the guard's floor, or stop it while the line serves",
        troubles=(
            "Blackwellboy/model-serving-minefield#134",
            "tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#31",
        ),
        reads=reading(ProcessTable),
        judge=_judge_killers,
    ),
)
