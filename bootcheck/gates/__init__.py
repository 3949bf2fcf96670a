"""Gates: facts and floors to findings. Pure; GATES is the order in which they are judged and shown.

The modules mirror bootcheck/probes: what memory.py reads there, memory.py judges here.
"""

from collections.abc import Iterator

from bootcheck.findings import Finding
from bootcheck.gates import (
    addresses,
    cabling,
    collective,
    container,
    environment,
    fabric,
    files,
    gid,
    gpu,
    killer,
    leftovers,
    memory,
    model,
    rdma,
    runtime,
    security,
    software,
    transfer,
)
from bootcheck.gates.gate import Demand, Gate, LineGate, Scene, Seen, is_serving
from sparkctl.line import Node

GATES: tuple[Gate, ...] = (
    *memory.GATES,
    *killer.GATES,
    *gpu.GATES,
    *fabric.GATES,
    *cabling.GATES,
    *addresses.GATES,
    *rdma.GATES,
    *gid.GATES,
    *environment.GATES,
    *transfer.GATES,
    *collective.GATES,
    *software.GATES,
    *container.GATES,
    *runtime.GATES,
    *files.GATES,
    *model.GATES,
    *leftovers.GATES,
    *security.GATES,
)


def judge(scene: Scene) -> tuple[Finding, ...]:
    """Judge every gate on every node, after whether the node answers at all."""
    return tuple(found for gate in (REACHABLE, *GATES) for found in gate.findings(scene))


def blocking(
    findings: tuple[Finding, ...],
    scene: Scene,
    *,
    settled: bool,
    curable: frozenset[str] = frozenset(),
) -> tuple[Finding, ...]:
    """Return the findings that forbid to go on: failures and unknowns, save the failures that settling may cure.

    `curable` names further gates whose failure the settling of this very boot may cure.
    """
    stopping = tuple(one for one in findings if one.verdict in {"fail", "unknown"})
    if settled:
        return stopping
    curable |= {gate.name for gate in GATES if gate.settles}
    blind = {gate.name for gate in GATES if gate.needs_quiet}
    serving = {facts.node for _, facts in scene.answering() if is_serving(facts)}
    return tuple(
        one
        for one in stopping
        if not (one.gate in curable and one.verdict == "fail")
        and not (one.gate in blind and one.verdict == "unknown" and one.node in serving)
    )


def _judge_reachable(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    for node in scene.line.nodes:
        facts = scene.of(node)
        seen = Seen(verdict="pass", measured="answers")
        if facts.unreachable:
            seen = Seen(verdict="unknown", measured=facts.unreachable, hint=facts.hint)
        yield node, seen


REACHABLE = LineGate(
    name="reachable",
    section="fabric",
    about="the node answers over SSH",
    demand=lambda _: Demand(
        wanted="an answer over SSH", origin="nothing is known of a node that does not answer"
    ),
    remedy="see what it said; log in by hand with the same address, user and key",
    judge=_judge_reachable,
)
