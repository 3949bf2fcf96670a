"""GPU of a node as nvidia-smi shows it: state, throttling, compute processes. What shows under load is in burn.py.

GB10 has no memory of its own: the driver prints `[N/A]` for every memory field, which is unknown here and never zero.
"""

import re
from dataclasses import dataclass
from typing import ClassVar

from bootcheck.facts import Record, Unread, unread
from bootcheck.probes.probe import Probe, ends_early

_FIELDS = (
    "name",
    "driver_version",
    "pstate",
    "clocks.current.sm",
    "power.draw",
    "temperature.gpu",
    "utilization.gpu",
)
_COUNTERS = ("sw_power_cap", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
_THROTTLE_FIELDS = (
    "clocks_event_reasons.active",
    *(f"clocks_event_reasons_counters.{name}" for name in _COUNTERS),
)
GPU_ARGV = ("nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv")
THROTTLE_ARGV = ("nvidia-smi", f"--query-gpu={','.join(_THROTTLE_FIELDS)}", "--format=csv")
PROCESSES_ARGV = ("nvidia-smi", "--query-compute-apps=pid,process_name,used_gpu_memory", "--format=csv")

_UNIT = re.compile(r"\s*\[[^\]]*\]$")
_NUMBER = re.compile(r"^(\d{1,15}(?:\.\d{1,6})?)\s*(?:MHz|W|%|MiB|us)?$", re.ASCII)
_MEMORY = re.compile(r"^(?:\d+ MiB|\[[^\]]*\]|N/A)$", re.ASCII)
_MASK = re.compile(r"^0x[0-9a-fA-F]{1,16}$")
_PID = re.compile(r"^\d{1,10}$", re.ASCII)
_MIB = 1024**2

# nvml.h, nvmlClocksEventReasons; the first nine bits of the mask.
_REASONS = (
    "idle",
    "application clocks",
    "software power cap",
    "hardware slowdown",
    "sync boost",
    "software thermal slowdown",
    "hardware thermal slowdown",
    "hardware power brake",
    "display clocks",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU at one moment; None where the driver says `[N/A]`."""

    probe: ClassVar[str] = "gpu"

    name: str
    driver: str
    pstate: str
    sm_mhz: float | None
    power_w: float | None
    temperature_c: float | None
    utilisation_percent: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """Why the clocks are held down now, and for how many microseconds they were since the driver was loaded.

    `reasons` are the names of the set bits, None where the driver does not tell; likewise each counter. `lacking` holds the
    driver's own words when it does not know the fields.
    """

    probe: ClassVar[str] = "gpu-throttle"

    reasons: tuple[str, ...] | None
    sw_power_cap_us: int | None
    hw_thermal_us: int | None
    hw_power_brake_us: int | None
    sw_thermal_us: int | None
    lacking: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A compute process on the GPU; `memory` in bytes, None where the driver does not say."""

    pid: int
    name: str
    memory: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """All compute processes on the GPU."""

    probe: ClassVar[str] = "gpu-processes"

    running: tuple[Process, ...]


def parse_gpu(record: Record) -> Gpu | Unread:
    """Read the one row of `nvidia-smi --query-gpu=... --format=csv`; `[N/A]` is None."""
    row = _row(record.stdout, _FIELDS)
    if row is None or ends_early(record):
        return unread(record, "not the fields that were asked for")
    return Gpu(
        name=row["name"],
        driver=row["driver_version"],
        pstate=row["pstate"],
        sm_mhz=_number(row["clocks.current.sm"]),
        power_w=_number(row["power.draw"]),
        temperature_c=_number(row["temperature.gpu"]),
        utilisation_percent=_number(row["utilization.gpu"]),
    )


def parse_throttle(record: Record) -> Throttle | Unread:
    """Read the throttle reasons; a driver that does not know these fields is a fact, with its words."""
    if record.stdout.startswith('Field "') and "not a valid field" in record.stdout:
        said = record.stdout.strip().splitlines()[0]
        return Throttle(
            reasons=None,
            sw_power_cap_us=None,
            hw_thermal_us=None,
            hw_power_brake_us=None,
            sw_thermal_us=None,
            lacking=said,
        )
    row = _row(record.stdout, _THROTTLE_FIELDS)
    if row is None or ends_early(record):
        return unread(record, "not the fields that were asked for")
    mask, *counters = (row[name] for name in _THROTTLE_FIELDS)
    spent = [_number(cell) for cell in counters]
    power_cap, thermal, brake, software = (None if one is None else round(one) for one in spent)
    return Throttle(
        reasons=_reasons(int(mask, 16)) if _MASK.match(mask) else None,
        sw_power_cap_us=power_cap,
        hw_thermal_us=thermal,
        hw_power_brake_us=brake,
        sw_thermal_us=software,
    )


def parse_processes(record: Record) -> Processes | Unread:
    """Read `nvidia-smi --query-compute-apps=...`; a header alone means that nothing runs."""
    header, *lines = record.stdout.strip("\n").split("\n")
    if not header.startswith("pid, process_name, used_gpu_memory") or ends_early(record):
        return unread(record, "no header of --query-compute-apps, or half a line at its end")
    found = []
    for line in lines:
        # A process may have commas in its name; the first and the last cell have none.
        pid, _, rest = line.partition(", ")
        name, comma, size = rest.rpartition(", ")
        if not comma or not _PID.match(pid) or not _MEMORY.match(size.strip()):
            return unread(record, f"{line[:80]!r} is no process")
        memory = _number(size.strip())
        found.append(
            Process(pid=int(pid), name=name, memory=None if memory is None else round(memory * _MIB))
        )
    return Processes(running=tuple(found))


def _row(text: str, fields: tuple[str, ...]) -> dict[str, str] | None:
    """Return the first GPU's row of nvidia-smi's CSV by field, without units in the names; None when it is another table.

    Further columns do no harm: bundles of other versions have them.
    """
    lines = [[cell.strip() for cell in line.split(",")] for line in text.strip().splitlines()]
    names = [_UNIT.sub("", cell) for cell in lines[0]] if lines else []
    if len(lines) < 2 or len(lines[1]) != len(names) or not set(fields) <= set(names):
        return None
    return dict(zip(names, lines[1], strict=True))


def _number(cell: str) -> float | None:
    found = _NUMBER.match(cell)
    return float(found[1]) if found else None


def _reasons(mask: int) -> tuple[str, ...]:
    known = tuple(name for bit, name in enumerate(_REASONS) if mask & 1 << bit)
    rest = mask >> len(_REASONS) << len(_REASONS)
    return (*known, f"unknown bits {rest:#x}") if rest else known


PROBES = (
    Probe(
        name="gpu",
        moves=True,
        about="driver, clock, power, temperature",
        argvs=lambda _: (GPU_ARGV,),
        parse=parse_gpu,
        limit_s=10,
    ),
    Probe(
        name="gpu-throttle",
        about="why the clocks were held down, and for how long since the driver was loaded",
        argvs=lambda _: (THROTTLE_ARGV,),
        parse=parse_throttle,
        limit_s=10,
    ),
    Probe(
        name="gpu-processes",
        moves=True,
        about="compute processes on the GPU",
        argvs=lambda _: (PROCESSES_ARGV,),
        parse=parse_processes,
        limit_s=10,
    ),
)
