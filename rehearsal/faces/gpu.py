"""nvidia-smi of a practice node. Memory figures are [N/A], as GB10's unified memory makes them."""

import sys
import time
from pathlib import Path
from typing import NamedTuple

from rehearsal.containers import load
from rehearsal.faces import residents
from rehearsal.faces.residents import Task
from rehearsal.node import Node, read

_HUNG_S = 86_400.0  # longer than any limit; a signal ends it
_COUNTERS = "clocks_event_reasons_counters"
_UNITS = {
    f"{_COUNTERS}.sw_power_cap": "us",
    f"{_COUNTERS}.hw_thermal_slowdown": "us",
    f"{_COUNTERS}.hw_power_brake_slowdown": "us",
    f"{_COUNTERS}.sw_thermal_slowdown": "us",
    "clocks.current.sm": "MHz",
    "clocks.sm": "MHz",
    "clocks.max.sm": "MHz",
    "clocks.current.memory": "MHz",
    "memory.total": "MiB",
    "memory.used": "MiB",
    "memory.free": "MiB",
    "power.draw": "W",
    "power.limit": "W",
    "utilization.gpu": "%",
    "utilization.memory": "%",
}
_APP_UNITS = {"used_gpu_memory": "MiB", "used_memory": "MiB"}
_USAGE = "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n"


class Gpu(NamedTuple):
    """What the GPU does just now."""

    pstate: str
    sm_mhz: int
    watts: float
    celsius: int
    busy_percent: int


def gpu(node: Node) -> Gpu:
    """Return the GPU's figures under a load: idle, one stream (23-25 W published), six streams (29-30 W published).

    A collective that hangs looks busy at 16 to 27 W (eugr/spark-vllm-docker#260, reported).
    """
    ranks, users = load(node.root), _users(node)
    if ranks.frozen:
        return Gpu("P0", 2411, 18.6, 47, 96)
    if ranks.running:
        return Gpu("P0", 2398, round(22.9 + 1.1 * min(ranks.running, 8), 2), 55, 96)
    if any(task.is_busy for task in users):
        return Gpu("P0", 2405, 38.2, 58, 91)
    return Gpu("P0", 2411, 11.2, 43, 0) if users else Gpu("P8", 208, 4.4, 37, 0)


def _users(node: Node) -> list[Task]:
    return [task for task in residents.tasks(node) if task.gpu_mib]


def answer(root: Path, _name: str, arguments: list[str]) -> int:
    """Answer nvidia-smi."""
    node = read(root)
    if node.traits.gpu_hangs:
        time.sleep(_HUNG_S)
    options = {one.partition("=")[0]: one.partition("=")[2] for one in arguments}
    form = options.pop("--format", "")
    if not arguments:
        sys.stdout.write(_page(node))
        return 0
    if arguments == ["-L"]:
        sys.stdout.write(f"GPU 0: NVIDIA GB10 (UUID: {_uuid(node)})\n")
        return 0
    if len(options) != 1 or form.split(",")[0] != "csv":
        sys.stdout.write(_USAGE)
        return 2
    query, fields = options.popitem()
    return _query(node, query, [field.strip() for field in fields.split(",")], form.split(",")[1:])


def _query(node: Node, query: str, fields: list[str], form: list[str]) -> int:
    if query == "--query-gpu":
        rows, units = [_gpu_row(node)], _UNITS
    elif query == "--query-compute-apps":
        rows, units = _app_rows(node), _APP_UNITS
    else:
        sys.stdout.write(_USAGE)
        return 2
    known = _gpu_row(node) if query == "--query-gpu" else _app(Task(0, 0, "", 0, 0, ""), node)
    for field in fields:
        if field not in known:
            sys.stdout.write(f'Field "{field}" is not a valid field to query.\n\n')
            return 2
    if "noheader" not in form:
        sys.stdout.write(", ".join(_headed(field, units, form) for field in fields) + "\n")
    for row in rows:
        sys.stdout.write(", ".join(_cell(row[field], field, units, form) for field in fields) + "\n")
    return 0


def _headed(field: str, units: dict[str, str], form: list[str]) -> str:
    return f"{field} [{units[field]}]" if field in units and "nounits" not in form else field


def _cell(value: str, field: str, units: dict[str, str], form: list[str]) -> str:
    plain = value.startswith("[") or field not in units or "nounits" in form
    return value if plain else f"{value} {units[field]}"


def _gpu_row(node: Node) -> dict[str, str]:
    now, throttle = gpu(node), node.traits.throttle
    held_back = throttle.active if int(throttle.active, 16) or now.pstate == "P0" else "0x0000000000000001"
    missing = dict.fromkeys(
        ("memory.total", "memory.used", "memory.free", "power.limit", "fan.speed", "clocks.current.memory"),
        "[N/A]",
    )
    return missing | {
        "index": "0",
        "count": "1",
        "name": "NVIDIA GB10",
        "uuid": _uuid(node),
        "driver_version": node.traits.driver,
        "pstate": now.pstate,
        "clocks.current.sm": str(now.sm_mhz),
        "clocks.sm": str(now.sm_mhz),
        "clocks.max.sm": "3003",
        "power.draw": f"{now.watts:.2f}",
        "temperature.gpu": str(now.celsius),
        "utilization.gpu": str(now.busy_percent),
        "utilization.memory": "0",
        "clocks_event_reasons.active": held_back,
        "clocks_throttle_reasons.active": held_back,
        f"{_COUNTERS}.sw_power_cap": str(throttle.sw_power_cap_us),
        f"{_COUNTERS}.hw_thermal_slowdown": str(throttle.hw_thermal_slowdown_us),
        f"{_COUNTERS}.hw_power_brake_slowdown": str(throttle.hw_power_brake_slowdown_us),
        f"{_COUNTERS}.sw_thermal_slowdown": str(throttle.sw_thermal_slowdown_us),
        "compute_cap": "12.1",
        "timestamp": time.strftime("%Y/%m/%d %H:%M:%S.000"),
        "pci.bus_id": "0000000F:01:00.0",
    }


def _uuid(node: Node) -> str:
    return f"GPU-00000000-0000-0000-0000-{node.rank:012d}"


def _app(task: Task, node: Node) -> dict[str, str]:
    held = str(task.gpu_mib) if task.is_told else "[N/A]"
    return {
        "pid": str(task.pid),
        "process_name": task.gpu_name,
        "name": task.gpu_name,
        "used_gpu_memory": held,
        "used_memory": held,
        "gpu_uuid": _uuid(node),
        "gpu_name": "NVIDIA GB10",
    }


def _app_rows(node: Node) -> list[dict[str, str]]:
    return [_app(task, node) for task in _users(node)]


def _held(row: dict[str, str]) -> str:
    return row["used_gpu_memory"].replace("[N/A]", "N/A") + (
        "MiB" if row["used_gpu_memory"].isdigit() else ""
    )


def _page(node: Node) -> str:
    now = gpu(node)
    rule = "+" + "-" * 89 + "+\n"
    processes = "".join(
        f"|    0   N/A  N/A {row['pid']:>15}      C   {row['process_name']:<34.34} {_held(row):>10} |\n"
        for row in _app_rows(node)
    )
    none = f"|  {'No running processes found':<86} |\n"
    return (
        time.strftime("%a %b %e %H:%M:%S %Y\n")
        + rule
        + f"| NVIDIA-SMI {node.traits.driver:<22} Driver Version: {node.traits.driver:<14} CUDA Version: 13.0     |\n"
        + "+-----------------------------------------+------------------------+----------------------+\n"
        + "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
        + "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
        + "|=========================================+========================+======================|\n"
        + "|   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |\n"
        + f"| N/A  {now.celsius:>3}C    {now.pstate}        {f'{now.watts:.0f}W':>8} /  N/A  "
        + f"| Not Supported          |   {now.busy_percent:>4}%      Default |\n"
        + "+-----------------------------------------+------------------------+----------------------+\n\n"
        + rule
        + f"| {'Processes:':<88}|\n"
        + f"|  {'GPU   GI   CI              PID   Type   Process name                        GPU Memory':<87}|\n"
        + "|" + "=" * 89 + "|\n"
        + (processes or none)
        + rule
    )  # fmt: skip
