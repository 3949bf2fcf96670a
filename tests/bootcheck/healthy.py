"""A healthy line of four nodes as probe.yml would bring it home; tests of bootcheck and launcher start from it.

`healthy/<probe>.txt` is what the probe prints on a sound node. In it `$node`, `$rank`, `$if1`, `$addr1`, `$hca1`, `$if2`, `$addr2`,
`$hca2` and `$last` (the command's last word) stand for the node's own, `$gid1` and `$gid2` for its addresses in hexadecimal,
`$peer1` and `$peer2` for the next node's addresses; a sign `$` itself is written `$$`. A probe whose command
asks about one rail may have `healthy/<probe>.<n>.txt` for its nth command.
"""

import dataclasses
from collections.abc import Mapping
from ipaddress import IPv6Address
from pathlib import Path
from string import Template
from typing import Any

from bootcheck.facts import Context, NodeRecords, Record
from bootcheck.probes.probe import Target
from bootcheck.probes.table import PROBES
from sparkctl.line import Line, Node

FOLDER = Path(__file__).parent / "healthy"

Patch = Mapping[str, Mapping[str, Any]]


def records(context: Context, node: Node, patch: Patch) -> NodeRecords:
    """Return the records of one node, with what the patch says of single probes; an unreachable node has none."""
    if "unreachable" in patch:
        return NodeRecords(**patch["unreachable"])
    target = Target(line=context.line, node=node, needs=context.needs, floors=context.floors)
    asked = (
        (probe.name, place, argv)
        for probe in PROBES
        if probe.name not in context.left_out
        for place, argv in enumerate(probe.argvs(target), start=1)
    )
    return NodeRecords(
        probes=tuple(
            dataclasses.replace(
                _record(context.line, node, name, place, argv), **_change(patch.get(name, {}), place)
            )
            for name, place, argv in asked
        )
    )


def _change(patch: Mapping[str, Any], place: int) -> Mapping[str, Any]:
    """Return what is changed of a probe's nth command; `{"of": {"2": {...}}}` changes the second one alone."""
    if "of" in patch:
        found: Mapping[str, Any] = patch["of"].get(str(place), {})
        return found
    return patch


def _record(line: Line, node: Node, probe: str, place: int, argv: tuple[str, ...]) -> Record:
    own = FOLDER / f"{probe}.{place}.txt"
    path = own if own.exists() else FOLDER / f"{probe}.txt"
    values = {"node": node.name, "rank": str(node.rank), "last": argv[-1]}
    for number, rail in enumerate(node.rails, start=1):
        values |= {f"if{number}": rail.interface, f"addr{number}": rail.address, f"hca{number}": rail.hca}
        values[f"gid{number}"] = IPv6Address(f"::ffff:{rail.address}").exploded[-9:]
        values[f"peer{number}"] = line.nodes[(node.rank + 1) % len(line.nodes)].rails[number - 1].address
    stdout = Template(path.read_text(encoding="utf-8")).substitute(values)
    return Record(probe=probe, argv=argv, rc=0, stdout=stdout, stderr="", seconds=0.1)
