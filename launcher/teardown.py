"""Teardown: whether a line that was stopped has given everything back: GPU, ports, processes, shared memory. I/O joined with gates.

The stop itself proves that no container of the line is left; an engine that outlived its container, or a driver that is slow to let
go, would show in the next boot only.
"""

from bootcheck import collect, gates
from bootcheck.findings import Finding
from bootcheck.floors import Floors
from bootcheck.gates.gate import Scene
from bootcheck.needs import NOTHING
from sparkctl.line import Line

LOOKS = frozenset({"containers", "processes", "gpu-processes", "listeners", "shared-memory"})
"""Probes that show what a line may leave behind."""

PROOFS = ("reachable", "leftovers", "engine-processes", "ports", "shared-memory")
"""Gates that say whether it did."""


def look(line: Line, floors: Floors, at: str, report: collect.Report) -> tuple[Finding, ...]:
    """Return what is left of a line that was stopped, as findings that are not `pass`."""
    bundle = collect.look(line, NOTHING, floors, at, LOOKS, report=report)
    scene = Scene(line=line, needs=NOTHING, facts=collect.facts(bundle), floors=floors)
    found = (
        finding
        for gate in (gates.REACHABLE, *gates.GATES)
        if gate.name in PROOFS
        for finding in gate.findings(scene)
    )
    return tuple(one for one in found if one.verdict != "pass")


def is_ours(finding: Finding) -> bool:
    """Whether a finding says that the line itself has not let go: the engine of somebody else is no leftover of it.

    An engine that ends, or a GPU that is not released yet, is cured by waiting; a stray engine is not, and its port has an owner.
    """
    return finding.gate != "engine-processes" or finding.settles
