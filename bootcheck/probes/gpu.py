"""GPU of a node: state, compute processes, and the decode-shaped GEMV that shows the hidden slow state.

Copy bandwidth, clocks and throttle reasons look the same in the slow state; a matrix-vector product shaped like a
decode step does not (tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark#1: 230 against 70 GB/s).
"""

import csv
import json
import re
from dataclasses import dataclass
from typing import Any, ClassVar

from bootcheck.facts import Record, Unread
from bootcheck.probes.probe import Probe

_FIELDS = (
    "name",
    "driver_version",
    "pstate",
    "clocks.current.sm",
    "clocks.max.sm",
    "power.draw",
    "temperature.gpu",
    "utilization.gpu",
    "clocks_event_reasons.active",
)
GPU_ARGV = ("nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv")
PROCESSES_ARGV = ("nvidia-smi", "--query-compute-apps=pid,process_name,used_gpu_memory", "--format=csv")

_UNIT = re.compile(r"\s*\[.*\]$")
_NUMBER = re.compile(r"^(-?\d+(?:\.\d+)?)\s*(MHz|W|%|MiB)?$")
_MIB = 1024**2

# Six rows against a 5120 x 16384 bf16 matrix: the shape of a decode step with speculative tokens. A fresh matrix of
# 160 MiB does not fit any cache, so bytes read per second is memory bandwidth. Bursts and pauses as in a decode loop,
# since the state is not seen by back-to-back copies; eight blocks, so that a flip between them shows.
GEMV_SCRIPT = """
import json, signal, time, torch
signal.alarm(100)  # a container outlives a docker client that was ended
rows, inner, outer, blocks, burst_s, pause_s = 6, 5120, 16384, 8, 0.07, 0.03
matrix = torch.randn(inner, outer, device="cuda").to(torch.bfloat16)
vector = torch.randn(rows, inner, device="cuda").to(torch.bfloat16)
def burst(limit_s):
    torch.cuda.synchronize(); start = time.perf_counter(); turns = 0
    while time.perf_counter() - start < limit_s:
        for _ in range(8):
            vector @ matrix
        torch.cuda.synchronize(); turns += 8
    return turns, time.perf_counter() - start
burst(1.0)
rates, seconds = [], []
for _ in range(blocks):
    turns = spent = 0
    for _ in range(10):
        done, took = burst(burst_s); turns += done; spent += took; time.sleep(pause_s)
    rates.append(round(turns * matrix.numel() * matrix.element_size() / spent / 1e9, 1)); seconds.append(round(spent, 3))
print(json.dumps({"probe": "gemv", "gb_s": rates, "seconds": seconds}))
"""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemv:
    """Decode-shaped matrix-vector bandwidth of each timed block, in GB/s."""

    probe: ClassVar[str] = "gemv"

    blocks: tuple[float, ...]


def gemv_argv(image: str) -> tuple[str, ...]:
    """Run the GEMV script in the serving image, which has the torch and CUDA that will serve."""
    options = ("--rm", "--label", "sparkctl.probe=gemv", "--gpus", "all", "--network", "none")
    return ("docker", "run", *options, "--entrypoint", "python3", image, "-c", GEMV_SCRIPT)


def parse_gpu(record: Record) -> Gpu | Unread:
    """Read the one row of `nvidia-smi --query-gpu=... --format=csv`; `[N/A]` is None."""
    rows = _rows(record.stdout)
    if not rows or any(name not in rows[0] for name in _FIELDS):
        return _unread(record, "not the fields that were asked for")
    row = rows[0]
    return Gpu(
        name=row["name"],
        driver=row["driver_version"],
        pstate=row["pstate"],
        sm_mhz=_number(row["clocks.current.sm"]),
        power_w=_number(row["power.draw"]),
        temperature_c=_number(row["temperature.gpu"]),
        utilisation_percent=_number(row["utilization.gpu"]),
    )


def parse_processes(record: Record) -> Processes | Unread:
    """Read `nvidia-smi --query-compute-apps=...`; a header alone means that nothing runs."""
    if not record.stdout.startswith("pid, process_name, used_gpu_memory"):
        return _unread(record, "no header of --query-compute-apps")
    found = []
    for row in _rows(record.stdout):
        if not row["pid"].isdigit():
            return _unread(record, f"{row['pid']!r} is no process id")
        memory = _number(row["used_gpu_memory"])
        size = None if memory is None else round(memory * _MIB)
        found.append(Process(pid=int(row["pid"]), name=row["process_name"], memory=size))
    return Processes(running=tuple(found))


def parse_gemv(record: Record) -> Gemv | Unread:
    """Read the last line of the GEMV script: `{"probe": "gemv", "gb_s": [...]}` with at least three blocks."""
    lines = record.stdout.strip().splitlines()
    if record.rc != 0 or not lines:
        said = (record.stderr.strip().splitlines() or ["no output"])[-1]
        return _unread(record, f"the GEMV run ended with {record.rc}: {said}")
    try:
        answer: Any = json.loads(lines[-1])
        blocks = tuple(float(rate) for rate in answer["gb_s"])
    except (ValueError, KeyError, TypeError):
        return _unread(record, "not the JSON line of the GEMV script")
    if len(blocks) < 3 or not all(0 < rate < 1e5 for rate in blocks):
        return _unread(record, "fewer than three blocks, or a rate that cannot be")
    return Gemv(blocks=blocks)


def _rows(text: str) -> list[dict[str, str]]:
    """Read nvidia-smi's CSV into rows keyed by field name, without the units in the header."""
    lines = [[cell.strip() for cell in row] for row in csv.reader(text.strip().splitlines())]
    if not lines:
        return []
    names = [_UNIT.sub("", cell) for cell in lines[0]]
    return [dict(zip(names, row, strict=True)) for row in lines[1:] if len(row) == len(names)]


def _number(cell: str) -> float | None:
    found = _NUMBER.match(cell)
    return float(found[1]) if found else None


def _unread(record: Record, why: str) -> Unread:
    said = record.stderr.strip()
    return Unread(probe=record.probe, why=f"{why}: {said}" if said and record.rc else why, seen=record.stdout)


PROBES = (
    Probe(
        name="gpu",
        about="driver, clocks, power, temperature, throttle reasons",
        argvs=lambda _: (GPU_ARGV,),
        parse=parse_gpu,
        limit_s=10,
    ),
    Probe(
        name="gpu-processes",
        about="compute processes on the GPU",
        argvs=lambda _: (PROCESSES_ARGV,),
        parse=parse_processes,
        limit_s=10,
    ),
    Probe(
        name="gemv",
        about="decode-shaped GEMV bandwidth; not run while the GPU has a compute process",
        argvs=lambda target: (gemv_argv(target.needs.image),),
        parse=parse_gemv,
        limit_s=120,
        group="alone",
        only_if_quiet="gpu-processes",
        most_lines=1,
    ),
)
