"""python3 of a practice node, for the two scripts that would need its rails and its model; every other runs as it is."""

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from rehearsal.faces import system, tree
from rehearsal.node import Node, Peer, Rail, read

_TRANSFER_S = 2.0  # of the line's seconds
_HASHING_S = 3.0
_WINDOW = 65_536  # bytes that a TCP stream sends before it waits for an answer


def answer(root: Path, _name: str, arguments: list[str]) -> int:
    """Answer by the marker that stands behind the script."""
    node = read(root)
    if "sparkctl-transfer" in arguments:
        return _transfer(node, json.loads(arguments[-1]))
    return _hash(node, arguments[-1])


def _hash(node: Node, folder: str) -> int:
    """Answer the hashing of the model's folder: every file that can be read, by its name below it."""
    time.sleep(_HASHING_S / node.pace)
    if tree.look(node, folder) is None:
        sys.stderr.write(f"FileNotFoundError: [Errno 2] No such file or directory: '{folder}'\n")
        return 1
    found = {
        path[len(folder.rstrip("/")) + 1 :]: tree.hashed(path, entry)
        for path, entry in tree.entries(node).items()
        if entry.kind == "f" and path.startswith(f"{folder.rstrip('/')}/")
    }
    sys.stdout.write(json.dumps({"probe": "model-hashes", "files": found}) + "\n")
    return 0


def _transfer(node: Node, plan: Any) -> int:
    """Answer the transfer: what each rail of the plan carries to its peer."""
    rows = [_carried(node, rail, plan) for rail in plan["rails"]]
    stalled = any(row["error"] for row in rows)
    time.sleep((plan["stall_s"] if stalled else _TRANSFER_S) / node.pace)
    sys.stdout.write(json.dumps({"probe": "transfer", "rails": rows}) + "\n")
    return 0


def _carried(node: Node, told: Any, plan: Any) -> dict[str, object]:
    own = _holding((node.self,), told["address"])
    far = _holding(node.peers, told["peer"])
    row = {"address": told["address"], "peer": told["peer"], "gbit_s": None, "bytes": 0, "error": ""}
    if own is None:
        where = f"{told['address']}:{told['port']}"
        return row | {"error": f"cannot listen on {where}: Cannot assign requested address"}
    if far is None or not (own.is_up and far.is_up and own.reaches(far.address)):
        where = f"{told['peer']}:{told['peer_port']}"
        return row | {"error": f"{where} was not there within {plan['wait_s']} s: timed out"}
    most = min(plan["most_bytes"], int(system.memory_kib(node.root)["MemAvailable"] * 1024 * plan["share"]))
    # Greetings are small; full segments vanish where the path passes less than both ends send.
    if min(own.path_mtu, far.path_mtu) < min(own.mtu, far.mtu):
        sent = _WINDOW * plan["streams"]
        return row | {"bytes": sent, "error": f"{told['peer']} confirmed 0 of {sent} bytes"}
    rate = min(own.link_gbit, far.link_gbit) * random.uniform(0.985, 1.0)  # noqa: S311 - a meter's jitter
    could = int(rate / 8 * 1e9 * plan["burst_s"] * plan["bursts"])
    return row | {"gbit_s": round(rate, 3), "bytes": min(most, could)}


def _holding(peers: tuple[Peer, ...], address: str) -> Rail | None:
    return next((rail for peer in peers for rail in peer.rails if rail.address == address), None)
