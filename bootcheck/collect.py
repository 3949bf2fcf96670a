"""Collect: run probe.yml once over a line and turn what comes back into a bundle, and a bundle into facts."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from bootcheck import redact
from bootcheck.facts import Bundle, Context, NodeFacts, NodeRecords, Record, Unread
from bootcheck.floors import Floors
from bootcheck.needs import Needs
from bootcheck.probes.probe import Target
from bootcheck.probes.table import PROBES, parse
from sparkctl import __version__, ansible, edge
from sparkctl.ansible import Answer
from sparkctl.line import Line, Node, Rail

Report = Callable[[Answer], None]

# The task of the probe role: where another one failed, the node was not looked at because a step before the look failed.
LOOK = "The raw facts are read"


def tables(context: Context) -> dict[str, list[dict[str, object]]]:
    """Return each node's table of commands, as the module spark_probe takes it."""
    return {node.name: _table(context, node) for node in context.line.nodes}


def _table(context: Context, node: Node) -> list[dict[str, object]]:
    target = Target(line=context.line, node=node, needs=context.needs, floors=context.floors)
    rows: list[dict[str, object]] = []
    for probe in PROBES:
        for argv in () if probe.name in context.left_out else probe.argvs(target):
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


def collect(context: Context, report: Report = lambda _: None) -> Bundle:
    """Read every node of the line in one trip. Changes nothing; a node that does not answer is part of the bundle."""
    return bundle(
        context, ansible.run("probe", context.line, {"probe_tables": tables(context)}, report=report)
    )


def look(  # noqa: PLR0913 - what a context holds, and whom to tell
    line: Line, needs: Needs, floors: Floors, at: str, names: Collection[str], *, report: Report
) -> Bundle:
    """Read what the probes of these names tell, and no other, from every node of the line in one trip."""
    left_out = tuple(probe.name for probe in PROBES if probe.name not in names)
    context = Context(at=at, version=__version__, line=line, needs=needs, floors=floors, left_out=left_out)
    return collect(context, report)


def bundle(context: Context, answers: tuple[Answer, ...]) -> Bundle:
    """Make a bundle of the answers of a playbook that ran spark_probe; secrets are withheld from here on."""
    nodes: dict[str, NodeRecords] = {
        node.name: NodeRecords(unreachable="it was not asked", hint="run the check again")
        for node in context.line.nodes
    }
    for answer in answers:
        if answer.status in {"unreachable", "failed"}:
            nodes[answer.host] = _fault(answer)
        elif "probes" in answer.result:
            records = edge.structure(
                answer.result["probes"], tuple[Record, ...], source=f"spark_probe on {answer.host}"
            )
            nodes[answer.host] = NodeRecords(probes=tuple(redact.record(one) for one in records))
    return Bundle(context=context, nodes=nodes)


def _fault(answer: Answer) -> NodeRecords:
    """Tell a node that did not let itself be looked at from one on which a step before the look failed."""
    said, hint = (redact.text(text) for text in ansible.explain(answer))
    if answer.status == "failed" and answer.task != LOOK:
        return NodeRecords(failed=f"{answer.task}: {said}", hint=hint)
    return NodeRecords(unreachable=said, hint=hint)


def merge(first: Bundle, again: Bundle) -> Bundle:
    """Return what is known after a second look that left some probes out: theirs are the first look's answers."""
    nodes = {}
    for name, records in again.nodes.items():
        kept = tuple(one for one in first.nodes[name].probes if one.probe in again.context.left_out)
        is_known = not (records.unreachable or records.failed)
        nodes[name] = replace(records, probes=(*records.probes, *kept)) if is_known else records
    left_out = tuple(one for one in again.context.left_out if one in first.context.left_out)
    return Bundle(context=replace(again.context, left_out=left_out), nodes=nodes)


def facts(found: Bundle) -> tuple[NodeFacts, ...]:
    """Parse every record of a bundle."""
    left_out = {
        name: (Unread(probe=name, why="left out", is_left_out=True),) for name in found.context.left_out
    }
    return tuple(_node_facts(name, records, left_out) for name, records in found.nodes.items())


def _node_facts(name: str, records: NodeRecords, left_out: Mapping[str, tuple[object, ...]]) -> NodeFacts:
    read: dict[str, tuple[object, ...]] = {}
    for record in records.probes:
        read[record.probe] = (*read.get(record.probe, ()), parse(record))
    return NodeFacts(
        node=name,
        read={**left_out, **read},
        unreachable=records.unreachable,
        failed=records.failed,
        hint=records.hint,
    )


def answered(found: Bundle, names: Collection[str]) -> frozenset[str]:
    """Return those of the named probes that every node answered readably."""
    by_node = [one.read for one in facts(found)]
    return frozenset(
        name
        for name in names
        if all(name in read and not any(isinstance(one, Unread) for one in read[name]) for read in by_node)
    )


def examples(floors: Floors) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Return every probe's name, what it is for and one example command, for `check --list-probes`.

    A probe that runs nothing, and is judged when a bundle holds it, has no words.
    """
    nodes = tuple(
        Node(
            name=f"node-{letter}",
            rank=rank,
            host=f"192.0.2.{rank + 10}",
            port=22,
            user=None,
            key_file=None,
            rails=(Rail(interface="IFACE", address=f"198.51.100.{rank + 10}", hca="HCA"),),
        )
        for rank, letter in enumerate("ab")
    )
    line = Line(
        name="A",
        nodes=nodes,
        recipe=None,
        api_host="192.0.2.10",
        api_port=8000,
        master_port=29501,
        floors={},
        known_hosts=None,
        source="",
    )
    needs = Needs(
        image="IMAGE",
        model_path="/models/MODEL",
        model_folder="/srv/models/MODEL",
        mounts={"/srv/models/MODEL": "/models/MODEL:ro"},
        environments={node.name: {} for node in nodes},
        arguments={node.name: () for node in nodes},
    )
    target = Target(line=line, node=nodes[0], needs=needs, floors=floors)
    return tuple((probe.name, probe.about, next(iter(probe.argvs(target)), ())) for probe in PROBES)
