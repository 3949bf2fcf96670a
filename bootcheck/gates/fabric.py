"""Gates on the fabric: interfaces as the inventory says, and full-size packets that arrive."""

from bootcheck.facts import NodeFacts, Unread
from bootcheck.gates.gate import Demand, NodeGate, Seen, View, reading
from bootcheck.probes.fabric import Links, Ping
from sparkctl.line import Rail


def _judge_mtu(links: Links, view: View) -> Seen:
    node, floors = view.node, view.floors
    wrong = [rail for rail in node.rails if not _fits(links, rail, floors.mtu.value)]
    return Seen(
        verdict="fail" if wrong else "pass",
        measured="; ".join(_describe(links, rail) for rail in wrong or node.rails),
        wanted="; ".join(f"{rail.address} on {rail.interface}, up" for rail in wrong or node.rails)
        + f", MTU at least {floors.mtu.value:g}",
        hint=f"give {', '.join(rail.interface for rail in wrong)} that address and MTU in the node's netplan",
    )


def _fits(links: Links, rail: Rail, mtu: float) -> bool:
    link = links.holding(rail.address)
    return link is not None and link.is_up and link.mtu >= mtu and link.interface == rail.interface


def _describe(links: Links, rail: Rail) -> str:
    link = links.holding(rail.address)
    if link is None:
        return f"no interface has {rail.address}"
    return f"{rail.address} on {link.interface}, {'up' if link.is_up else 'down'}, MTU {link.mtu}"


def _read_pings(facts: NodeFacts) -> tuple[Ping, ...] | Unread:
    """All pings, or why they cannot be judged; a packet that was lost counts even when another ping is unread."""
    read = tuple(ping for ping in facts.all(Ping) if not isinstance(ping, Unread))
    unread = next((ping for ping in facts.all(Ping) if isinstance(ping, Unread)), None)
    if any(ping.received < ping.sent for ping in read) or (read and unread is None):
        return read
    return unread or Unread(probe="jumbo-ping", why="no ping was sent")


def _judge_pings(pings: tuple[Ping, ...], _: View) -> Seen:
    lost = [ping for ping in pings if ping.received < ping.sent]
    if not lost:
        return Seen(verdict="pass", measured=f"{len(pings)} of {len(pings)} addresses answer")
    return Seen(
        verdict="fail",
        measured="; ".join(_describe_loss(ping) for ping in lost),
    )


def _describe_loss(ping: Ping) -> str:
    if ping.local_mtu is not None:
        return f"{ping.address}: refused by this node's own interface, MTU {ping.local_mtu}"
    return f"{ping.address}: {ping.received} of {ping.sent} answered"


GATES = (
    NodeGate(
        name="mtu",
        section="fabric",
        about="fabric interfaces are up with their address and MTU",
        demand=lambda floors: Demand(wanted=f"MTU at least {floors.mtu.value:g}", origin=floors.mtu.origin),
        remedy="give the rail its address and MTU in the node's netplan",
        troubles=("tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#38",),
        reads=reading(Links),
        judge=_judge_mtu,
    ),
    NodeGate(
        name="jumbo-ping",
        section="fabric",
        about="full-size packets reach every other node",
        demand=lambda floors: Demand(
            wanted=f"every packet of {floors.mtu.value:g} bytes answered unfragmented",
            origin=floors.mtu.origin,
        ),
        remedy="own interface too small: raise its MTU; silence: check cable, peer and switch (MTU 9216 there)",
        troubles=("0xSero/local-ai-registry PR#55",),
        reads=_read_pings,
        judge=_judge_pings,
    ),
)
