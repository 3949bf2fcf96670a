"""Gates on memory: MemAvailable is what vLLM's start check reads, MemFree is what CUDA can take. Both must do."""

from bootcheck.facts import Memory, NodeFacts
from bootcheck.floors import Floors
from bootcheck.gates.gate import Demand, NodeGate, Seen, is_serving
from sparkctl.line import Node
from sparkctl.units import GIB, gib

_SERVING = "a rank of this line holds it: sparkctl down frees it, and a boot stops the line first"


def _judge_available(memory: Memory, _: Node, facts: NodeFacts, floors: Floors) -> Seen:
    wanted = floors.utilisation.value * memory.total
    would_pass = int(memory.available / memory.total * 100) / 100
    return Seen(
        verdict="pass" if memory.available >= wanted else "fail",
        measured=f"{gib(memory.available)} MemAvailable of {gib(memory.total)}",
        wanted=f"at least {gib(wanted)}, {floors.utilisation.value:g} of MemTotal, as vLLM's start check asks",
        hint=_SERVING
        if is_serving(facts)
        else f"stop what holds memory on this node, or set memory.utilisation to {would_pass:.2f} or less",
    )


def _judge_free(memory: Memory, _: Node, facts: NodeFacts, floors: Floors) -> Seen:
    return Seen(
        verdict="pass" if memory.free >= floors.memory_free_gib.value * GIB else "fail",
        measured=f"{gib(memory.free)} MemFree, {gib(memory.cached)} page cache",
        hint=_SERVING
        if is_serving(facts)
        else "drop the page cache, as a boot does (sync; echo 3 > /proc/sys/vm/drop_caches), or stop what holds memory",
    )


MEMORY_AVAILABLE = NodeGate(
    name="memory-available",
    about="vLLM's start check will pass",
    demand=lambda floors: Demand(
        wanted=f"at least {floors.utilisation.value:g} of MemTotal as MemAvailable",
        origin=floors.utilisation.origin,
    ),
    reads=lambda facts: facts.memory,
    judge=_judge_available,
    settles=True,
)

MEMORY_FREE = NodeGate(
    name="memory-free",
    about="CUDA can take what a rank needs",
    demand=lambda floors: Demand(
        wanted=f"at least {floors.memory_free_gib.value:g} GiB MemFree", origin=floors.memory_free_gib.origin
    ),
    reads=lambda facts: facts.memory,
    judge=_judge_free,
    settles=True,
)
