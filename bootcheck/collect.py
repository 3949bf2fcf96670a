"""Collect: run probe.yml once over a line and turn what comes back into a bundle, and a bundle into facts."""

from collections.abc import Callable
from typing import Any

from bootcheck.facts import Bundle, NodeFacts, NodeRecords, Record, Unread
from bootcheck.probes import PROBES, Target, parse
from sparkctl import ansible, edge
from sparkctl.ansible import Answer
from sparkctl.line import Line, Node

Report = Callable[[Answer], None]


def tables(line: Line, image: str, mtu: int) -> dict[str, list[dict[str, object]]]:
    """Return each node's table of commands, as the module spark_probe takes it."""
    return {node.name: _table(line, node, image, mtu) for node in line.nodes}


def _table(line: Line, node: Node, image: str, mtu: int) -> list[dict[str, object]]:
    peers = tuple(rail.address for other in line.nodes if other is not node for rail in other.rails)
    target = Target(line=line.name, image=image, peer_addresses=peers, mtu=mtu)
    rows: list[dict[str, object]] = []
    for probe in PROBES:
        for argv in probe.argvs(target):
            row: dict[str, object] = {
                "probe": probe.name,
                "argv": list(argv),
                "limit_s": probe.limit_s,
                "group": probe.group,
            }
            if probe.only_if_quiet:
                row["only_if_quiet"] = {"probe": probe.only_if_quiet, "most_lines": probe.most_lines}
            rows.append(row)
    return rows


def collect(line: Line, image: str, mtu: int, report: Report = lambda _: None) -> Bundle:
    """Read every node of the line in one trip. Changes nothing; a node that does not answer is part of the bundle."""
    return bundle(line, ansible.run("probe", line, {"probe_tables": tables(line, image, mtu)}, report=report))


def bundle(line: Line, answers: tuple[Answer, ...]) -> Bundle:
    """Make a bundle of the answers of a playbook that ran spark_probe; later probes of a node replace earlier ones."""
    nodes: dict[str, NodeRecords] = {
        node.name: NodeRecords(unreachable="it was not asked", hint="run the check again")
        for node in line.nodes
    }
    for answer in answers:
        if answer.status in {"unreachable", "failed"}:
            said, hint = ansible.explain(answer)
            nodes[answer.host] = NodeRecords(unreachable=said, hint=hint)
        elif "probes" in answer.result:
            records = edge.structure(
                answer.result["probes"], tuple[Record, ...], source=f"spark_probe on {answer.host}"
            )
            nodes[answer.host] = NodeRecords(probes=records)
    return Bundle(nodes=nodes)


def facts(found: Bundle) -> tuple[NodeFacts, ...]:
    """Parse every record of a bundle."""
    return tuple(_node_facts(name, records) for name, records in found.nodes.items())


def _node_facts(name: str, records: NodeRecords) -> NodeFacts:
    read: dict[str, list[Any]] = {}
    for record in records.probes:
        read.setdefault(record.probe, []).append(parse(record))

    def one(probe: str) -> Any:
        return read.get(probe, [Unread(probe=probe, why="not in the bundle")])[0]

    return NodeFacts(
        node=name,
        memory=one("memory"),
        kernel=one("kernel"),
        gpu=one("gpu"),
        processes=one("gpu-processes"),
        links=one("links"),
        pings=tuple(read.get("jumbo-ping", ())),
        image=one("image"),
        containers=one("containers"),
        gemv=one("gemv"),
        unreachable=records.unreachable,
        hint=records.hint,
    )


def probe_commands(image: str, mtu: int) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Return every probe's name, what it is for and one example command, for `check --list-probes`."""
    target = Target(line="A", image=image, peer_addresses=("PEER",), mtu=mtu)
    return tuple((probe.name, probe.about, probe.argvs(target)[0]) for probe in PROBES)
