"""Gates on the fabric as IP sees it: interfaces as the inventory says, one MTU a rail, full-size packets that arrive."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from bootcheck.facts import NodeFacts, Unread
from bootcheck.gates.ends import End, ends, holding, joined, of_node
from bootcheck.gates.gate import Demand, NodeGate, Seen, View, reading, unknown
from bootcheck.gates.netplan import Wish, advice
from bootcheck.probes.fabric import Links, Ping

# Room for what a switch adds to a frame of 9000.
_SWITCH_MTU = 9216


def _judge_mtu(_: Links, view: View) -> Seen:
    every = ends(view.scene)
    own = of_node(every, view.node.name)
    enough, best = view.floors.mtu.value, view.floors.mtu_recommended.value
    wrong = [end for end in own if not _fits(end, enough)]
    odd = [end for end in own if end not in wrong and (_mtu(end) < best or _differs(end, every))]
    wanted = "; ".join(f"{end.rail.address} on {end.rail.interface}, up" for end in wrong or own)
    return Seen(
        verdict="fail" if wrong else "warn" if odd else "pass",
        measured="; ".join(_describe(end, every) for end in wrong or odd or own),
        wanted=f"{wanted}, MTU at least {enough:g}, {best:g} recommended, the same on the whole rail",
        hint=_mtu_hint(view, wrong or odd, every),
    )


def _fits(end: End, mtu: float) -> bool:
    link = end.link
    return link is not None and link.is_up and link.mtu >= mtu and link.interface == end.rail.interface


def _mtu(end: End) -> int:
    return end.link.mtu if end.link else 0


def _differs(end: End, every: Iterable[End]) -> bool:
    """Whether an end has not the MTU that is commonest on its rail; where two are equally common, every end differs."""
    rail = (end, *joined(end, every))
    (common, times), *others = Counter(_mtu(one) for one in rail).most_common()
    return _mtu(end) != common or (bool(others) and others[0][1] == times)


def _describe(end: End, every: Iterable[End]) -> str:
    if end.link is None:
        return f"no interface has {end.rail.address}"
    state = "up" if end.link.is_up else "down"
    text = f"{end.rail.address} on {end.link.interface}, {state}, MTU {end.link.mtu}"
    others = [f"{one.node} {_mtu(one)}" for one in joined(end, every) if _mtu(one) != _mtu(end)]
    return f"{text} (beside {', '.join(others)})" if others else text


def _mtu_hint(view: View, wrong: list[End], every: Iterable[End]) -> str:
    """Name each interface with its lines for netplan; a prefix length that no node shows is taken for 24."""
    best = round(view.floors.mtu_recommended.value)
    wishes: dict[str, Wish] = {}
    hints = []
    for end in wrong:
        name = end.rail.interface
        near = next((one.network.prefixlen for one in every if one.network and one.reaches(end.address)), 24)
        if end.link is None or end.link.interface != name:
            wishes[name] = Wish(address=f"{end.rail.address}/{near}", mtu=best)
        elif end.link.mtu < best or _differs(end, every):
            wishes[name] = Wish(mtu=best)
        if end.link and not end.link.is_up:
            hints.append(
                f"no link on {end.link.interface}: reseat its cable and see the port at the other end"
            )
    if wishes:
        hints.append(advice(view.node.name, wishes))
    if raised := [end.rail.interface for end in wrong if end.link and _may_be_raised(end, best)]:
        hints.append(
            f"sparkctl boot --apply raises the running MTU of {', '.join(raised)} until the next reboot"
        )
    return "; ".join(hints)


def _may_be_raised(end: End, best: int) -> bool:
    """Whether boot --apply does anything to an end: it raises the inventory's interfaces to what is recommended."""
    return end.link is not None and end.link.interface == end.rail.interface and end.link.mtu < best


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pings:
    read: tuple[Ping, ...]
    unread: Unread | None


def _read_pings(facts: NodeFacts) -> _Pings | Unread:
    """All pings, with one that could not be read: a packet that was lost counts even then."""
    read = tuple(ping for ping in facts.all(Ping) if not isinstance(ping, Unread))
    unread = next((ping for ping in facts.all(Ping) if isinstance(ping, Unread)), None)
    if unread and (unread.is_left_out or not read):
        return unread
    return _Pings(read=read, unread=unread)


def _judge_pings(pings: _Pings, view: View) -> Seen:
    every = ends(view.scene)
    judged = [way for ping in pings.read if (way := _way(ping, view, every)) and way.must_arrive]
    lost: dict[str, list[_Way]] = {}
    for way in judged:
        if way.ping.is_lost:
            lost.setdefault(way.ping.address, []).append(way)
    if lost:
        return Seen(
            verdict="fail",
            measured="; ".join(_describe_loss(found) for found in lost.values()),
            hint="; ".join(dict.fromkeys(_loss_hint(found[0], judged) for found in lost.values())),
        )
    if pings.unread:
        return unknown(pings.unread)
    # Where no packet fits, an end is at fault, and the gates on that end fail.
    return Seen(
        verdict="pass", measured=f"{len(judged)} of {len(pings.read)} packets fit both ends, all answered"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """A ping with the ends of its way; `near` is None where the node's own interfaces are not known."""

    ping: Ping
    near: End | None
    far: End
    enough: float

    @property
    def must_arrive(self) -> bool:
        """Whether the packet fits the smaller end; of an end that is not known, what is enough is taken.

        An end that is down or lacks its address is for other gates to say.
        """
        both = [end for end in (self.near, self.far) if end]
        known = [end.link.mtu for end in both if end.link]
        smaller = min(known) if len(known) == 2 else min([*known, self.enough])
        return all(end.is_sound for end in both) and self.ping.size <= smaller


def _way(ping: Ping, view: View, every: tuple[End, ...]) -> _Way | None:
    """Return the way of a ping, or None where the two share no network, which is for another gate to say."""
    far, own = holding(every, ping.address), of_node(every, view.node.name)
    if far is None:
        return None
    near = next((end for end in own if end.reaches(far.address)), None)
    if near is None and own[0].is_read:
        return None
    return _Way(ping=ping, near=near, far=far, enough=view.floors.mtu.value)


def _describe_loss(lost: list[_Way]) -> str:
    way, sizes = lost[0], " and ".join(str(one.ping.size) for one in lost)
    ping, said = way.ping, f"{way.ping.address} ({way.far.node}): {sizes} bytes"
    if ping.local_mtu is not None:
        own = way.near.rail.interface if way.near else "interface"
        return f"{said} refused by this node's own {own}, MTU {ping.local_mtu}"
    if ping.received:
        return f"{said}, only {ping.received} of {ping.sent} answered"
    return f"{said}, 0 of {ping.sent} answered, {ping.told or 'silence on the path'}"


def _loss_hint(way: _Way, judged: list[_Way]) -> str:
    ping = way.ping
    if ping.local_mtu is not None:
        return (
            f"ip route get {ping.address} shows whose MTU it is: a route's, a VLAN's or the interface's own"
        )
    if ping.received:
        return "packets get lost on the way: see ethtool -S on both ends, then cable and switch port"
    if any(one.ping.address == ping.address and not one.ping.is_lost for one in judged):
        return f"smaller packets pass: give the switch's ports an MTU of {_SWITCH_MTU} or more"
    return f"check cable, peer and firewall, and that the switch's ports have an MTU of {_SWITCH_MTU} or more"


GATES = (
    NodeGate(
        name="mtu",
        section="fabric",
        about="fabric interfaces are up with their address, and their MTU is enough and the same on a whole rail",
        demand=lambda floors: Demand(
            wanted=f"MTU at least {floors.mtu.value:g}, {floors.mtu_recommended.value:g} recommended, one a rail",
            origin=f"{floors.mtu.value:g}: {floors.mtu.origin}; "
            f"{floors.mtu_recommended.value:g}: {floors.mtu_recommended.origin}",
        ),
        remedy="give the rail its address and MTU in the node's netplan; sparkctl boot --apply raises a running MTU only",
        troubles=(
            "tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#38",
            "NVIDIA/dgx-spark-playbooks#25",
            "NVIDIA/dgx-spark-playbooks PR#103",
        ),
        reads=reading(Links),
        judge=_judge_mtu,
    ),
    NodeGate(
        name="jumbo-ping",
        section="fabric",
        about="packets that fit both ends reach every other node unfragmented",
        demand=lambda floors: Demand(
            wanted=f"packets of {floors.mtu.value:g} and {floors.mtu_recommended.value:g} bytes answered where both ends hold them",
            origin=floors.mtu.origin,
        ),
        remedy=f"own interface refuses: raise its MTU; silence: check cable and peer, and give switch ports an MTU of {_SWITCH_MTU}",
        troubles=("0xSero/local-ai-registry PR#55", "kyuz0/amd-strix-halo-vllm-toolboxes#80"),
        reads=_read_pings,
        judge=_judge_pings,
    ),
)
