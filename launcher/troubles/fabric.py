"""Fabric: NICs that vanish, links that die, addresses that nobody has, and NCCL on sockets."""

import re

from launcher.troubles.trouble import (
    Lines,
    Told,
    Trouble,
    compiled,
    every,
    has,
    listed,
    plain_address,
    worded,
)

_MIB = 1024**2

_PCI_LOST = compiled(
    r"mlx5_core (?P<function>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]): mlx5_pci_err_detected"
)
_FATAL = compiled(r"Uncorrectable \(Fatal\)")
_STUCK = compiled(r"soft lockup - (?P<cpu>CPU#[0-9]{1,4}) stuck for (?P<seconds>[0-9]{1,6})s!")

_COMPLETION = compiled(
    r"NCCL WARN NET/IB\s?: Got completion from peer (?P<peer>[0-9A-Fa-f.:]+)<[0-9]+> with status=(?P<status>IBV_WC_[A-Z_]+)"
    r"\((?P<code>[0-9]{1,3})\)"
)
TRANSFER_FAILED = compiled(
    r"NCCL WARN NET/IB\s?: .*(?:Got completion from peer (?!.*\bstatus=IBV_WC_SUCCESS\b)|Got CQE with error)"
)
"""NCCL's word that a transfer failed: it repeats nothing and may wait for ever afterwards."""

_RETRIES = compiled(r"NCCL WARN NET/IB\s?: .*IBV_WC_RETRY_EXC_ERR")
_SIZE = compiled(r"\breqSize=(?P<size>[0-9]{1,12}) ")
_LOCAL = compiled(r"\blocalGid (?P<local>\S+) ")
_HCA = compiled(r"\bhca (?P<hca>[A-Za-z][\w.-]*)$")

_RINGS = compiled(r"NCCL INFO Connected all rings")
_QP = compiled(r"NCCL WARN Call to ibv_modify_qp failed")
_QP_FIGURES = compiled(
    r"failed with (?P<errno>[0-9]{1,4}) (?P<why>[^,]{1,60}), on dev (?P<hca>[^\s:,]+):[0-9]+, .*local GID index (?P<index>[0-9]{1,3}), "
    r"local GID (?P<local>[0-9A-Fa-f.:]+), remote GID (?P<remote>[0-9A-Fa-f.:]+)(?![0-9A-Fa-f.:])"
)

_SOCKET_CHOSEN = compiled(r"NCCL INFO Using network Socket\b")
_SOCKET_OPENED = compiled(r"NCCL INFO NET/Socket\s?: Using ")
_IB_CHOSEN = compiled(r"NCCL INFO (?:Using network IB\b|NET/IB\s?: Using \[[0-9]+\])")
_SOCKET_ON = compiled(r"NET/Socket\s?: Using (?P<rails>\[[0-9]+\]\S.*)$")
_SOCKET_RAIL = compiled(r"\[[0-9]+\](?P<interface>[A-Za-z][\w.-]*):(?P<address>[0-9A-Fa-f.:]+)<[0-9]+>")
_NO_IB = compiled(r"NET/IB\s?: No device found")
_IB_USING = compiled(r"NCCL INFO NET/IB\s?: Using \[[0-9]+\]")
_IB_DEVICE = compiled(r"\[[0-9]+\](?P<device>[A-Za-z][\w.-]*):[0-9]+/(?P<link>RoCE|IB)(?![\w])")

_WATCHDOG = (
    r"\[Rank (?P<rank>[0-9]{1,4})\] Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=[0-9]+, "
    r"OpType=(?P<operation>[A-Z_]+), NumelIn=(?P<elements>[0-9]{1,9}), .*ran for (?P<waited_ms>[0-9]{1,9}) milliseconds "
    r"before timing out"
)

_SSH = compiled(
    r"\bssh: connect to host (?P<host>\S+) port (?P<port>[0-9]{1,5}): (?P<why>Connection timed out|No route to host)"
)


def _nic_lost(lines: Lines) -> Told | None:
    functions = tuple(dict.fromkeys(found["function"] for found in every(_PCI_LOST, lines)))
    if not functions:
        return None
    fatal = " after a fatal PCIe error" if has(_FATAL, lines) else ""
    said = f"the network card was lost{fatal}: {listed(functions)}"
    figures = {"functions": float(len(functions))}
    for stuck in every(_STUCK, lines)[:1]:
        said += f"; then {stuck['cpu']} was stuck for {stuck['seconds']} s"
        figures["stuck_s"] = float(stuck["seconds"])
    return Told(
        said=said,
        hint="the engine is not to blame: keep the kernel log before a reboot (journalctl -k), power the node off and on, and "
        "compare the card's firmware with the other nodes'",
        figures=figures,
    )


def _retries(lines: Lines) -> Told | None:
    found = [line for line in lines if _RETRIES.search(line)]
    if not found:
        return None
    line = found[0]
    peer, size, local, hca = (pattern.search(line) for pattern in (_COMPLETION, _SIZE, _LOCAL, _HCA))
    figures = {"bytes": float(size["size"])} if size else {}
    what = f"a message of {int(size['size']) / _MIB:.1f} MiB" if size else "a message"
    path = f" from {plain_address(local['local'])}" if local else ""
    path += f" over {hca['hca']}" if hca else ""
    path += f" to {peer['peer']}" if peer else ""
    return Told(
        said=f"NCCL got no acknowledgement of {what}{path}, after all retries",
        hint="large messages that die while small ones pass mean that one end fell back to a small MTU: sparkctl check compares "
        "it on every rail of every node; set it in netplan, so that a reboot keeps it",
        figures=figures,
    )


def _dead_link(lines: Lines) -> Told | None:
    failed = tuple(line for line in lines if TRANSFER_FAILED.search(line) and not _RETRIES.search(line))
    if not failed:
        return None
    hint = (
        "the link or the peer's NIC is gone, so nothing is being compiled, whatever shm_broadcast says: sparkctl down, then "
        "sparkctl check for rails, GIDs and MTU, then boot again"
    )
    for found in every(_COMPLETION, failed):
        said = f"NCCL's connection to {found['peer']} failed: {found['status']} ({found['code']})"
        return Told(said=said, hint=hint, figures={"code": float(found["code"])})
    return Told(said="an NCCL connection failed: completion queue error", hint=hint)


def _queue_pair(lines: Lines, *, after_rings: bool) -> Told | None:
    failed = [at for at, line in enumerate(lines) if _QP.search(line)]
    if not failed or has(_RINGS, lines[: failed[0]]) != after_rings:
        return None
    found = _QP_FIGURES.search(lines[failed[0]])
    ends, figures = "", {}
    if found:
        local, remote = plain_address(found["local"]), plain_address(found["remote"])
        ends = f" from {local} ({found['hca']}) to {remote}: {found['why']} ({found['errno']})"
        figures = {"errno": float(found["errno"]), "gid_index": float(found["index"])}
    if after_rings:
        return Told(
            said=f"the rings connected, then a tree wanted a link that a ring does not have:{ends or ' connection failed'}",
            hint="NCCL builds trees beside rings, and a ring of four or more nodes without a switch has no diagonal: use an NCCL "
            "build that makes rings only, or a switch",
            figures=figures,
        )
    index = f" (GID index {found['index']})" if found else ""
    return Told(
        said=f"a RoCE connection could not be made{ends}",
        hint=f"the GID{index} must be the rail's own RoCE v2 address on both nodes and the peer reachable on that rail: sparkctl "
        "check reads both",
        figures=figures,
    )


def _socket(lines: Lines) -> Told | None:
    # An NCCL that opens its sockets and then uses RDMA is sound; only one that chose them is not.
    opened = has(_SOCKET_OPENED, lines) and not has(_IB_CHOSEN, lines)
    if not has(_SOCKET_CHOSEN, lines) and not opened:
        return None
    on = [match for line in lines if (rails := _SOCKET_ON.search(line)) for match in _rails(rails["rails"])]
    where = f" on {listed(tuple(dict.fromkeys(on)))}" if on else ""
    why = "; it found no RDMA device" if has(_NO_IB, lines) else ""
    return Told(
        said=f"NCCL fell back to sockets{where}{why}: such a line serves, several times slower",
        hint="give the container /dev/infiniband (container.devices) and IPC_LOCK, name the rail's device in NCCL_IB_HCA, and set "
        "NCCL_NET=IB, which ends the boot instead of falling back",
    )


def _rails(text: str) -> tuple[str, ...]:
    return tuple(f"{found['interface']} ({found['address']})" for found in _SOCKET_RAIL.finditer(text))


def _rdma(lines: Lines) -> Told | None:
    using = [line for line in lines if _IB_USING.search(line)]
    devices: dict[str, str] = {
        found["device"]: found["link"] for line in using for found in re.finditer(_IB_DEVICE, line)
    }
    if not devices:
        return None
    return Told(
        said=f"NCCL uses {listed(tuple(sorted(set(devices.values()))))} over {listed(tuple(devices))}",
        hint="",
        figures={"devices": float(len(devices))},
    )


def _ssh(lines: Lines) -> Told | None:
    for found in every(_SSH, lines):
        return Told(
            said=f"SSH to {found['host']} (port {found['port']}) had no answer: {found['why']}",
            hint="ansible_host must be the management address, reachable from where sparkctl runs; fabric addresses belong under "
            "`fabric`, and nothing here changes netplan",
            figures={"port": float(found["port"])},
        )
    return None


NIC = (
    Trouble(
        name="nic-lost",
        read=_nic_lost,
        source="MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#146 (reported)",
    ),
)

TROUBLES = (
    Trouble(
        name="interface-unknown",
        read=worded(
            r"(?:gloo|ifa != nullptr).*Unable to find address for: ",
            exact=(
                (
                    r"Unable to find address for: (?P<interface>[A-Za-z][\w.-]*)$",
                    "this node has no address on an interface named {interface}",
                ),
            ),
            plain="this node has no address on the interface that Gloo was told to use",
            hint="interface names differ from node to node: give each its own under `fabric` in the inventory and write "
            "{fabric_interface} in the recipe",
        ),
        source="MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#4; vllm-project/vllm PR#40991 (reported)",
    ),
    Trouble(
        name="ray-address-unknown",
        read=worded(
            r"No available node types can fulfill resource request",
            exact=(
                (
                    r"resource request \{[^}]*'node:(?P<address>[0-9A-Fa-f.:]+)'",
                    "a placement group waits for node {address}, an address under which Ray knows no node",
                ),
            ),
            plain="a placement group waits for resources that Ray has on no node",
            hint="the default route won over the fabric: set VLLM_HOST_IP and Ray's node address to each node's fabric address",
        ),
        source="eugr/spark-vllm-docker#227; spark-arena/sparkrun PR#219 (reported)",
    ),
    Trouble(
        name="ring-without-diagonal",
        read=lambda lines: _queue_pair(lines, after_rings=True),
        source="MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks PR#3, PR#19; tonyd2wild/GLM-5.3-Int4-Int8Mix-TP4-4x-DGX-Spark#2 (reported)",
    ),
    Trouble(
        name="roce-unreachable",
        read=lambda lines: _queue_pair(lines, after_rings=False),
        source="MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#16 (reported)",
    ),
    Trouble(
        name="retries-exceeded",
        read=_retries,
        source="tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#38; NVIDIA/dgx-spark-playbooks#25 (reported)",
    ),
    Trouble(
        name="link-dead",
        read=_dead_link,
        source="eugr/spark-vllm-docker#169; MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#117 (reported)",
    ),
    Trouble(
        name="collective-timed-out",
        read=worded(
            r"Watchdog caught collective operation timeout",
            exact=(
                (
                    _WATCHDOG,
                    "rank {rank} waited {waited_s} s in {operation} of {elements} elements for a rank that did not come",
                ),
            ),
            plain="a rank waited in a collective, longer than its watchdog allows, for a rank that did not come",
            hint="most often the missing rank was compiling a new shape: its own log says so. Capture every batch size before the "
            "line is ready (graphs), and serve no shape that was not captured",
        ),
        source="MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#117; vllm-project/vllm#5484 (reported)",
    ),
    Trouble(name="ssh-no-answer", read=_ssh, source="spark-arena/sparkrun#67, #176, #208 (reported)"),
)

SLOW = (
    # The line serves, and much too slowly.
    Trouble(
        name="nccl-on-sockets",
        read=_socket,
        source="Project-HAMi/HAMi-core#261; mark-ramsey-ri/vllm-dgx-spark#1 (reported)",
    ),
)

NOTES = (Trouble(name="nccl-on-rdma", read=_rdma, source="NVIDIA/nccl, log of NET/IB", kind="information"),)
