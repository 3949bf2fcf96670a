"""ip, ping and ibv_devinfo of a practice node."""

import json
import sys
import time
from pathlib import Path

from rehearsal.node import Node, Peer, Rail, read

_HEADERS = 28  # IPv4 and ICMP
_MANAGEMENT = "enP7s7"


def answer(root: Path, name: str, arguments: list[str]) -> int:
    """Answer one of the commands."""
    return {"ip": _ip, "ping": _ping, "ibv_devinfo": _ibv_devinfo}[name](read(root), arguments)


def _ip(node: Node, arguments: list[str]) -> int:
    asked = [one for one in arguments if one not in {"-4", "-d", "show"}]
    if asked not in (["-j", "addr"], ["-j", "a"], ["-j", "address"]):
        sys.stderr.write(f'Object "{(asked or ["?"])[-1]}" is unknown, try "ip help".\n')
        return 1
    links = [
        _link(1, Rail("lo", "127.0.0.1", "", 65536), 8),
        _link(2, Rail(_MANAGEMENT, node.self.management, "", 1500), 24),
        *(_link(3 + 2 * index, rail, 24) for index, rail in enumerate(node.self.rails)),
    ]
    sys.stdout.write(json.dumps(links, separators=(",", ":")) + "\n")
    return 0


def _link(index: int, rail: Rail, prefix: int) -> dict[str, object]:
    loopback = rail.interface == "lo"
    return {
        "ifindex": index,
        "ifname": rail.interface,
        "flags": ["LOOPBACK", "UP", "LOWER_UP"] if loopback else ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"],
        "mtu": rail.mtu,
        "qdisc": "noqueue" if loopback else "mq",
        "operstate": "UNKNOWN" if loopback else "UP",
        "group": "default",
        "txqlen": 1000,
        "link_type": "loopback" if loopback else "ether",
        "address": "00:00:00:00:00:00" if loopback else f"02:00:00:00:00:{index:02x}",
        "broadcast": "00:00:00:00:00:00" if loopback else "ff:ff:ff:ff:ff:ff",
        "addr_info": [_address(rail, prefix, loopback=loopback)],
    }


def _address(rail: Rail, prefix: int, *, loopback: bool) -> dict[str, object]:
    return {
        "family": "inet",
        "local": rail.address,
        "prefixlen": prefix,
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
    if own is None:
        return _unanswered(address, count, float(options["-W"]) / node.pace)
    whole = size + _HEADERS
    if whole > own.mtu and options["-M"] == "do":
        for _ in range(count):
            sys.stderr.write(f"ping: local error: message too long, mtu={own.mtu}\n")
        _summary(address, count, 0, f", +{count} errors", count * 512)
        return 1
    if far is None or whole > far.mtu:
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
    for peer in node.peers:
        for index, rail in enumerate(_interfaces(peer)):
            if rail.address == address:
                return _interfaces(node.self)[index], rail
    for rail in _interfaces(node.self):
        if rail.address.rpartition(".")[0] == address.rpartition(".")[0]:
            return rail, None
    return None, None


def _interfaces(peer: Peer) -> tuple[Rail, ...]:
    return (*peer.rails, Rail(_MANAGEMENT, peer.management, "", 1500))


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


def _ibv_devinfo(node: Node, arguments: list[str]) -> int:
    wanted = arguments[1] if len(arguments) == 2 and arguments[0] == "-d" else ""
    if arguments and not wanted:
        sys.stderr.write(f"ibv_devinfo: invalid option -- '{arguments[0].lstrip('-')[:1]}'\n")
        return 1
    rails = [rail for rail in node.self.rails if wanted in {"", rail.hca}]
    if not rails:
        sys.stderr.write(f"IB device '{wanted}' wasn't found\nNo IB devices found\n")
        return 255
    for index, rail in enumerate(rails):
        sys.stdout.write(_hca(rail, 16 * node.rank + index + 1))
    return 0


def _hca(rail: Rail, number: int) -> str:
    # RoCE takes the largest InfiniBand MTU that fits into the Ethernet one.
    active = "4096 (5)" if rail.mtu >= 4200 else "1024 (3)"
    return (
        f"hca_id:\t{rail.hca}\n"
        "\ttransport:\t\t\tInfiniBand (0)\n"
        "\tfw_ver:\t\t\t\t28.45.4028\n"
        f"\tnode_guid:\t\t\t0000:0000:0000:{number:04x}\n"
        f"\tsys_image_guid:\t\t\t0000:0000:0000:{number:04x}\n"
        "\tvendor_id:\t\t\t0x02c9\n"
        "\tvendor_part_id:\t\t\t4129\n"
        "\thw_ver:\t\t\t\t0x0\n"
        "\tboard_id:\t\t\tNVD0000000087\n"
        "\tphys_port_cnt:\t\t\t1\n"
        "\t\tport:\t1\n"
        "\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n"
        "\t\t\tmax_mtu:\t\t4096 (5)\n"
        f"\t\t\tactive_mtu:\t\t{active}\n"
        "\t\t\tsm_lid:\t\t\t0\n"
        "\t\t\tport_lid:\t\t0\n"
        "\t\t\tport_lmc:\t\t0x00\n"
        "\t\t\tlink_layer:\t\tEthernet\n\n"
    )
