"""What head and workers have in common: their command line, their memory, their loading, their log."""

import asyncio
from collections.abc import Sequence

from rehearsal import containers, node
from rehearsal.engine import law, memory
from rehearsal.engine.flags import Argv
from rehearsal.engine.journal import Journal
from rehearsal.engine.law import Law
from rehearsal.engine.meeting import Message
from rehearsal.faces.system import memory_kib

_SHARDS = 8
_LOADING = 0.62  # share of a boot that public boots spend on reading weights
_PROFILING = 0.14
_CAPTURING = 0.14

# What 0.33 tries in turn for MXFP8 dense layers; the first name needs another GPU family.
_MXFP8 = ("FlashInferCutlassMxfp8LinearKernel", "MarlinMxfp8LinearKernel", "B12xMxfp8LinearKernel")
_MEETING_S = 600.0  # torch.distributed gave up after 601 s in public logs, whatever vLLM was told
_HOST_MIB = 3072  # a worker's own memory beside the GPU's; 1.9 to 3.7 GiB in public boots


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
        self.limit_s = argv.fraction("distributed-timeout-seconds", _MEETING_S) / told.pace

    @property
    def address(self) -> tuple[str, int]:
        """Where the ranks meet."""
        return self.argv.text("master-addr", "127.0.0.1"), self.argv.number("master-port", 29501)

    def hello(self) -> Message:
        """Return what a rank tells the head of itself."""
        return {
            "rank": self.rank,
            "world": self.world,
            "gemv_gb_s": self.node.gemv_gb_s,
            "pulled": self.pulled,
            "kv": self.plan.kv,
        }

    def show(self, gpu_gib: float, running: int = 0) -> None:
        """Let the node's other commands see what this rank uses."""
        status = containers.Status(f"VLLM::Worker_TP{self.rank}", int(gpu_gib * 1024), _HOST_MIB, running)
        node.write_json(self.container.root / "status.json", status._asdict())

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

    async def load(self) -> None:
        """Read the weights: time passes, memory fills, and so does the page cache."""
        channels = self.environment.get("NCCL_MAX_NCHANNELS", "4")
        if self.environment.get("NCCL_DEBUG") == "INFO":
            self.journal.info("pynccl.py:111", f"NCCL INFO {channels} coll channels, {channels} p2p channels")
        whole_s = self.law.boot_s * _LOADING
        for done in range(_SHARDS):
            await self._pass(whole_s / _SHARDS)
            self.show(self.plan.weights * (done + 1) / _SHARDS)
        read_kib = int(self.plan.weights * 1024**2)
        node.keep_page_cache(self.node.root, max(node.page_cache_kib(self.node.root), read_kib))
        self.journal.info("default_loader.py:384", f"Loading weights took {whole_s:.2f} seconds")
        self.journal.info("mxfp4.py:212", "Using 'EXL3' Mxfp4 MoE backend.")
        self.journal.info("__init__.py:288", f"Using {self._kernel()} for MXFP8 GEMM")
        text = f"Model loading took {self.plan.weights:.2f} GiB memory and {whole_s:.6f} seconds"
        self.journal.info("model_runner.py:402", text)

    def _kernel(self) -> str:
        off = self.environment.get("VLLM_DISABLED_KERNELS", "").split(",")
        return next((name for name in _MXFP8 if name not in off), "TorchMxFp8LinearKernel")

    async def profile(self) -> None:
        """Take the profile run's time and say what is left for the KV cache."""
        await self._pass(self.law.boot_s * _PROFILING)
        if self.plan.pinned:
            free = memory_kib(self.node.root)["MemFree"] / 1024**2
            text = (
                f"Initial free memory {free:.2f} GiB, reserved {self.plan.kv:.2f} GiB memory for KV Cache as specified by "
                "kv_cache_memory_bytes config and skipped memory profiling."
            )
            self.journal.info("gpu_worker.py:501", text)
        self.journal.info("gpu_worker.py:520", f"Available KV cache memory: {self.plan.kv:.2f} GiB")

    async def capture(self, kv: float) -> None:
        """Make the pool and capture the graphs."""
        self.show(self.plan.used(kv))
        seconds = self.law.boot_s * _CAPTURING
        await self._pass(seconds)
        text = f"Graph capturing finished in {seconds:.0f} secs, took {self.plan.graphs:.2f} GiB"
        self.journal.info("model_runner.py:618", text)

    async def _pass(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.law.pace)


def in_common(pulled: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the levers that every rank has: one that only some have speeds nothing up."""
    first, *others = pulled
    return tuple(index for index in first if all(index in other for other in others))
