"""Gates on memory: MemAvailable is what vLLM's start check reads, MemFree is what CUDA can take. Both must do.

MemFree must also lie in blocks that the driver can use, and the kernel and its swap must not eat what the check counts on.
"""

from bootcheck.facts import NodeFacts, Unread
from bootcheck.gates.gate import Demand, NodeGate, Scene, Seen, View, reading
from bootcheck.gates.resident import residents
from bootcheck.probes.burn import Gemv
from bootcheck.probes.memory import Blocks, Memory, MinFree, PageSize
from sparkctl.units import GIB, KIB, gib

_SERVING = "a rank of this line holds it: sparkctl down frees it, and a boot stops the line first"
_LARGE_BLOCK = 2 * 1024**2  # a huge page of the GPU, and of the kernel with 4 KiB pages
# A CUDA context takes some hundred MiB before it can be asked; more than this is not explained by it. Ours, chosen.
_CUDA_GAP = 4 * GIB
# mm/page_alloc.c: two steps of a quarter of min_free, or of 10/10000 of the zone (vm.watermark_scale_factor), above min_free.
_SCALE_STEP = 10 / 10_000
# Counters of free CMA pages may run ahead by some pages a processor; the broken kernel shows hundreds of MiB. Ours, chosen.
_CMA_SLACK = 64 * 1024**2


def _judge_available(memory: Memory, view: View) -> Seen:
    share = view.floors.utilisation.value
    wanted = share * memory.total
    held = view.needs.memory_gib.get(view.node.name, 0.0) * GIB
    if wanted <= memory.available < held:
        return _too_little(memory, view, held)
    lower = f"set memory.utilisation to {_ceiling_of_line(view.scene):.2f} or less, which every node of the line passes now"
    if memory.available < view.floors.memory_free_gib.value * GIB:
        lower += " (gate memory-free then asks for a lower memory.free_floor_gib too)"
    return Seen(
        verdict="pass" if memory.available >= wanted else "fail",
        measured=f"{gib(memory.available)} MemAvailable of {gib(memory.total)}, which vLLM's start check reads: "
        f"utilisation up to {_ceiling(memory):.2f} passes; beside it {gib(memory.free)} MemFree, {_cuda(memory, view)}",
        wanted=f"at least {gib(wanted)}, {share:g} of MemTotal, as vLLM's start check asks",
        hint=_SERVING
        if view.is_serving
        else f"stop what holds memory on this node{residents(view)}, or {lower}",
    )


def _too_little(memory: Memory, view: View, held: float) -> Seen:
    """Say that vLLM would start and then run out: what the rank is predicted to hold is more than there is."""
    return Seen(
        verdict="fail",
        measured=f"{gib(memory.available)} MemAvailable of {gib(memory.total)}",
        wanted=f"at least {gib(held)}, the least that this rank is predicted to hold (sparkctl predict memory)",
        hint=_SERVING
        if view.is_serving
        else f"stop what holds memory on this node{residents(view)}, or make the rank smaller: a smaller memory.kv_cache_gib",
    )


def _ceiling(memory: Memory) -> float:
    """Return the highest utilisation that vLLM's start check lets pass now, in steps of 0.01."""
    return (memory.available * 100 // memory.total) / 100


def _ceiling_of_line(scene: Scene) -> float:
    """Return the utilisation that every node that could be read passes: one recipe serves them all."""
    read = (facts.one(Memory) for _, facts in scene.answering())
    return min(_ceiling(memory) for memory in read if not isinstance(memory, Unread))


def _judge_free(memory: Memory, view: View) -> Seen:
    cached = f"{gib(memory.available)} MemAvailable, {gib(memory.cached)} page cache"
    drop = (
        "drop the page cache, as a boot does where sudo lets it (docs/ritual.md has the two rules), or stop what holds "
        f"memory{residents(view)}"
    )
    return Seen(
        verdict="pass" if memory.free >= view.floors.memory_free_gib.value * GIB else "fail",
        measured=f"{gib(memory.free)} MemFree, which the allocator sees; beside it {cached}, {_cuda(memory, view)}",
        hint=_SERVING if view.is_serving else drop,
    )


def _cuda(memory: Memory, view: View) -> str:
    """Say what CUDA itself saw free when the GEMV probe began, and how far that is from MemFree."""
    gemv = view.facts.one(Gemv)
    if isinstance(gemv, Unread) or gemv.cuda_free is None:
        return "CUDA was not asked"
    gap = gemv.cuda_free - memory.free
    far = f", {gib(abs(gap))} {'more' if gap > 0 else 'less'} than MemFree" if abs(gap) > _CUDA_GAP else ""
    return f"CUDA saw {gib(gemv.cuda_free)} free{far}"


def _read_blocks(facts: NodeFacts) -> tuple[Blocks, PageSize] | Unread:
    blocks, page = facts.one(Blocks), facts.one(PageSize)
    if isinstance(blocks, Unread):
        return blocks
    return page if isinstance(page, Unread) else (blocks, page)


def _judge_blocks(found: tuple[Blocks, PageSize], view: View) -> Seen:
    blocks, page = found
    large, memory = blocks.bytes_from(_LARGE_BLOCK, page.size), view.facts.one(Memory)
    measured = f"{gib(large)} in free blocks of 2 MiB and larger"
    half = 0.0
    if not isinstance(memory, Unread):
        measured, half = f"{measured}, of {gib(memory.free)} MemFree", memory.free / 2
    hint = _SERVING if view.is_serving else ""
    if large < view.floors.contiguous_gib.value * GIB:
        return Seen(verdict="fail", measured=measured, hint=hint)
    # Ours, chosen: compaction mends what is left of the other half, but at the speed of a load it stalls instead.
    return Seen(verdict="warn" if large < half else "pass", measured=measured, hint=hint)


def _judge_min_free(found: MinFree, view: View) -> Seen:
    memory = view.facts.one(Memory)
    total, gap = (0, 0) if isinstance(memory, Unread) else (memory.total, memory.free - memory.available)
    # MemAvailable is MemFree less the reserve plus what can be reclaimed: where it lies lower, the reserve is at least the gap.
    taken = max(found.kept + 2 * max(found.kept / 4, total * _SCALE_STEP), gap)
    return Seen(
        verdict="warn" if taken > view.floors.reserve_gib.value * GIB else "pass",
        measured=f"vm.min_free_kbytes {found.kept // KIB}: the reserve takes at least {gib(taken)} from MemAvailable",
    )


def _judge_cma(memory: Memory, _: View) -> Seen:
    if memory.cma_total is None or memory.cma_free is None:
        return Seen(verdict="pass", measured="this kernel keeps no CMA")
    broken = memory.cma_free > memory.cma_total + _CMA_SLACK
    return Seen(
        verdict="fail" if broken else "pass",
        measured=f"{gib(memory.cma_free)} CmaFree of {gib(memory.cma_total)} CmaTotal",
    )


def _judge_swap(memory: Memory, view: View) -> Seen:
    if memory.swap_total is None or memory.swap_free is None:
        return Seen(verdict="unknown", measured="no SwapTotal and SwapFree in /proc/meminfo")
    used = memory.swap_total - memory.swap_free
    return Seen(
        verdict="warn" if used > view.floors.swap_used_gib.value * GIB else "pass",
        measured=f"{gib(used)} of {gib(memory.swap_total)} swap in use",
    )


GATES = (
    NodeGate(
        name="memory-available",
        section="memory",
        about="vLLM's start check will pass",
        demand=lambda floors: Demand(
            wanted=f"at least {floors.utilisation.value:g} of MemTotal as MemAvailable",
            origin=floors.utilisation.origin,
        ),
        remedy="stop what holds memory on this node, or set a lower memory.utilisation",
        troubles=(
            "vllm-project/vllm#48140",
            "eugr/spark-vllm-docker#257",
            "MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#47",
        ),
        settles=True,
        reads=reading(Memory),
        judge=_judge_available,
    ),
    NodeGate(
        name="memory-free",
        section="memory",
        about="CUDA can take what a rank needs",
        demand=lambda floors: Demand(
            wanted=f"at least {floors.memory_free_gib.value:g} GiB MemFree",
            origin=floors.memory_free_gib.origin,
        ),
        remedy="drop the page cache, as a boot does (sync; echo 3 > /proc/sys/vm/drop_caches), or stop what holds memory",
        troubles=(
            "llamastash/llamastash#80",
            "tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark (docs/EXL3-TP3.md)",
            "XuehaiPan/nvitop#208",
        ),
        settles=True,
        reads=reading(Memory),
        judge=_judge_free,
    ),
    NodeGate(
        name="contiguous-memory",
        section="memory",
        about="free memory lies in blocks that the driver can use",
        demand=lambda floors: Demand(
            wanted=f"at least {floors.contiguous_gib.value:g} GiB in free blocks of 2 MiB and larger, and half of MemFree",
            origin=floors.contiguous_gib.origin,
        ),
        remedy="drop the page cache and compact, as a boot does (echo 1 > /proc/sys/vm/compact_memory); "
        "memory that stays in pieces after days of serving needs a reboot",
        troubles=(
            "tonyd2wild/GLM-5.3-Flash-NVFP4-DFlash2-2x-DGX-Spark#19",
            "MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks#23",
            "FujitsuPolycom/sparkring#173",
        ),
        settles=True,
        reads=_read_blocks,
        judge=_judge_blocks,
    ),
    NodeGate(
        name="min-free",
        section="memory",
        about="the kernel's reserve leaves vLLM's start check what it counts on",
        demand=lambda floors: Demand(
            wanted=f"at most {floors.reserve_gib.value:g} GiB taken from MemAvailable",
            origin=floors.reserve_gib.origin,
        ),
        remedy="lower vm.min_free_kbytes (and vm.watermark_scale_factor), or count it in memory.utilisation; "
        "never raise it between these gates and the start",
        troubles=("tonyd2wild/GLM-5.3-Flash-NVFP4-DFlash2-2x-DGX-Spark#19",),
        reads=reading(MinFree),
        judge=_judge_min_free,
        worst="warn",
    ),
    NodeGate(
        name="cma",
        section="memory",
        about="the kernel does not hold free memory that cannot be pinned",
        demand=lambda _: Demand(
            wanted="no more CmaFree than CmaTotal",
            origin="kernel 7.0.0-1019 keeps 9 GiB as CMA pages that RDMA cannot register (NVIDIA/NV-Kernels#590, reported)",
        ),
        remedy="boot with kho=off on the kernel's command line, or go back to kernel 6.17",
        troubles=("NVIDIA/NV-Kernels#590", "MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#259"),
        reads=reading(Memory),
        judge=_judge_cma,
    ),
    NodeGate(
        name="swap",
        section="memory",
        about="little is swapped out",
        demand=lambda floors: Demand(
            wanted=f"at most {floors.swap_used_gib.value:g} GiB of swap in use",
            origin=floors.swap_used_gib.origin,
        ),
        remedy="see what was swapped out (smem -s swap), stop it, or empty the swap with swapoff -a and swapon -a",
        troubles=("tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark (docs/EXL3-TP3.md)",),
        reads=reading(Memory),
        judge=_judge_swap,
        worst="warn",
    ),
)
