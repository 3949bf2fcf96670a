"""Inventory: an Ansible YAML inventory read into lines of nodes.

Ansible reads the same file. Its connection variables (`ansible_*`) may stand at every level and the nearest wins, as
they do for Ansible; every other key is ours and is checked. A group `line_a` is line A. docs/formats.md lists the keys.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sparkctl import edge
from sparkctl.errors import FileFault, UsageFault
from sparkctl.line import Line, Node, Rail

GROUP_PREFIX = "line_"

# Ansible reads more into other names: patterns, ranges, templates.
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")


# What the field tunes on these nodes; everything else is the owner's.
_SYSCTL = re.compile(r"^(?:vm|net)(?:\.[A-Za-z0-9_-]+)+$")
_SYSCTL_VALUE = re.compile(r"\A(?:-?\d+(?:\s+-?\d+)*|[A-Za-z][A-Za-z0-9_-]*)\Z", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """All lines of one inventory file."""

    path: Path
    lines: tuple[Line, ...]

    def line(self, name: str | None) -> Line:
        """Return the line called `name` (any case), or the only line when `name` is None."""
        if name is None and len(self.lines) == 1:
            return self.lines[0]
        for line in self.lines:
            if name is not None and line.name == name.upper():
                return line
        known = ", ".join(line.name for line in self.lines)
        if name is None:
            raise UsageFault(
                f"{self.path} has the lines {known}; none was named", hint="name one with --line"
            )
        raise UsageFault(
            f"line {name!r} is not in {self.path}, which has: {known}", hint="name one with --line"
        )


# The file's own shape, without Ansible's variables.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Host:
    rank: int
    fabric: tuple[Rail, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _GroupVars:
    recipe: str | None = None
    api_host: str | None = None
    api_port: int = 8000
    master_port: int = 29501
    floors: Mapping[str, float] = field(default_factory=dict)
    accept: tuple[str, ...] = ()
    sysctls: Mapping[str, int | str] = field(default_factory=dict)
    api_key_file: str | None = None

    def __post_init__(self) -> None:
        foreign = [name for name in self.sysctls if not _SYSCTL.match(name)]
        if foreign:
            raise ValueError(
                f"sysctls: {', '.join(foreign)} is not a setting that sparkctl applies; wanted vm.* or net.*"
            )
        for name, value in self.sysctls.items():
            if not _SYSCTL_VALUE.match(str(value)):
                wanted = "wanted whole numbers, or one word such as bbr"
                raise ValueError(f"sysctls: {name} is {str(value)[:40]!r}; {wanted}")
        for name, port in (("api_port", self.api_port), ("master_port", self.master_port)):
            _check_port(name, port)
        if self.api_port == self.master_port:
            raise ValueError(f"api_port and master_port are both {self.api_port}; wanted two ports")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    hosts: Mapping[str, _Host]
    vars: _GroupVars = field(default_factory=_GroupVars)


@dataclass(frozen=True, slots=True, kw_only=True)
class _AllVars:
    schema: Literal[1]
    known_hosts: str | None = None
    # Written by the practice cluster: its figures may only be taken at its own pace.
    practice: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _All:
    vars: _AllVars
    children: Mapping[str, _Group]


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    all: _All


@dataclass(frozen=True, slots=True, kw_only=True)
class _Connection:
    ansible_host: str
    ansible_port: int = 22
    ansible_user: str | None = None
    ansible_ssh_private_key_file: str | None = None

    def __post_init__(self) -> None:
        _check_port("ansible_port", self.ansible_port)


def _check_port(name: str, port: int) -> None:
    if not 1 <= port <= 65535:
        raise ValueError(f"{name}: wanted a port from 1 to 65535, found {port}")


def read(path: Path) -> Inventory:
    """Read an inventory.

    Raises:
        FileFault: the file is missing or wrong; all faults at once, each with its place.

    """
    raw = edge.read_raw(path)
    file = edge.structure(_without_ansible(raw), _File, source=str(path))
    lines = tuple(_line(path, raw, file.all.vars, name, group) for name, group in file.all.children.items())
    faults = [fault for line in lines for fault in _faults(line)]
    everyone = (
        (f"{node.name} of line {line.name}", f"{node.host}:{node.port}")
        for line in lines
        for node in line.nodes
    )
    if len(lines) > 1:
        faults += _shared("$.all.children", everyone, "ansible_host")
    if not lines:
        faults.append("$.all.children: wanted at least one group such as line_a, found none")
    if faults:
        raise FileFault(
            "\n".join(f"{path}: {fault}" for fault in faults),
            hint="inventory.example.yml shows a complete line",
        )
    return Inventory(path=path, lines=lines)


def _without_ansible(raw: Any) -> Any:
    if isinstance(raw, dict):
        return {
            key: _without_ansible(value)
            for key, value in raw.items()
            if not (isinstance(key, str) and key.startswith("ansible_"))
        }
    return raw


def _line(path: Path, raw: Any, shared: _AllVars, group_name: str, group: _Group) -> Line:
    nodes = [_node(path, raw, group_name, name, host) for name, host in group.hosts.items()]
    nodes.sort(key=lambda node: node.rank)
    known_hosts = _beside(path, shared.known_hosts)
    return Line(
        name=group_name.removeprefix(GROUP_PREFIX).upper()
        if group_name.startswith(GROUP_PREFIX)
        else group_name,
        nodes=tuple(nodes),
        recipe=group.vars.recipe,
        api_host=group.vars.api_host or (nodes[0].host if nodes else ""),
        api_port=group.vars.api_port,
        master_port=group.vars.master_port,
        floors=group.vars.floors,
        known_hosts=known_hosts,
        is_practice=shared.practice,
        accepted=group.vars.accept,
        sysctls={name: " ".join(str(value).split()) for name, value in group.vars.sysctls.items()},
        source=str(path.resolve()),
        api_key_file=_beside(path, group.vars.api_key_file),
    )


def _beside(path: Path, named: str | None) -> str | None:
    """Return where a file lies that the inventory names, relative to it."""
    return named and str(path.resolve().parent / Path(named).expanduser())


def _node(path: Path, raw: Any, group_name: str, name: str, host: _Host) -> Node:
    place = f"{path}: $.all.children.{group_name}.hosts.{name}"
    group = raw["all"]["children"][group_name]
    levels = (raw["all"].get("vars"), group.get("vars"), group["hosts"][name])
    wanted = _Connection.__dataclass_fields__
    found = {key: value for level in levels if level for key, value in level.items() if key in wanted}
    if "ansible_host" not in found:
        raise FileFault(
            f"{place}: the key ansible_host is missing",
            hint="give the node's management address; the fabric addresses stand under `fabric`",
        )
    connection = edge.structure(found, _Connection, source=place)
    key_file = connection.ansible_ssh_private_key_file
    return Node(
        name=name,
        rank=host.rank,
        host=connection.ansible_host,
        port=connection.ansible_port,
        user=connection.ansible_user,
        key_file=key_file and str(path.resolve().parent / Path(key_file).expanduser()),
        rails=host.fabric,
    )


def _faults(line: Line) -> Iterator[str]:
    group = f"$.all.children.{GROUP_PREFIX}{line.name.lower()}"
    for node in line.nodes:
        if not _NAME.match(node.name) or node.name in {"all", "ungrouped"}:
            yield f"{group}.hosts.{node.name}: wanted a name of letters, digits, dots and dashes, found {node.name!r}"
        if not _NAME.match(node.host.replace(":", "")):
            yield f"{group}.hosts.{node.name}.ansible_host: wanted a name or an address, found {node.host!r}"
    if not line.name.isalnum() or line.name != line.name.upper():
        yield f"$.all.children.{line.name}: wanted a group named {GROUP_PREFIX}<letter>, such as line_a"
        return
    if not line.nodes:
        yield f"{group}.hosts: wanted at least one host, found none"
        return
    yield from _rank_faults(group, line.nodes)
    for node in line.nodes:
        if not node.rails:
            yield f"{group}.hosts.{node.name}.fabric: wanted at least one fabric address, found none"
        if len(node.rails) != len(line.nodes[0].rails):
            first = line.nodes[0]
            yield (
                f"{group}.hosts.{node.name}.fabric: wanted {len(first.rails)} rails as {first.name} has, "
                f"found {len(node.rails)}"
            )
    yield from _shared(
        group, ((node.name, f"{node.host}:{node.port}") for node in line.nodes), "ansible_host"
    )
    rails = ((node.name, rail.address) for node in line.nodes for rail in node.rails)
    yield from _shared(group, rails, "fabric address")


def _rank_faults(group: str, nodes: tuple[Node, ...]) -> Iterator[str]:
    by_rank = Counter(node.rank for node in nodes)
    for rank, times in sorted(by_rank.items()):
        names = ", ".join(node.name for node in nodes if node.rank == rank)
        if times > 1:
            yield f"{group}: rank {rank} is given {times} times ({names}); wanted each rank once"
        if not 0 <= rank < len(nodes):
            yield f"{group}: rank {rank} ({names}) is outside 0 to {len(nodes) - 1}, the ranks of {len(nodes)} nodes"


def _shared(group: str, pairs: Iterator[tuple[str, str]], noun: str) -> Iterator[str]:
    owners: dict[str, list[str]] = {}
    for name, address in pairs:
        owners.setdefault(address, []).append(name)
    for address, names in owners.items():
        if len(names) > 1:
            yield f"{group}: {noun} {address} is given to {', '.join(names)}; wanted one node each"
