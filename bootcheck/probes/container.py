"""Containers of a node: the serving image by content, and what is left of this line."""

import json
from dataclasses import dataclass
from typing import Any, ClassVar

from bootcheck.facts import Record, Unread
from bootcheck.probes.probe import Probe


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The serving image on a node. `layers` is the content; `identity` may differ after save and load."""

    probe: ClassVar[str] = "image"

    reference: str
    is_present: bool
    identity: str = ""
    layers: tuple[str, ...] = ()
    architecture: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container of ours on a node; `since` is docker's own words, such as `Up 3 minutes`."""

    name: str
    state: str
    since: str
    rank: str
    boot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """All containers of this line on a node."""

    probe: ClassVar[str] = "containers"

    found: tuple[Container, ...]


def list_argv(line: str) -> tuple[str, ...]:
    """List every container of a line, running or not."""
    return (
        "docker",
        "ps",
        "-a",
        "--no-trunc",
        "--filter",
        f"label=sparkctl.line={line}",
        "--format",
        "{{json .}}",
    )


def parse_image(record: Record) -> Image | Unread:
    """Read `docker image inspect`; an image that is not there is a fact, a docker that does not answer is not."""
    reference = record.argv[-1]
    if record.rc != 0:
        if "no such image" in record.stderr.lower():
            return Image(reference=reference, is_present=False)
        return Unread(probe=record.probe, why=record.stderr.strip() or f"docker ended with {record.rc}")
    try:
        answer: Any = json.loads(record.stdout)
        return Image(
            reference=reference,
            is_present=True,
            identity=str(answer["Id"]),
            layers=tuple(str(layer) for layer in answer["RootFS"]["Layers"]),
            architecture=str(answer["Architecture"]),
        )
    except (ValueError, KeyError, TypeError):
        return Unread(probe=record.probe, why="not the JSON of docker image inspect", seen=record.stdout)


def parse_containers(record: Record) -> Containers | Unread:
    """Read `docker ps --format '{{json .}}'`, one JSON object a line."""
    if record.rc != 0:
        return Unread(probe=record.probe, why=record.stderr.strip() or f"docker ended with {record.rc}")
    try:
        rows: list[Any] = [json.loads(line) for line in record.stdout.splitlines() if line.strip()]
        found = tuple(_container(row) for row in rows)
    except (ValueError, KeyError, TypeError, AttributeError):
        return Unread(probe=record.probe, why="not the JSON lines of docker ps", seen=record.stdout)
    return Containers(found=found)


def _container(row: Any) -> Container:
    labels = dict(pair.split("=", 1) for pair in str(row["Labels"]).split(",") if "=" in pair)
    return Container(
        name=str(row["Names"]),
        state=str(row["State"]),
        since=str(row["Status"]),
        rank=labels.get("sparkctl.rank", ""),
        boot=labels.get("sparkctl.boot", ""),
    )


PROBES = (
    Probe(
        name="image",
        about="the serving image and its layers",
        argvs=lambda target: (("docker", "image", "inspect", "--format", "{{json .}}", target.needs.image),),
        parse=parse_image,
        limit_s=10,
    ),
    Probe(
        name="containers",
        about="containers of this line",
        argvs=lambda target: (list_argv(target.line.name),),
        parse=parse_containers,
        limit_s=10,
    ),
)
