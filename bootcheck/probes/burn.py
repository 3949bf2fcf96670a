"""The GPU of a node under load, in the serving image: a burn shows a latched clock, a GEMV the hidden slow state.

Two faults with two remedies, and neither load sees the other's: a latched clock is slow in arithmetic, the hidden slow state only
in a matrix-vector product shaped like a decode step (tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark#1: 230 against 70 GB/s).
Copies look the same in both.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from bootcheck.facts import Record, Unread, unread
from bootcheck.probes.probe import Argv, Probe


def watchdog(limit_s: int) -> str:
    """Return the first line of a script that runs in a container: it ends after so many seconds, whatever it waits for.

    A container outlives a docker client that was ended, and its first process ignores SIGTERM and SIGALRM as long as it has no
    handler of its own. faulthandler's thread ends it from within, even while Python waits inside CUDA.
    """
    return f"import faulthandler; faulthandler.dump_traceback_later({limit_s}, exit=True)\n"


WATCHDOG = watchdog(100)

# nvidia-smi may block for a quarter of an hour on a sick node, so each reading has a limit. The power meter follows a load with
# 1 to 1.5 s of delay (RobTand/prismaquant#488, reported), so nothing counts before two seconds are over.
BURN_SCRIPT = (
    WATCHDOG
    + """
import json, subprocess, threading, time, torch
size, turns, skipped_s, burn_s, every_s = 4096, 16, 2.0, 10.0, 0.5
left, right = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
product, done, readings, tflops = torch.empty_like(left), threading.Event(), [], []
query = ["nvidia-smi", "--query-gpu=clocks.current.sm,power.draw,temperature.gpu", "--format=csv,noheader,nounits"]
def watch():
    while not done.is_set():
        asked = time.perf_counter()
        try:
            said = subprocess.run(query, capture_output=True, text=True, timeout=2).stdout
        except (OSError, subprocess.SubprocessError):
            said = ""
        if asked - began >= skipped_s and not done.is_set():
            readings.append(said.partition(chr(10))[0].split(","))
        done.wait(max(0.0, asked + every_s - time.perf_counter()))
def number(cells, place):
    try:
        return float(cells[place])
    except (IndexError, ValueError):
        return None
torch.mm(left, right, out=product); torch.cuda.synchronize()
began = now = time.perf_counter()
threading.Thread(target=watch, daemon=True).start()
while now - began < burn_s:
    start, count = now, 0
    while now - start < 1.0:
        for _ in range(turns):
            torch.mm(left, right, out=product)
        torch.cuda.synchronize(); count += turns; now = time.perf_counter()
    if start - began >= skipped_s:
        tflops.append(round(2 * size**3 * count / (now - start) / 1e12, 2))
done.set()
columns = [[one for cells in readings if (one := number(cells, place)) is not None] for place in range(3)]
print(json.dumps({"probe": "burn", "tflops": tflops, "sm_mhz": columns[0], "power_w": columns[1], "temperature_c": columns[2]}))
"""
)

# Six rows against a 5120 x 16384 bf16 matrix: the shape of a decode step with speculative tokens. A fresh matrix of
# 160 MiB does not fit any cache, so bytes read per second is memory bandwidth. Bursts and pauses as in a decode loop,
# since the state is not seen by back-to-back copies; eight blocks, so that a flip between them shows.
# CUDA is asked for its free memory before anything is allocated.
GEMV_SCRIPT = (
    WATCHDOG
    + """
import json, time, torch
cuda_free, cuda_total = torch.cuda.mem_get_info()
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
print(json.dumps({"probe": "gemv", "gb_s": rates, "seconds": seconds, "cuda_free": cuda_free, "cuda_total": cuda_total}))
"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Burn:
    """A burn of some seconds: rate of each second in TFLOPS (10^12), and readings of nvidia-smi under that load.

    The first two seconds are left out. A list is empty where the driver did not tell.
    """

    probe: ClassVar[str] = "burn"

    tflops: tuple[float, ...]
    sm_mhz: tuple[float, ...]
    power_w: tuple[float, ...]
    temperature_c: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemv:
    """Decode-shaped matrix-vector bandwidth of each timed block, in GB/s.

    `cuda_free` and `cuda_total` are what CUDA said of its memory before the run, in bytes; None where it did not.
    """

    probe: ClassVar[str] = "gemv"

    blocks: tuple[float, ...]
    cuda_free: int | None
    cuda_total: int | None


def container_argv(
    name: str,
    image: str,
    script: str,
    *,
    options: tuple[str, ...] = ("--network", "none"),
    arguments: Argv = (),
) -> Argv:
    """Run a script in the serving image, which has the torch, CUDA and NCCL that will serve; never pulls one."""
    head = ("docker", "run", "--rm", "--pull", "never", "--label", f"sparkctl.probe={name}", "--gpus", "all")
    return (*head, *options, "--entrypoint", "python3", image, "-c", script, *arguments)


def answer(record: Record, name: str) -> Mapping[str, Any] | Unread:
    """Return the last JSON line that a script of that name printed, or why there is none."""
    if record.rc != 0:
        why = f"the {name} run ended with {record.rc}: {_cause(record.stderr)}"
        return unread(record, why)
    found = [line for line in record.stdout.splitlines() if line.startswith('{"probe"')]
    try:
        told: Any = json.loads(found[-1]) if found else None
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict) or told.get("probe") != name:
        return unread(record, f"not the JSON line of the {name} script")
    return told


def _cause(stderr: str) -> str:
    """Return the line that says why: docker's own, the watchdog's, or the last one of a traceback."""
    lines = stderr.strip().splitlines() or ["no word"]
    return next((line for line in lines if line.startswith(("docker: ", "Timeout ("))), lines[-1])


def rates(told: Mapping[str, Any], key: str) -> tuple[float, ...] | None:
    """Return a list of positive numbers, empty or not; None when it holds anything else."""
    found = told.get(key)
    if not isinstance(found, list) or not all(type(one) in {int, float} and 0 < one < 1e6 for one in found):
        return None
    return tuple(float(one) for one in found)


def count(told: Mapping[str, Any], key: str) -> int | None:
    """Return a whole number of bytes or things; None when there is none, or one that cannot be."""
    found = told.get(key)
    return found if type(found) is int and 0 <= found < 2**60 else None


def parse_burn(record: Record) -> Burn | Unread:
    """Read the JSON line of the burn: at least three seconds of it must have been counted."""
    told = answer(record, "burn")
    if isinstance(told, Unread):
        return told
    tflops, sm_mhz, power_w, temperature_c = (
        rates(told, key) for key in ("tflops", "sm_mhz", "power_w", "temperature_c")
    )
    if tflops is None or sm_mhz is None or power_w is None or temperature_c is None or len(tflops) < 3:
        why = "fewer than three counted seconds, or a figure that cannot be"
        return unread(record, why)
    return Burn(tflops=tflops, sm_mhz=sm_mhz, power_w=power_w, temperature_c=temperature_c)


def parse_gemv(record: Record) -> Gemv | Unread:
    """Read the JSON line of the GEMV script: `{"probe": "gemv", "gb_s": [...]}` with at least three blocks."""
    told = answer(record, "gemv")
    if isinstance(told, Unread):
        return told
    blocks = rates(told, "gb_s")
    if blocks is None or len(blocks) < 3:
        why = "fewer than three blocks, or a rate that cannot be"
        return unread(record, why)
    return Gemv(blocks=blocks, cuda_free=count(told, "cuda_free"), cuda_total=count(told, "cuda_total"))


PROBES = (
    Probe(
        name="burn",
        about="ten seconds of fp16 products with clock and power under load; not run while the GPU has a compute process",
        argvs=lambda target: (container_argv("burn", target.needs.image, BURN_SCRIPT),),
        parse=parse_burn,
        limit_s=120,
        group="alone",
        only_if_quiet="gpu-processes",
        most_lines=1,
    ),
    Probe(
        name="gemv",
        about="decode-shaped GEMV bandwidth, and CUDA's free memory; not run while the GPU has a compute process",
        argvs=lambda target: (container_argv("gemv", target.needs.image, GEMV_SCRIPT),),
        parse=parse_gemv,
        limit_s=120,
        group="alone",
        only_if_quiet="gpu-processes",
        most_lines=1,
    ),
)
