"""nvidia-smi of a practice node. Memory figures are [N/A], as GB10's unified memory makes them."""

import sys
import time
from pathlib import Path
from typing import NamedTuple

from rehearsal.containers import Status, every, load
from rehearsal.node import Node, read

_UNITS = {
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


def gpu(status: Status) -> Gpu:
    """Return the GPU's figures under a load: idle, one stream (23-25 W published), six streams (29-30 W published)."""
    if not status.gpu_mib:
        return Gpu("P8", 208, 4.4, 37, 0)
    if not status.running:
        return Gpu("P0", 2411, 11.2, 43, 0)
    return Gpu("P0", 2398, round(22.9 + 1.1 * min(status.running, 8), 2), 55, 96)


def answer(root: Path, _name: str, arguments: list[str]) -> int:
    """Answer nvidia-smi."""
    node = read(root)
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
    known = _gpu_row(node) if query == "--query-gpu" else _app("", 0, 0, node)
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
    now = gpu(load(node.root))
    missing = dict.fromkeys(
        ("memory.total", "memory.used", "memory.free", "power.limit", "fan.speed", "clocks.current.memory"),
        "[N/A]",
    )
    return missing | {
        "index": "0",
        "count": "1",
        "name": "NVIDIA GB10",
        "uuid": _uuid(node),
        "driver_version": node.driver,
        "pstate": now.pstate,
        "clocks.current.sm": str(now.sm_mhz),
        "clocks.sm": str(now.sm_mhz),
        "clocks.max.sm": "3003",
        "power.draw": f"{now.watts:.2f}",
        "temperature.gpu": str(now.celsius),
        "utilization.gpu": str(now.busy_percent),
        "utilization.memory": "0",
        "clocks_event_reasons.active": "0x0000000000000000" if now.pstate == "P0" else "0x0000000000000001",
        "clocks_throttle_reasons.active": "0x0000000000000000"
        if now.pstate == "P0"
        else "0x0000000000000001",
        "compute_cap": "12.1",
        "timestamp": time.strftime("%Y/%m/%d %H:%M:%S.000"),
        "pci.bus_id": "0000000F:01:00.0",
    }


def _uuid(node: Node) -> str:
    return f"GPU-00000000-0000-0000-0000-{node.rank:012d}"


def _app(name: str, pid: int, mib: int, node: Node) -> dict[str, str]:
    return {
        "pid": str(pid),
        "process_name": name,
        "name": name,
        "used_gpu_memory": str(mib),
        "used_memory": str(mib),
        "gpu_uuid": _uuid(node),
        "gpu_name": "NVIDIA GB10",
    }


def _app_rows(node: Node) -> list[dict[str, str]]:
    rows = []
    for container in every(node.root):
        status, process = container.status(), container.process()
        if status.gpu_mib and process:
            rows.append(_app(status.process_name, process.pid, status.gpu_mib, node))
    return rows


def _page(node: Node) -> str:
    now = gpu(load(node.root))
    rule = "+" + "-" * 89 + "+\n"
    processes = "".join(
        f"|    0   N/A  N/A {row['pid']:>15}      C   {row['process_name']:<34.34} {row['used_gpu_memory'] + 'MiB':>10} |\n"
        for row in _app_rows(node)
    )
    none = f"|  {'No running processes found':<86} |\n"
    return (
        time.strftime("%a %b %e %H:%M:%S %Y\n")
        + rule
        + f"| NVIDIA-SMI {node.driver:<22} Driver Version: {node.driver:<14} CUDA Version: 13.0     |\n"
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
