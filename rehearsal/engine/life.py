"""What head and workers have in common: their command line, their memory, their clock, their log."""

import asyncio
import signal
from collections.abc import Sequence

from rehearsal import containers, node
from rehearsal.engine import killer, law, memory
from rehearsal.engine.flags import Argv
from rehearsal.engine.journal import Journal
from rehearsal.engine.law import Law
from rehearsal.engine.meeting import Message
from rehearsal.faces.system import memory_kib

_MEETING_S = 600.0  # torch.distributed gave up after 601 s in public logs, whatever vLLM was told
_SWAP_GIB = 16.0
HOST_MIB = 3072
"""A worker's own memory beside the GPU's; 1.9 to 3.7 GiB in public boots."""


class Failed(Exception):
    """The rank ends with an error; the text is what its log says last."""


class Life:
    """One rank from its start to its end."""

    def __init__(self, own: node.Node, container: containers.Container, argv: Argv, told: Law) -> None:
        self.node = own
        self.container = container
        self.argv = argv
        self.law = told
        self.environment = dict(text.split("=", 1) for text in container.env)
        self.rank = argv.number("node-rank", 0)
        self.world = argv.number("nnodes", 1)
        self.journal = Journal(f"Worker_TP{self.rank}")
        self.pulled = law.pulled(told.levers, argv.settings, self.environment)
        self.utilization = argv.fraction("gpu-memory-utilization", 0.92)
        pin = memory.size_bytes(argv.text("kv-cache-memory-bytes", "0"))
        self.plan = memory.plan(self.rank, self.world, self.utilization, pin)
        self.is_killed = False
        self.limit_s = argv.fraction("distributed-timeout-seconds", _MEETING_S) / told.pace

    @property
    def address(self) -> tuple[str, int]:
        """Where the ranks meet."""
        return self.argv.text("master-addr", "127.0.0.1"), self.argv.number("master-port", 29501)

    @property
    def process_name(self) -> str:
        """What the rank calls itself where processes are listed."""
        return f"VLLM::Worker_TP{self.rank}"

    def hello(self) -> Message:
        """Return what a rank tells the head of itself."""
        return {
            "rank": self.rank,
            "world": self.world,
            "gemv_gb_s": self.node.gemv_gb_s,
            "pulled": self.pulled,
            "kv": self.plan.kv,
            "freezes": self.node.rank_fault == "freezes",
            "ails": self.node.serve_fault,
        }

    def show(
        self, gpu_gib: float, running: int = 0, *, host_mib: int = HOST_MIB, frozen: bool = False
    ) -> None:
        """Let the node's other commands see what this rank uses."""
        status = containers.Status(self.process_name, int(gpu_gib * 1024), host_mib, running, frozen)
        node.write_json(self.container.root / "status.json", status._asdict())
        self._meet_killer(host_mib)

    def turn_slow(self) -> None:
        """Put this node into the slow state, if that is what it has in store; all later probes see it too."""
        if self.node.serve_fault == "turns-slow":
            node.change(self.node.root, lambda now: now._replace(slowed=True))

    def _meet_killer(self, host_mib: int) -> None:
        """Let the node's killer, if it has one, look at what is left and end this rank."""
        at = killer.limits(self.node.killer, int(memory.TOTAL_GIB * 1024**2))
        if at is None or self.is_killed:
            return
        left_gib = memory_kib(self.node.root)["MemAvailable"] / 1024**2
        swap = 100 * (1 - self.node.traits.swap_used_gib / _SWAP_GIB)
        if not killer.strikes(at, 100 * left_gib / memory.TOTAL_GIB, swap):
            return
        self.is_killed = True
        killer.report(self.node.root, at, self.process_name, host_mib)
        signal.raise_signal(signal.SIGTERM)

    def start(self) -> None:
        """Check memory as vLLM does before it does anything else."""
        self.journal.info("parallel_state.py:1638", self._world_line())
        free = memory_kib(self.node.root)["MemAvailable"] / 1024**2
        short = memory.shortage(free, self.utilization)
        if short:
            raise Failed(short)

    def _world_line(self) -> str:
        address, port = self.address
        return f"world_size={self.world} rank={self.rank} local_rank=0 distributed_init_method=tcp://{address}:{port} backend=nccl"

    async def spend(self, seconds: float) -> None:
        """Let so many of the line's seconds pass."""
        await asyncio.sleep(seconds / self.law.pace)


def in_common(pulled: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the levers that every rank has: one that only some have speeds nothing up."""
    first, *others = pulled
    return tuple(index for index in first if all(index in other for other in others))
