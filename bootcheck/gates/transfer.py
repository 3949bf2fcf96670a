"""Gates on what the rails carry: the speed that a link has agreed on, and what a short real transfer makes of it."""

from collections import Counter
from statistics import median

from bootcheck.facts import NodeFacts, Unread
from bootcheck.gates.ends import End, ends, holding
from bootcheck.gates.gate import Demand, NodeGate, Scene, Seen, View, reading
from bootcheck.probes.ports import Ports
from bootcheck.probes.transfer import Transfer, Transfers


def _judge_speed(ports: Ports, view: View) -> Seen:
    """Judge each rail beside the same rail of the other nodes; -1 and silence are not known, which is worth a warning."""
    strange, told = [], []
    for number, rail in enumerate(view.node.rails):
        port = ports.named(rail.interface)
        speed = port.speed if port else None
        said = f"{rail.interface} {_gbit(speed)}"
        told.append(said)
        common = _commonest(_speeds(view.scene, number))
        if speed is None:
            strange.append(said)
        elif speed != common:
            strange.append(f"{said}, the other nodes' rail {number + 1} {_gbit(common)}")
    return Seen(verdict="warn" if strange else "pass", measured="; ".join(strange or told))


def _speeds(scene: Scene, number: int) -> list[int]:
    found = []
    for node, facts in scene.answering():
        ports = facts.one(Ports)
        port = None if isinstance(ports, Unread) else ports.named(node.rails[number].interface)
        if port and port.speed:
            found.append(port.speed)
    return found


def _commonest(speeds: list[int]) -> int | None:
    """Return the commonest speed, the faster of two that are equally common."""
    times = Counter(speeds)
    return max(times, key=lambda speed: (times[speed], speed), default=None)


def _gbit(speed: int | None) -> str:
    return "of unknown speed" if speed is None else f"{speed / 1000:g} Gb/s"


def _read_transfers(facts: NodeFacts) -> Transfers | Unread:
    """What a node's rails carried; on a line of one node nothing was asked, since there is nobody to send to."""
    return facts.one(Transfers) if facts.all(Transfers) else Transfers(rails=())


def _judge_transfers(transfers: Transfers, view: View) -> Seen:
    every = ends(view.scene)
    rows = [row for row in transfers.rails if _is_pair(row, every)]
    around = _around(view.scene, every)
    middle = median(rates) if (rates := [row.gbit_s for row in around if row.gbit_s]) else 0.0
    slow = [row for row in around if _is_slow(row, view.floors.transfer_share.value * middle)]
    absent = [row for row in rows if row.error and not row.sent]
    low = [row for row in rows if row.gbit_s and row.gbit_s < view.floors.transfer_gbit_s.value]
    left = len(transfers.rails) - len(rows)
    if bad := [row for row in rows if row in slow]:
        hint = "; ".join(dict.fromkeys(_degraded(row, slow, every) for row in bad))
        return Seen(verdict="fail", measured=_describe(bad, view, every, middle), hint=hint)
    if absent:
        said = "run the check again; if it stays away, see whether that node was asked and its firewall lets the port through"
        return Seen(verdict="unknown", measured="; ".join(row.error for row in absent), hint=said)
    if low:
        said = "every rail of the line is slow alike: see link speed, MTU and what else loads the nodes"
        return Seen(verdict="warn", measured=_describe(low, view, every, middle), hint=said)
    if not transfers.rails and len(view.scene.line.nodes) > 1:
        return Seen(verdict="unknown", measured="no transfer in the bundle", hint="run the check again")
    if left:
        said = f"{left} of {len(transfers.rails)} rails lead to no network that the next node shares"
        return Seen(
            verdict="warn", measured=said, hint="see what cabling says; those rails were not measured"
        )
    return Seen(verdict="pass", measured=_describe(rows, view, every, middle) or "one node, no fabric")


def _is_slow(row: Transfer, least: float) -> bool:
    """Whether a rail carried too little, or swallowed what was sent."""
    return bool((row.gbit_s and row.gbit_s < least) or (row.error and row.sent))


def _is_pair(row: Transfer, every: tuple[End, ...]) -> bool:
    """Whether both ends share a network as far as is known: over a router it would say nothing of the rail."""
    near, far = holding(every, row.address), holding(every, row.peer)
    return near is None or far is None or not (near.network and far.network) or near.joins(far)


def _around(scene: Scene, every: tuple[End, ...]) -> list[Transfer]:
    """What all rails of the line carried."""
    told = [facts.one(Transfers) for _, facts in scene.answering()]
    rows = [row for one in told if not isinstance(one, Unread) for row in one.rails]
    return [row for row in rows if _is_pair(row, every)]


def _describe(rows: list[Transfer], view: View, every: tuple[End, ...], middle: float) -> str:
    ports = view.facts.one(Ports)
    said = []
    for row in rows:
        near, far = holding(every, row.address), holding(every, row.peer)
        own = near.rail.interface if near else row.address
        port = None if isinstance(ports, Unread) else ports.named(own)
        rate = row.error if row.error or row.gbit_s is None else f"{row.gbit_s:.1f} Gb/s"
        whom = f"{row.peer} ({far.node})" if far else row.peer
        said.append(f"{own} to {whom}: {rate}, link {_gbit(port.speed if port else None)}")
    return f"{'; '.join(said)}; median of the line {middle:.1f} Gb/s" if said else ""


def _degraded(row: Transfer, slow: list[Transfer], every: tuple[End, ...]) -> str:
    """Name both ends of a slow way, or the one of them that other slow ways lead over too."""
    times = Counter(address for one in slow for address in (one.address, one.peer))
    most = max(times[row.address], times[row.peer])
    suspects = [address for address in (row.address, row.peer) if times[address] == most]
    found = [end for address in suspects if (end := holding(every, address))]
    names = " and ".join(f"{end.rail.interface} of {end.node}" for end in found)
    where = "between" if len(found) > 1 else "of"
    return f"degraded link: reseat or swap the cable {where} {names}, then power the nodes at its ends off and on"


GATES = (
    NodeGate(
        name="link-speed",
        section="fabric",
        about="the links of a rail have agreed on the same speed",
        demand=lambda _: Demand(
            wanted="a known link speed, the same on a whole rail",
            origin="ours: a collective is as fast as its slowest link",
        ),
        remedy="a link that is slower than the others has a bad cable or plug, or a switch port set to another speed",
        troubles=("NVIDIA/dgx-spark-playbooks#108",),
        reads=reading(Ports),
        judge=_judge_speed,
        worst="warn",
    ),
    NodeGate(
        name="transfer",
        section="fabric",
        about="a rail really carries what its link speed promises",
        demand=lambda floors: Demand(
            wanted=f"at least {floors.transfer_share.value:g} of the line's median and {floors.transfer_gbit_s.value:g} Gb/s",
            origin=f"{floors.transfer_share.value:g}: {floors.transfer_share.origin}; "
            f"{floors.transfer_gbit_s.value:g} Gb/s: {floors.transfer_gbit_s.origin}",
        ),
        remedy="degraded link: reseat or swap its cable, then power both nodes off and on",
        troubles=("NVIDIA/dgx-spark-playbooks#108", "NVIDIA/dgx-spark-playbooks#102"),
        needs_quiet=True,
        reads=_read_transfers,
        judge=_judge_transfers,
    ),
)
