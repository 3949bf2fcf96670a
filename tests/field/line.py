"""Judges of what nodes print: the text stands on a node of an otherwise sound line, and every gate judges that line.

The line is the example inventory's with the recipe that ships. A judge translates and never judges.
"""

import dataclasses
import functools
import json
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import field_healthy as healthy
import yaml
from field_catalogue import RAW, Outcome
from field_forms import FORMS, Own

from bootcheck import collect, gates
from bootcheck.facts import Bundle, Context, Record
from bootcheck.floors import Floors
from bootcheck.needs import ModelFile, Needs
from launcher import survey
from launcher.recipe import Recipe
from sparkctl import ansible, edge, inventory
from sparkctl.ansible import Answer
from sparkctl.errors import FileFault
from sparkctl.line import Line, Node, Rail

ROOT = Path(__file__).parents[2]

Given = Mapping[str, Any]


@functools.cache
def example() -> Line:
    """Line A of the example inventory."""
    return inventory.read(ROOT / "inventory.example.yml").line("A")


@functools.cache
def recipe() -> Recipe:
    """The recipe of V4.1-Flash on four nodes."""
    return edge.read(ROOT / "recipes" / "v41-flash-exl3-tp4.yml", Recipe)


def judge_line(text: str, given: Given) -> list[Outcome]:
    """Put the text on one node or on all as what a probe printed.

    `at` says where: `{node or every: {probe: {form, its options, nth, file or stdout}}}`. `size` cuts the line to its first
    nodes; `rails`, `environment`, `files` and `compose` make line and recipe fit the text.
    """
    known = _context(given, text)
    answers = []
    for name, placed in _places(known, given).items():
        node = next(one for one in known.line.nodes if one.name == name)
        records = list(healthy.records(known, node, {}).probes)
        for probe, spec in placed.items():
            records = _placed(records, probe, spec, node, text)
        answers.append(_answer(name, records))
    return _judged(known, given, answers)


def _context(given: Given, text: str = "") -> Context:
    line = example()
    nodes = [
        _railed(node, given.get("rails", {})) for node in line.nodes[: given.get("size", len(line.nodes))]
    ]
    cut = dataclasses.replace(line, nodes=tuple(nodes))
    known = survey.context(cut, recipe(), Floors(), "2026-11-29T12:00:00Z")
    return dataclasses.replace(known, needs=_needs(known.needs, given, text))


def _railed(node: Node, rails: Given) -> Node:
    """Return the node with other rails: `[interface, device, address]` each; an address that ends in `+` counts on by rank."""
    told = rails.get(node.name, rails.get("every"))
    if not told:
        return node
    made = []
    for interface, hca, address in told:
        network, _, last = address.rpartition(".")
        own = f"{network}.{int(last.removesuffix('+')) + node.rank}" if last.endswith("+") else address
        made.append(Rail(interface=interface, hca=hca, address=own))
    return dataclasses.replace(node, rails=tuple(made))


def _needs(needs: Needs, given: Given, text: str) -> Needs:
    """Return the recipe's needs with variables, model files, or a compose file's settings in it."""
    more, shared = dict(given.get("environment", {})), needs.shared_gib
    if given.get("compose"):
        service = next(iter(yaml.safe_load(text)["services"].values()))
        shared = int(service["shm_size"].removesuffix("gb"))
        # `${NAME:-}` is the empty text where nobody set NAME.
        more |= {name: re.sub(r"\$\{\w+:-\}", "", value) for name, value in service["environment"].items()}
    return dataclasses.replace(
        needs,
        shared_gib=shared,
        environments={node: env | more for node, env in needs.environments.items()},
        files={path: ModelFile() for path in given.get("files", ())},
    )


def _places(known: Context, given: Given) -> dict[str, Given]:
    """Return what is put on each node that anything is put on."""
    told = given.get("at", {})
    every = {node.name: {**told.get("every", {}), **told.get(node.name, {})} for node in known.line.nodes}
    return {name: placed for name, placed in every.items() if placed}


def _placed(records: list[Record], probe: str, spec: Given, node: Node, text: str) -> list[Record]:
    """Return the records with those of one probe changed: all of them, or the nth one alone."""
    own = [one for one in records if one.probe == probe]
    if not own:
        # A probe that is judged when a bundle holds it, and never run by sparkctl.
        own = [Record(probe=probe, argv=(probe,), rc=0, stdout="", stderr="", seconds=1.0)]
    changed = [
        dataclasses.replace(one, **_change(one, spec, node, text)) if spec.get("nth", place) == place else one
        for place, one in enumerate(own, start=1)
    ]
    return [*(one for one in records if one.probe != probe), *changed]


def _change(sound: Record, spec: Given, node: Node, text: str) -> Mapping[str, Any]:
    if "stdout" in spec:
        return {"stdout": spec["stdout"]}
    told = (RAW / spec["file"]).read_text(encoding="utf-8") if "file" in spec else text
    return FORMS[spec.get("form", "plain")](told, Own(node=node, sound=sound, given=spec))


def _answer(host: str, records: Iterable[Record]) -> Answer:
    """Return what spark_probe brings home of a node."""
    probes = [{**dataclasses.asdict(one), "argv": list(one.argv)} for one in records]
    return Answer(
        host=host,
        task="probe",
        status="ok",
        changed=False,
        message="",
        seconds=1.0,
        result={"probes": probes},
    )


@functools.cache
def _sound(shape: str) -> Bundle:
    """Return the bundle of a sound line of that shape."""
    known = _context(json.loads(shape))
    answers = (_answer(node.name, healthy.records(known, node, {}).probes) for node in known.line.nodes)
    return collect.bundle(known, tuple(answers))


def _judged(known: Context, given: Given, answers: list[Answer]) -> list[Outcome]:
    """Judge the nodes that answered beside sound ones; all came in by the door through which probe.yml's answers come."""
    sound = _sound(json.dumps({name: given[name] for name in ("rails", "size") if name in given}))
    placed = collect.bundle(known, tuple(answers)).nodes
    nodes = {**sound.nodes, **{one.host: placed[one.host] for one in answers}}
    found = gates.judge(survey.scene(Bundle(context=known, nodes=nodes)))
    return [
        Outcome(by=one.gate, verdict=one.verdict, said=one.measured, hint=one.hint, node=one.node)
        for one in found
    ]


def judge_answer(text: str, given: Given) -> list[Outcome]:
    """Take the text as Ansible's event of one node; the others' answers are good."""
    if text.startswith("fatal:"):
        result = json.loads(text.partition("=> ")[2])
        told: Any = {"event": "runner_on_failed", "event_data": {"task": "probe", "res": result}}
    else:
        told = json.loads(text)
    told["event_data"]["host"] = given["node"]
    found = ansible._answer(told)
    assert found is not None
    # Whatever the task was called where the text comes from, it is our look at the node that was answered so.
    return _judged(_context({}), {}, [dataclasses.replace(found, task=collect.LOOK)])


def judge_ini(text: str, _: Given) -> list[Outcome]:
    """Write the rows of an INI inventory as sparkctl has them; every fault of the file is an outcome."""
    hosts = {}
    for name, *cells in (row.split() for row in text.split("[spark]")[1].splitlines() if row.strip()):
        told = dict(cell.split("=", 1) for cell in cells)
        rail = {
            "interface": told["fabric_if"],
            "address": told["fabric_ip"],
            "hca": told["hca"].split(",")[0],
        }
        hosts[name] = {"rank": int(told["rank"]), "ansible_host": told["ansible_host"], "fabric": [rail]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "inventory.yml"
        path.write_text(
            yaml.safe_dump({"all": {"vars": {"schema": 1}, "children": {"line_a": {"hosts": hosts}}}}),
            encoding="utf-8",
        )
        try:
            inventory.read(path)
        except FileFault as fault:
            lines = fault.message.splitlines()
            return [Outcome(by="inventory", verdict="fail", said=one, hint=fault.hint) for one in lines]
    return []


JUDGES = {"line": judge_line, "answer": judge_answer, "ini": judge_ini}
