"""Gate on a real collective: every rank came, NCCL used the RDMA devices, the result was right, and it was fast enough. Pure."""

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from bootcheck.facts import NodeFacts, Unread
from bootcheck.findings import Verdict
from bootcheck.gates.gate import Demand, LineGate, Scene, Seen, unknown
from bootcheck.probes.collective import Collective
from bootcheck.probes.nccl import NcclTests
from sparkctl.line import Node

# What a bus bandwidth between two nodes over one cable means, in GB/s (NVIDIA/dgx-spark-playbooks#102, PR#103 and #25, reported).
_MEANINGS = (
    (10.0, 13.0, "as much as one of the cable's two halves gives"),
    (18.0, 21.0, "as much as MTU 1500 gives"),
)
_LARGE = 64 * 1024**2  # smaller tests measure latency; ours, chosen: 64 MiB take 3 ms on a full cable
_SEVERITY: tuple[Verdict, ...] = ("fail", "unknown", "warn", "pass")


def _judge(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    if len(scene.line.nodes) < 2:
        return
    for node, facts in scene.answering():
        seen = [one for one in (_own(node, facts, scene), _tests(facts, scene)) if one]
        if seen:
            decides = min(seen, key=lambda one: _SEVERITY.index(one.verdict))
            measured = "; ".join(one.measured for one in seen)
            yield node, replace(decides, measured=measured)


def _own(node: Node, facts: NodeFacts, scene: Scene) -> Seen | None:
    """Judge our own all-gather."""
    found = facts.one(Collective)
    if isinstance(found, Unread):
        return None if found.is_left_out else unknown(found)
    if found.fault:
        said = "; ".join((*found.log.warnings[:1], found.fault))
        lacks_device = any("Failed to initialize any NET plugin" in one for one in found.log.warnings)
        hint = _SOCKET if lacks_device else _BROKE
        return Seen(verdict="fail", measured=f"NCCL broke off: {said}", hint=hint)
    if found.missing:
        names = {node.rank: node.name for node in scene.line.nodes}
        who = ", ".join(f"rank {rank} ({names.get(rank, 'not in the inventory')})" for rank in found.missing)
        return Seen(verdict="unknown", measured=f"{who} did not come", hint=f"see what stopped {who} first")
    devices = f" over {', '.join(found.log.devices)}" if found.log.devices else ""
    network = f" (network {found.log.network}{devices})" if found.log.network else ""
    shown = f"{median(found.rates):.1f} GB/s bus bandwidth, {found.ranks} ranks{network}"
    if found.wrong:
        return Seen(verdict="fail", measured=f"{found.wrong} wrong elements at {shown}", hint=_WRONG)
    if found.log.network == "Socket":
        return Seen(verdict="fail", measured=f"NCCL fell back to sockets: {shown}", hint=_SOCKET)
    return _speed(median(found.rates), found.ranks, shown, scene, halves=_halves(node, scene))


def _halves(node: Node, scene: Scene) -> float:
    """Return how much of the cable NCCL is told to use: 0.5 where the rank's NCCL_IB_HCA names one HCA of several, else 1."""
    named = scene.needs.environments.get(node.name, {}).get("NCCL_IB_HCA", "")
    return 0.5 if named and "," not in named and len(node.rails) > 1 else 1.0


def _speed(rate: float, ranks: int, shown: str, scene: Scene, halves: float = 1.0) -> Seen:
    bad, good = scene.floors.collective_gb_s.value, scene.floors.collective_good_gb_s.value * halves
    by_choice = "" if halves == 1 else ", over the one half that the recipe names"
    measured = f"{shown}{by_choice}" if ranks == 2 else f"{shown}{by_choice}; the floors are reported for two"
    wanted = f"a right result over RDMA at {good:g} GB/s or more, not under {bad:g}"
    if rate < bad or rate >= good:
        return Seen(verdict="fail" if rate < bad else "pass", measured=measured, wanted=wanted)
    means = next((said for low, high, said in _MEANINGS if halves == 1 and low <= rate <= high), "")
    return Seen(verdict="warn", measured=f"{measured}, {means}" if means else measured, wanted=wanted)


def _tests(facts: NodeFacts, scene: Scene) -> Seen | None:
    """Judge a run of nccl-tests that the bundle holds; most hold none."""
    found = facts.one(NcclTests)
    if isinstance(found, Unread):
        return unknown(found) if NcclTests.probe in facts.read and not found.is_left_out else None
    wrong = max(found.out_of_bounds, sum(row.wrong or 0 for row in found.rows))
    largest = max(found.rows, key=lambda row: row.size)
    rate = sum(largest.rates) / len(largest.rates)
    shown = f"{found.name}: {rate:.1f} GB/s bus bandwidth at {largest.size} bytes, {found.ranks} ranks"
    if wrong:
        return Seen(verdict="fail", measured=f"{wrong} wrong elements in {shown}", hint=_WRONG)
    if largest.size < _LARGE:
        return Seen(verdict="pass", measured=f"{shown}, too small to judge bandwidth")
    return _speed(rate, found.ranks, shown, scene)


_BROKE = (
    "see the first warning: GID index, MTU and cabling of the named device; a ring of four without a switch cannot build NCCL's "
    "trees"
)
_WRONG = "do not serve: the fabric or this NCCL build damages data; run the check again, then exchange cable and NCCL build"
_SOCKET = "the container found no RDMA device: /dev/infiniband must be passed in, and NCCL_NET=IB and NCCL_IB_HCA set"

GATES = (
    LineGate(
        name="collective",
        section="fabric",
        about="all ranks gather data through NCCL over RDMA, right and fast",
        demand=lambda floors: Demand(
            wanted=f"a right result over RDMA at {floors.collective_good_gb_s.value:g} GB/s or more, not under "
            f"{floors.collective_gb_s.value:g}",
            origin=f"{floors.collective_good_gb_s.origin}; {floors.collective_gb_s.origin}",
        ),
        remedy="compare MTU, link speed and the devices named here with a faster node; NCCL must use both halves of the cable "
        "(NCCL_IB_HCA names both HCAs) unless the recipe says otherwise, and be a release build, not a development branch",
        troubles=(
            "NVIDIA/dgx-spark-playbooks#102",
            "NVIDIA/dgx-spark-playbooks PR#103",
            "NVIDIA/dgx-spark-playbooks#25",
            "Project-HAMi/HAMi-core#261",
            "MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks PR#19",
        ),
        needs_quiet=True,
        judge=_judge,
    ),
)
