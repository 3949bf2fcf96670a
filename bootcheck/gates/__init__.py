"""Gates: facts and floors to findings. Pure; GATES is the order in which they are judged and shown.

The modules mirror bootcheck/probes: what memory.py reads there, memory.py judges here.
"""

from collections.abc import Iterator

from bootcheck.findings import Finding
from bootcheck.gates import container, fabric, gpu, memory, software
from bootcheck.gates.gate import Demand, NodeGate, ParityGate, Scene, Seen, finding, is_serving

GATES: tuple[NodeGate | ParityGate, ...] = (
    memory.MEMORY_AVAILABLE,
    memory.MEMORY_FREE,
    gpu.GPU,
    gpu.GPU_QUIET,
    gpu.GEMV,
    fabric.MTU,
    fabric.JUMBO_PING,
    container.IMAGE,
    container.IMAGE_PARITY,
    software.KERNEL_PARITY,
    gpu.DRIVER_PARITY,
    container.LEFTOVERS,
)

_REACHABLE = Demand(wanted="an answer over SSH", origin="nothing is known of a node that does not answer")

# The GEMV probe does not run beside a rank, so while this line serves it can only be judged after settling.
_BLIND_WHILE_SERVING = frozenset({gpu.GEMV.name})


def judge(scene: Scene) -> tuple[Finding, ...]:
    """Judge every gate on every node, after whether the node answers at all."""
    return (*_reachable(scene), *(found for gate in GATES for found in gate.findings(scene)))


def blocking(findings: tuple[Finding, ...], scene: Scene, *, settled: bool) -> tuple[Finding, ...]:
    """Return the findings that forbid to go on: failures and unknowns, save the failures that settling may cure."""
    stopping = tuple(one for one in findings if one.verdict in {"fail", "unknown"})
    if settled:
        return stopping
    curable = {gate.name for gate in GATES if gate.settles}
    serving = {facts.node for _, facts in scene.answering() if is_serving(facts)}
    return tuple(
        one
        for one in stopping
        if not (one.gate in curable and one.verdict == "fail")
        and not (one.gate in _BLIND_WHILE_SERVING and one.verdict == "unknown" and one.node in serving)
    )


def _reachable(scene: Scene) -> Iterator[Finding]:
    for facts in scene.facts:
        seen = Seen(verdict="pass", measured="answers")
        if facts.unreachable:
            seen = Seen(verdict="unknown", measured=facts.unreachable, hint=facts.hint)
        yield finding(facts.node, "reachable", _REACHABLE, seen)
