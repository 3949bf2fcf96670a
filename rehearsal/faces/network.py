"""ip and ping of a practice node."""

import json
import os
import sys
import time
from pathlib import Path

from rehearsal.faces.kernel import MANAGEMENT
from rehearsal.node import Node, Peer, Rail, change, read

_HEADERS = 28  # IPv4 and ICMP


def answer(root: Path, name: str, arguments: list[str]) -> int:
    """Answer one of the commands."""
    return {"ip": _ip, "ping": _ping}[name](read(root), arguments)


def _ip(node: Node, arguments: list[str]) -> int:
    asked = [one for one in arguments if one not in {"-4", "-d", "show", "dev"}]
    if asked[:2] == ["link", "set"] and len(asked) == 5 and asked[3] == "mtu":
        return _set_mtu(node, asked[2], asked[4])
    if asked not in (["-j", "addr"], ["-j", "a"], ["-j", "address"]):
        sys.stderr.write(f'Object "{(asked or ["?"])[-1]}" is unknown, try "ip help".\n')
        return 1
    links = [
        _link(1, Rail("lo", "127.0.0.1", "", 65536, prefix=8)),
        _link(2, Rail(MANAGEMENT, node.self.management, "", 1500)),
        *(_link(3 + 2 * index, rail) for index, rail in enumerate(node.self.rails)),
    ]
    sys.stdout.write(json.dumps(links, separators=(",", ":")) + "\n")
    return 0


def _set_mtu(node: Node, interface: str, told: str) -> int:
    if interface not in {rail.interface for rail in node.self.rails}:
        sys.stderr.write(f'Cannot find device "{interface}"\n')
        return 1
    if "SUDO_UID" not in os.environ:
        sys.stderr.write("RTNETLINK answers: Operation not permitted\n")
        return 2
    change(node.root, lambda now: now._replace(mtu={**now.mtu, interface: int(told)}))
    return 0


def _link(index: int, rail: Rail) -> dict[str, object]:
    loopback = rail.interface == "lo"
    flags = ["BROADCAST", "MULTICAST", "UP"]
    flags = [*flags, "LOWER_UP"] if rail.is_up else ["NO-CARRIER", *flags]
    return {
        "ifindex": index,
        "ifname": rail.interface,
        "flags": ["LOOPBACK", "UP", "LOWER_UP"] if loopback else flags,
        "mtu": rail.mtu,
        "qdisc": "noqueue" if loopback else "mq",
        "operstate": "UNKNOWN" if loopback else "UP" if rail.is_up else "DOWN",
        "group": "default",
        "txqlen": 1000,
        "link_type": "loopback" if loopback else "ether",
        "address": "00:00:00:00:00:00" if loopback else f"02:00:00:00:00:{index:02x}",
        "broadcast": "00:00:00:00:00:00" if loopback else "ff:ff:ff:ff:ff:ff",
        "addr_info": [_address(rail, loopback=loopback)],
    }


def _address(rail: Rail, *, loopback: bool) -> dict[str, object]:
    return {
        "family": "inet",
        "local": rail.address,
        "prefixlen": rail.prefix,
        "scope": "host" if loopback else "global",
        "label": rail.interface,
        "valid_life_time": 4294967295,
        "preferred_life_time": 4294967295,
    }


def _ping(node: Node, arguments: list[str]) -> int:
    options = {"-M": "want", "-s": "56", "-c": "4", "-i": "1", "-W": "10"}
    rest = list(arguments)
    address = ""
    while rest:
        one = rest.pop(0)
        if one in options and rest:
            options[one] = rest.pop(0)
        elif one.startswith("-") or address:
            sys.stderr.write(
                f"ping: invalid option -- '{one.lstrip('-')[:1]}'\n\nUsage\n  ping [options] <destination>\n"
            )
            return 2
        else:
            address = one
    if not address:
        sys.stderr.write("ping: usage error: Destination address required\n")
        return 2
    return _echo(node, address, options)


def _echo(node: Node, address: str, options: dict[str, str]) -> int:
    size, count = int(options["-s"]), int(options["-c"])
    own, far = _ends(node, address)
    sys.stdout.write(f"PING {address} ({address}) {size}({size + _HEADERS}) bytes of data.\n")
    if own is None or not own.is_up:
        return _unanswered(address, count, float(options["-W"]) / node.pace)
    whole = size + _HEADERS
    if whole > own.mtu and options["-M"] == "do":
        for _ in range(count):
            sys.stderr.write(f"ping: local error: message too long, mtu={own.mtu}\n")
        _summary(address, count, 0, f", +{count} errors", count * 512)
        return 1
    if far is None or not far.is_up or whole > min(far.mtu, own.path_mtu, far.path_mtu):
        return _unanswered(address, count, float(options["-W"]) / node.pace)
    times = [0.412 - 0.014 * (index % 3) for index in range(count)]
    for index, took in enumerate(times):
        sys.stdout.write(f"{size + 8} bytes from {address}: icmp_seq={index + 1} ttl=64 time={took:.3f} ms\n")
    wait_s = float(options["-i"]) * (count - 1)
    time.sleep(wait_s / node.pace)
    _summary(address, count, count, "", int(wait_s * 1000) + 1)
    mean = sum(times) / count
    spread = (sum((one - mean) ** 2 for one in times) / count) ** 0.5
    sys.stdout.write(f"rtt min/avg/max/mdev = {min(times):.3f}/{mean:.3f}/{max(times):.3f}/{spread:.3f} ms\n")
    return 0


def _ends(node: Node, address: str) -> tuple[Rail | None, Rail | None]:
    """Return our interface towards an address and the one that holds it; None where there is none."""
    ways = [(at, rail) for at, rail in enumerate(_interfaces(node.self)) if rail.reaches(address)]
    for peer in node.peers:
        for at, rail in enumerate(_interfaces(peer)):
            if rail.address == address:
                # Where both rails lie in one subnet, the packet goes out on the rail of the same place.
                return dict(ways).get(at, ways[0][1] if ways else None), rail
    return (ways[0][1] if ways else None), None


def _interfaces(peer: Peer) -> tuple[Rail, ...]:
    return (*peer.rails, Rail(MANAGEMENT, peer.management, "", 1500))


def _unanswered(address: str, count: int, wait_s: float) -> int:
    time.sleep(wait_s)
    _summary(address, count, 0, "", count * 1021)
    return 1


def _summary(address: str, sent: int, received: int, errors: str, took_ms: int) -> None:
    loss = 100 * (sent - received) // max(sent, 1)
    sys.stdout.write(f"\n--- {address} ping statistics ---\n")
    sys.stdout.write(
        f"{sent} packets transmitted, {received} received{errors}, {loss}% packet loss, time {took_ms}ms\n"
    )
