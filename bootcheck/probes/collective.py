"""A real collective over all ranks, in the serving image, with the network settings that will serve.

Small on purpose: a public 16 GB test froze a node (NVIDIA/dgx-spark-playbooks#102), so an all-gather holds at most 1 GiB and
at most a twentieth of the memory available on the fullest node.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from bootcheck.facts import Record, Unread, unread
from bootcheck.probes import nccl
from bootcheck.probes.burn import WATCHDOG, answer, container_argv, count, rates
from bootcheck.probes.probe import MEET_S, Argv, Probe, Target
from sparkctl.line import Line
from sparkctl.units import GIB

# Ranks meet in a store that rank 0 holds. Nodes come to this probe at different times, so they wait for each other first; who did
# not come is told before NCCL starts, which would only hang. Every rank gathers consecutive numbers, so that one that is wrong,
# missing or in another's place shows. NCCL writes through C's buffers: they are emptied before the answer is printed.
SCRIPT = (
    WATCHDOG
    + """
import ctypes, json, sys, time, torch
import torch.distributed as dist
from datetime import timedelta
rank, world, port, most = (int(sys.argv[place]) for place in (1, 2, 4, 5))
wait_s, spend_s, began = MEET_S, 8.0, time.monotonic()
def tell(**found):
    ctypes.CDLL(None).fflush(None)
    print(chr(10) + json.dumps({"probe": "collective", "ranks": world, "bytes": 0, "busbw_gb_s": []} | found), flush=True)
def came(key, limit_s):
    try:
        store.wait([key], timedelta(seconds=max(0.1, limit_s)))
    except RuntimeError:
        return False
    return True
try:
    store = dist.TCPStore(sys.argv[3], port, world, rank == 0, timedelta(seconds=wait_s), wait_for_workers=False)
except RuntimeError:
    if rank == 0:
        raise
    tell(missing=[0]); sys.exit()
store.set(f"here{rank}", "1")
if rank == 0:
    absent = [one for one in range(world) if not came(f"here{one}", began + wait_s - time.monotonic())]
    store.set("absent", json.dumps(absent))
absent = json.loads(store.get("absent")) if came("absent", wait_s + 5) else [0]
if absent:
    time.sleep(2); tell(missing=absent); sys.exit()
dist.init_process_group("nccl", store=dist.PrefixStore("nccl", store), rank=rank, world_size=world, timeout=timedelta(seconds=30))
def agree(value, how):
    shared = torch.tensor([value], dtype=torch.float64, device="cuda"); dist.all_reduce(shared, op=how); return shared.item()
available = next(int(row.split()[1]) * 1024 for row in open("/proc/meminfo") if row.startswith("MemAvailable"))
part = int(agree(min(most, available // 20), dist.ReduceOp.MIN)) // 4 // world
whole = torch.empty(part * world, dtype=torch.int32, device="cuda")
own = torch.arange(part, dtype=torch.int32, device="cuda") + rank * part
def gather():
    torch.cuda.synchronize(); start = time.perf_counter()
    dist.all_gather_into_tensor(whole, own); torch.cuda.synchronize()
    return time.perf_counter() - start
gather()
rounds = max(1, min(8, int(spend_s / agree(gather(), dist.ReduceOp.MAX))))
spent = [gather() for _ in range(rounds)]
whole.fill_(-1); gather()
numbers = torch.arange(part, dtype=torch.int32, device="cuda")
wrong = sum(int((whole[one * part : (one + 1) * part] != numbers + one * part).sum()) for one in range(world))
size = whole.numel() * whole.element_size()
store.set(f"done{rank}", "1")
for one in range(world):
    came(f"done{one}", 10)
time.sleep(1 if rank == 0 else 0)
tell(bytes=size, busbw_gb_s=[round(size * (world - 1) / world / one / 1e9, 3) for one in spent], wrong=wrong)
dist.destroy_process_group()
""".replace("MEET_S", f"{MEET_S}")
)

# What the ranks' NCCL and the libraries it comes from depend on. Where its log goes is ours to say.
_PREFIXES = ("NCCL_", "TORCH_NCCL_", "GLOO_", "UCX_")
_NAMES = ("LD_PRELOAD", "LD_LIBRARY_PATH")
_OURS = ("NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS")
# torch and NCCL end so when ranks came together and the fabric then failed them.
_FAULTS = ("DistBackendError", "NCCL error", "Watchdog caught collective operation timeout")


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """An all-gather over all ranks as one of them saw it: bus bandwidth of each round in GB/s, of so many bytes gathered.

    `wrong` counts wrong elements, None where they were not counted; `missing` are the ranks that did not come; `fault` is what
    NCCL broke off with.
    """

    probe: ClassVar[str] = "collective"

    ranks: int
    size: int
    rates: tuple[float, ...]
    wrong: int | None
    missing: tuple[int, ...]
    log: nccl.Log
    fault: str = ""


def environment(of_rank: Mapping[str, str]) -> dict[str, str]:
    """Return that part of a rank's environment which decides how NCCL talks, and let NCCL say what it does."""
    chosen = {
        name: value
        for name, value in of_rank.items()
        if (name.startswith(_PREFIXES) or name.endswith("_IFNAME") or name in _NAMES) and name not in _OURS
    }
    return {**chosen, "NCCL_DEBUG": "INFO"}


def port(line: Line) -> int:
    """Return where the ranks of this probe meet: never the line's own rendezvous, which a boot may need at once."""
    near = (line.master_port + step for step in (1, 2, -1, -2))
    return next(one for one in near if 1024 <= one <= 65535 and one != line.api_port)


def _argvs(target: Target) -> tuple[Argv, ...]:
    line, node, needs = target.line, target.node, target.needs
    if len(line.nodes) < 2:
        return ()
    settings = environment(needs.environments.get(node.name, {}))
    options = ("--network", "host", *needs.fabric_options)
    options += tuple(part for name, value in settings.items() for part in ("-e", f"{name}={value}"))
    place = (node.rank, len(line.nodes), line.head.fabric_address, port(line), GIB)
    return (
        container_argv(
            "collective", needs.image, SCRIPT, options=options, arguments=tuple(str(one) for one in place)
        ),
    )


def parse_collective(record: Record) -> Collective | Unread:
    """Read the JSON line of the script and NCCL's log before it; an NCCL that broke off is a fact."""
    log = nccl.read_log(f"{record.stdout}\n{record.stderr}")
    fault = _fault(record) if record.rc != 0 else ""
    if fault:
        return Collective(ranks=0, size=0, rates=(), wrong=None, missing=(), log=log, fault=fault)
    told = answer(record, "collective")
    return told if isinstance(told, Unread) else _collective(record, told, log)


def _collective(record: Record, told: Mapping[str, Any], log: nccl.Log) -> Collective | Unread:
    ranks, size, missing = count(told, "ranks"), count(told, "bytes"), told.get("missing", [])
    found = rates(told, "busbw_gb_s")
    if not isinstance(missing, list) or not all(type(one) is int and 0 <= one < 1024 for one in missing):
        found = None
    if found is None or ranks is None or size is None or not (found or missing):
        why = "neither a rate nor a missing rank, or a figure that cannot be"
        return unread(record, why)
    return Collective(
        ranks=ranks,
        size=size,
        rates=found,
        wrong=count(told, "wrong"),
        missing=tuple(missing),
        log=log,
    )


def _fault(record: Record) -> str:
    """Return what torch says of an NCCL that failed, from the word that tells it on; empty when it says nothing of it."""
    for line in f"{record.stderr}\n{record.stdout}".splitlines():
        starts = [line.index(one) for one in _FAULTS if one in line]
        if starts:
            return line[min(starts) :][:160]
    return ""


PROBES = (
    *nccl.PROBES,
    Probe(
        name="collective",
        about="a real all-gather over all ranks through NCCL; not run while the GPU has a compute process",
        argvs=_argvs,
        parse=parse_collective,
        limit_s=120,
        group="alone",
        only_if_quiet="gpu-processes",
        most_lines=1,
    ),
)
