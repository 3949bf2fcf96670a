"""Gates on memory: MemAvailable is what vLLM's start check reads, MemFree is what CUDA can take. Both must do."""

from bootcheck.gates.gate import Demand, NodeGate, Seen, View, reading
from bootcheck.probes.memory import Memory
from sparkctl.units import GIB, gib

_SERVING = "a rank of this line holds it: sparkctl down frees it, and a boot stops the line first"


def _judge_available(memory: Memory, view: View) -> Seen:
    share = view.floors.utilisation.value
    wanted = share * memory.total
    would_pass = int(memory.available / memory.total * 100) / 100
    return Seen(
        verdict="pass" if memory.available >= wanted else "fail",
        measured=f"{gib(memory.available)} MemAvailable of {gib(memory.total)}",
        wanted=f"at least {gib(wanted)}, {share:g} of MemTotal, as vLLM's start check asks",
        hint=_SERVING
        if view.is_serving
        else f"stop what holds memory on this node, or set memory.utilisation to {would_pass:.2f} or less",
    )


def _judge_free(memory: Memory, view: View) -> Seen:
    return Seen(
        verdict="pass" if memory.free >= view.floors.memory_free_gib.value * GIB else "fail",
        measured=f"{gib(memory.free)} MemFree, {gib(memory.cached)} page cache",
        hint=_SERVING if view.is_serving else "",
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
        troubles=("vllm-project/vllm#48140", "MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#47"),
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
        troubles=("llamastash/llamastash#80",),
        settles=True,
        reads=reading(Memory),
        judge=_judge_free,
    ),
)
