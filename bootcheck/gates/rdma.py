"""Gates on RDMA devices: each rail's is there and its own, active with the full MTU, with the firmware of the others."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from bootcheck.facts import NodeFacts, Unread
from bootcheck.gates.gate import Demand, NodeGate, ParityGate, Seen, View, reading
from bootcheck.gates.gid import gid_tables
from bootcheck.probes.rdma import Hca, Hcas, Pairs
from sparkctl.line import Rail

_ACTIVE, _ETHERNET = "PORT_ACTIVE", "Ethernet"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Devices:
    """Which interfaces belong to each device; `absent` are devices that are known not to be on the node."""

    interfaces: Mapping[str, frozenset[str]]
    absent: frozenset[str]


def _read_devices(facts: NodeFacts) -> _Devices | Unread:
    """Join the GID tables with ibdev2netdev, which speaks where a table names no interface."""
    tables = gid_tables(facts)
    pairs = facts.one(Pairs)
    if isinstance(tables, Unread) and isinstance(pairs, Unread):
        return tables
    known: dict[str, frozenset[str]] = {}
    absent: set[str] = set()
    if not isinstance(pairs, Unread):
        known = {one.hca: frozenset({one.interface}) for one in pairs.found}
    for table in () if isinstance(tables, Unread) else tables.values():
        if not table.is_present:
            absent.add(table.hca)
        elif named := frozenset(gid.interface for gid in table.gids if gid.interface):
            known[table.hca] = named
    return _Devices(interfaces=known, absent=frozenset(absent))


def _judge_devices(devices: _Devices, view: View) -> Seen:
    wrong = [said for rail in view.node.rails if (said := _misplaced(rail, devices))]
    unclear = [
        rail.hca
        for rail in view.node.rails
        if rail.hca not in devices.interfaces and rail.hca not in devices.absent
    ]
    if wrong:
        return Seen(verdict="fail", measured="; ".join(wrong), hint=_right_devices(view, devices))
    if unclear:
        return Seen(
            verdict="unknown",
            measured=f"no interface known of {', '.join(unclear)}",
            hint="run ibdev2netdev on the node",
        )
    return Seen(
        verdict="pass", measured=", ".join(f"{rail.hca} on {rail.interface}" for rail in view.node.rails)
    )


def _misplaced(rail: Rail, devices: _Devices) -> str:
    if rail.hca in devices.absent:
        return f"{rail.hca} is not on this node"
    named = devices.interfaces.get(rail.hca)
    if named is None or rail.interface in named:
        return ""
    return f"{rail.hca} belongs to {', '.join(sorted(named))}, not to {rail.interface}"


def _right_devices(view: View, devices: _Devices) -> str:
    right = [
        f"hca: {hca} for {rail.interface}"
        for rail in view.node.rails
        for hca, named in devices.interfaces.items()
        if rail.interface in named and hca not in devices.absent
    ]
    return f"put the device of each rail's own interface into the inventory ({', '.join(right) or 'ibdev2netdev lists them'})"


def _judge_ports(hcas: Hcas, view: View) -> Seen:
    wrong = [fault for rail in view.node.rails if (fault := _port_fault(rail, hcas, view))]
    whole = (port for rail in view.node.rails if (port := hcas.named(rail.hca)))
    return Seen(
        verdict="fail" if wrong else "pass",
        measured="; ".join(said for said, _ in wrong) or "; ".join(_describe(port) for port in whole),
        hint="; ".join(dict.fromkeys(hint for _, hint in wrong)),
    )


def _describe(port: Hca) -> str:
    return (
        f"{port.hca} {port.state}, active MTU {port.active_mtu} of {port.max_mtu}, firmware {port.firmware}"
    )


def _port_fault(rail: Rail, hcas: Hcas, view: View) -> tuple[str, str] | None:
    """Return what is wrong with a rail's port, with its remedy."""
    port = hcas.named(rail.hca)
    if port is None:
        others = ", ".join(one.hca for one in hcas.ports) or "none"
        return (
            f"no {rail.hca} among the RDMA devices ({others})",
            "put a device that is there into the inventory",
        )
    if port.state != _ACTIVE:
        remedy = f"no link on {rail.interface}: reseat its cable, see the port at the other end, and that the interface is up"
        return f"{_describe(port)}: the port is not active", remedy
    if port.link_layer != _ETHERNET:
        remedy = "set the port to Ethernet: mlxconfig, LINK_TYPE_P1=2, then a reboot"
        return f"{_describe(port)}: link layer {port.link_layer}, wanted {_ETHERNET}", remedy
    remedy = (
        f"give {rail.interface} an MTU of {view.floors.mtu.value:g} or more, as boot --apply does until the next reboot: "
        "RoCE's MTU follows it, the largest of 256 to 4096 that fits"
    )
    if port.active_mtu < view.floors.roce_mtu.value:
        return _describe(port), remedy
    found = _active_mtus(view)
    (common, times), *rest = Counter(found).most_common()
    if port.active_mtu != common or (rest and rest[0][1] == times):
        return f"{_describe(port)}: the line's ports have {', '.join(map(str, sorted(set(found))))}", remedy
    return None


def _active_mtus(view: View) -> tuple[int, ...]:
    """Active MTUs of all ranks' ports, without those that are too small anyway."""
    found = []
    for node, facts in view.scene.answering():
        hcas = facts.one(Hcas)
        ports = () if isinstance(hcas, Unread) else tuple(hcas.named(rail.hca) for rail in node.rails)
        found += [port.active_mtu for port in ports if port and port.state == _ACTIVE]
    return tuple(mtu for mtu in found if mtu >= view.floors.roce_mtu.value)


def _firmware(facts: NodeFacts) -> str | None:
    hcas = facts.one(Hcas)
    return (
        None if isinstance(hcas, Unread) else ", ".join(sorted({one.firmware for one in hcas.ports})) or None
    )


GATES = (
    NodeGate(
        name="hca",
        section="fabric",
        about="each rail's RDMA device is on the node and belongs to the rail's interface",
        demand=lambda _: Demand(
            wanted="the inventory's device on the inventory's interface",
            origin="a device whose port leads elsewhere pairs the wrong ones and hangs (eugr/spark-vllm-docker#40, reported)",
        ),
        remedy="ibdev2netdev on the node lists devices with their interfaces: put them into the inventory",
        troubles=("eugr/spark-vllm-docker#40", "NVIDIA/NemoClaw#8520"),
        reads=_read_devices,
        judge=_judge_devices,
    ),
    NodeGate(
        name="rdma",
        section="fabric",
        about="RDMA ports are active, and their MTU is enough and the same on all ranks",
        demand=lambda floors: Demand(
            wanted=f"active Ethernet ports with an active MTU of at least {floors.roce_mtu.value:g}, the same on all ranks",
            origin=floors.roce_mtu.origin,
        ),
        remedy="raise the interface's MTU, which RoCE's follows; sparkctl boot --apply does so until the next reboot",
        troubles=("0xSero/local-ai-registry PR#55", "NVIDIA/dgx-spark-playbooks PR#103"),
        reads=reading(Hcas),
        judge=_judge_ports,
    ),
    ParityGate(
        name="firmware-parity",
        section="parity",
        about="every rank's RDMA devices have the same firmware",
        demand=lambda _: Demand(
            wanted="the same firmware on every node",
            origin="a firmware capsule came with an MTU that had fallen back on one node only "
            "(tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#38, reported)",
        ),
        remedy="bring the node to the firmware of the others (fwupdmgr)",
        troubles=("NVIDIA/open-gpu-kernel-modules#1358",),
        reads=_firmware,
        worst="warn",
    ),
)
