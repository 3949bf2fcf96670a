"""The wires between the hosts: one bridge a network, a veth pair a port, and what may be wrong with a rail's cable.

The bridges stand in a namespace of their own, so that one veth end is all that this machine's own network sees.
Decided here as lines for `ip -batch` and `tc -batch`; the rack runs them.
"""

from dataclasses import dataclass

MANAGEMENT = "enP7s7"
JUMBO = 9000

# Made for these hosts only. A management network a rack, so that racks stand beside each other; rails never leave the
# namespaces, so every rack has the same.
_MANAGEMENT_NET = "10.77"
RAIL_NETS = ("10.78.1", "10.78.2")
CONTROLLER = 254

# A segment that the kernel has not cut yet is 64 KiB; a bucket below that would drop what a slow cable only delays.
_BURST = "256kb"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cable:
    """One rail of one host; the defaults are a healthy one."""

    mtu: int = JUMBO
    """Of the host's own interface."""
    path_mtu: int = JUMBO
    """Of the way between the host and the switch: what is larger vanishes without a word."""
    cap_mbit_s: int | None = None
    """Both ways."""
    is_plugged: bool = True
    has_address: bool = True


def management(block: int, number: int) -> str:
    """Return a management address of a rack; hosts count from 1."""
    return f"{_MANAGEMENT_NET}.{block}.{number}"


def controller_name(block: int) -> str:
    """Return the name of this machine's own end; the kernel refuses it a second time, which makes it the rack's lock."""
    return f"spark77-{block}"


def port(rank: int, rail: int) -> str:
    """Return the name of the switch's port of a rail."""
    return f"r{rail}h{rank}"


def bridges() -> tuple[str, ...]:
    """Make the bridges: one for management, one a rail."""
    names = ("management", *(f"rail{index}" for index in range(len(RAIL_NETS))))
    made = [f"link add {name} type bridge forward_delay 0" for name in names]
    return (*made, *(f"link set {name} up" for name in names), "link set lo up")


def controller(block: int, switch: int) -> tuple[str, ...]:
    """Lead a wire from this machine to the management bridge of the namespace of process `switch`."""
    name = controller_name(block)
    return (
        f"link add {name} type veth peer name controller netns {switch}",
        f"addr add {management(block, CONTROLLER)}/24 dev {name}",
        f"link set {name} up",
    )


def ports(rank: int, host: int, interfaces: tuple[str, ...]) -> tuple[str, ...]:
    """Wire the host whose first process is `host` to every bridge; run in the switch's namespace.

    A rail gets a bridge and a wire more, whose MTU can be lowered: a bridge drops what is too large for its way out
    without a word, as a switch does. A veth end would tell the sender (`No buffer space available`).
    """
    lines = list(_wire(f"m{rank}", MANAGEMENT, 1500, host, "management"))
    for index, interface in enumerate(interfaces):
        near = port(rank, index)
        lines += [
            f"link add {near}s type bridge forward_delay 0",
            f"link set {near}s up",
            *_wire(near, interface, JUMBO, host, f"{near}s"),
            f"link add {near}a mtu {JUMBO} type veth peer name {near}b mtu {JUMBO}",
            f"link set {near}a master {near}s up",
            f"link set {near}b master rail{index} up",
        ]
    return tuple(lines)


def _wire(near: str, interface: str, mtu: int, host: int, bridge: str) -> tuple[str, ...]:
    return (
        f"link add {near} mtu {mtu} type veth peer name {interface} mtu {mtu} netns {host}",
        f"link set {near} master {bridge} up",
    )


def addresses(address: str, rails: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Give a host its addresses; `rails` are (interface, address)."""
    wires = ((MANAGEMENT, address), *rails)
    return (
        "link set lo up",
        *(f"addr add {one}/24 dev {name}" for name, one in wires),
        *(f"link set {name} up" for name, _ in wires),
    )


def host_lines(cable: Cable, interface: str, address: str) -> tuple[str, ...]:
    """Bring a host's end of a rail to what the cable says."""
    lines = [f"link set dev {interface} mtu {cable.mtu}", f"addr flush dev {interface} scope global"]
    return (*lines, *([f"addr add {address}/24 dev {interface}"] if cable.has_address else []))


def switch_lines(cable: Cable, rank: int, rail: int) -> tuple[str, ...]:
    """Bring the switch's side of a rail to what the cable says."""
    near = port(rank, rail)
    return (
        *(f"link set dev {near}{end} mtu {cable.path_mtu}" for end in "ab"),
        f"link set dev {near} {'up' if cable.is_plugged else 'down'}",
    )


def cap_lines(before: Cable, cable: Cable, device: str) -> tuple[str, ...]:
    """Cap what leaves through `device`, or lift the cap."""
    if cable.cap_mbit_s:
        return (
            f"qdisc replace dev {device} root tbf rate {cable.cap_mbit_s}mbit burst {_BURST} latency 50ms",
        )
    return (f"qdisc del dev {device} root",) if before.cap_mbit_s else ()
