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
    engines,
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
    return tuple(found for gate in (*FIRST, *GATES) for found in gate.findings(scene))


def blocking(
    findings: tuple[Finding, ...],
    scene: Scene,
    *,
    settled: bool,
    curable: frozenset[str] = frozenset(),
    accepted: frozenset[str] = frozenset(),
) -> tuple[Finding, ...]:
    """Return the findings that forbid to go on: failures and unknowns, save the failures that settling may cure.

    `curable` names further gates whose failure the settling of this very boot may cure, `accepted` those that the owner takes
    upon himself, failed or unknown. Beside a rank or an engine that is still ending, on whichever node, a probe that loads GPU or
    fabric is blind on that node and meets no peer on the others: it runs once the line was stopped.
    """
    stopping = tuple(
        one for one in findings if one.verdict in {"fail", "unknown"} and one.gate not in accepted
    )
    if settled:
        return stopping
    is_busy = any(is_serving(facts) or engines.ending(facts) for _, facts in scene.answering())
    blind = {gate.name for gate in GATES if gate.needs_quiet and is_busy}
    return tuple(
        one
        for one in stopping
        if not (one.verdict == "fail" and (one.settles or one.gate in curable))
        and not (one.verdict == "unknown" and one.gate in blind)
    )


def _judge_reachable(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    for node in scene.line.nodes:
        facts = scene.of(node)
        seen = Seen(verdict="pass", measured="answers")
        if facts.unreachable:
            seen = Seen(verdict="unknown", measured=facts.unreachable, hint=facts.hint)
        yield node, seen


def _judge_steps(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    for node in scene.line.nodes:
        facts = scene.of(node)
        if facts.failed:
            yield node, Seen(verdict="fail", measured=facts.failed, hint=facts.hint)
        elif not facts.unreachable:
            yield node, Seen(verdict="pass", measured="no step failed")


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

STEPS = LineGate(
    name="steps",
    section="leftovers",
    about="what a boot does on a node before it looks again was done",
    demand=lambda _: Demand(
        wanted="every step before the second look done",
        origin="a node on which the old rank was not stopped, or a setting not made, is not the one that was judged",
    ),
    remedy="see what the step said, do it by hand on the node, and boot again",
    judge=_judge_steps,
)

FIRST: tuple[Gate, ...] = (REACHABLE, STEPS)
"""What must hold before any other gate can speak; nobody can take it upon himself."""
