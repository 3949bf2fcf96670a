"""ibv_devinfo, ibdev2netdev and nmcli of a practice node: its RDMA adapters and who configured their interfaces."""

import sys
from pathlib import Path

from rehearsal.faces.kernel import MANAGEMENT
from rehearsal.node import Node, Rail, read

_SIZES = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
"""InfiniBand's numbers of its MTUs."""

_RUNTIME = "/run/NetworkManager/system-connections"


def answer(root: Path, name: str, arguments: list[str]) -> int:
    """Answer one of the commands."""
    said = {"ibv_devinfo": _ibv_devinfo, "ibdev2netdev": _ibdev2netdev, "nmcli": _nmcli}
    return said[name](read(root), arguments)


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
        sys.stdout.write(_hca(node, rail, 16 * node.rank + index + 1))
    return 0


def _hca(node: Node, rail: Rail, number: int) -> str:
    return (
        f"hca_id:\t{rail.hca}\n"
        "\ttransport:\t\t\tInfiniBand (0)\n"
        f"\tfw_ver:\t\t\t\t{node.traits.firmware}\n"
        f"\tnode_guid:\t\t\t0000:0000:0000:{number:04x}\n"
        f"\tsys_image_guid:\t\t\t0000:0000:0000:{number:04x}\n"
        "\tvendor_id:\t\t\t0x02c9\n"
        "\tvendor_part_id:\t\t\t4129\n"
        "\thw_ver:\t\t\t\t0x0\n"
        "\tboard_id:\t\t\tNVD0000000087\n"
        "\tphys_port_cnt:\t\t\t1\n"
        "\t\tport:\t1\n"
        f"\t\t\tstate:\t\t\t{'PORT_ACTIVE (4)' if rail.is_up else 'PORT_DOWN (1)'}\n"
        "\t\t\tmax_mtu:\t\t4096 (5)\n"
        f"\t\t\tactive_mtu:\t\t{rail.roce_mtu} ({_SIZES[rail.roce_mtu]})\n"
        "\t\t\tsm_lid:\t\t\t0\n"
        "\t\t\tport_lid:\t\t0\n"
        "\t\t\tport_lmc:\t\t0x00\n"
        "\t\t\tlink_layer:\t\tEthernet\n\n"
    )


def _ibdev2netdev(node: Node, arguments: list[str]) -> int:
    if arguments:
        sys.stdout.write("Usage: ibdev2netdev [-v]\n")
        return 1
    for rail in node.self.rails:
        state = "Up" if rail.is_up else "Down"
        sys.stdout.write(f"{rail.hca} port 1 ==> {rail.interface} ({state})\n")
    return 0


def _nmcli(node: Node, arguments: list[str]) -> int:
    """Answer `nmcli -f FIELD,... connection show`; every profile is netplan's, save one that somebody made by hand."""
    if len(arguments) != 4 or arguments[0] != "-f" or arguments[2] not in {"connection", "con", "c"}:
        sys.stderr.write(
            f"Error: argument '{(arguments or ['?'])[0]}' not understood. Try passing --help instead.\n"
        )
        return 2
    rows = [_profile(node, index, one) for index, one in enumerate(_connections(node))]
    fields = [field.strip().upper() for field in arguments[1].split(",")]
    if unknown := [field for field in fields if field not in rows[0]]:
        sys.stderr.write(f"Error: invalid field '{unknown[0]}'; allowed fields: {','.join(rows[0])}.\n")
        return 2
    lines = [{field: field for field in fields}, *rows]
    widths = {field: max(len(line[field]) for line in lines) for field in fields}
    for line in lines:
        sys.stdout.write("  ".join(line[field].ljust(widths[field]) for field in fields) + " \n")
    return 0


def _connections(node: Node) -> list[tuple[str, str, str]]:
    """Return name, interface and file of each profile."""
    names = [
        (f"netplan-{device}", device)
        for device in (MANAGEMENT, *(rail.interface for rail in node.self.rails))
    ]
    found = [(name, device, f"{_RUNTIME}/{name}.nmconnection") for name, device in names]
    if node.traits.runtime_profile:
        device = node.self.rails[-1].interface
        found[-1] = ("cx7-second", device, f"{_RUNTIME}/cx7-second.nmconnection")
    return found


def _profile(node: Node, index: int, told: tuple[str, str, str]) -> dict[str, str]:
    name, device, path = told
    return {
        "NAME": name,
        "UUID": f"00000000-0000-0000-0000-{16 * node.rank + index + 1:012d}",
        "TYPE": "ethernet",
        "DEVICE": device,
        "FILENAME": path,
    }
