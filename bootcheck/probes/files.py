"""Bind sources of a node: what they are, the file systems they lie on, and the files among them by hash."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from bootcheck.facts import Record, Unread, unread
from bootcheck.probes.probe import Argv, Probe, Target

_HASHED = re.compile(r"^(\\?)([0-9a-f]{64}) [ *](.+)$")
_ESCAPED = re.compile(r"\\(.)")
_REFUSED = re.compile(r"^(?:\S*/)?stat: [^']*'(.+)': (.+)$")
_KINDS = frozenset(
    {
        *("regular file", "regular empty file", "directory", "symbolic link", "fifo", "socket"),
        *("block special file", "character special file"),
    }
)
_STAT = ("stat", "-L", "-c", "%F|%s|%n")
_COLUMNS = ("TARGET", "SOURCE", "FSTYPE", "OPTIONS")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One bind source that is there: stat's word for what it is, and its size in bytes."""

    kind: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The recipe's bind sources on a node; `refused` says of each other one why stat cannot tell of it."""

    probe: ClassVar[str] = "mounts"

    found: Mapping[str, Source]
    refused: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filesystem:
    """Where one path lies: the mount point, what is mounted there, its kind and options."""

    probe: ClassVar[str] = "filesystems"

    path: str
    target: str
    source: str
    kind: str
    options: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Patches:
    """SHA-256 of every bind source that is a file."""

    probe: ClassVar[str] = "patches"

    files: Mapping[str, str]


def parse_mounts(record: Record) -> Sources | Unread:
    """Read `stat -L -c %F|%s|%n SOURCE...`; a source that is missing stands on stderr with its reason."""
    found: dict[str, Source] = {}
    for line in record.stdout.splitlines():
        kind, _, rest = line.partition("|")
        size, _, path = rest.partition("|")
        if kind not in _KINDS or not size.isdecimal() or len(size) > 18 or not path:
            return Unread(probe=record.probe, why="not the three fields stat was asked for", seen=line)
        found[path] = Source(kind=kind, size=int(size))
    rows = [row for line in record.stderr.splitlines() if (row := _REFUSED.match(line))]
    refused = {row[1]: row[2] for row in rows}
    untold = [one for one in record.argv[len(_STAT) :] if one not in found and one not in refused]
    if untold or not (found or refused):
        why = record.stderr.strip() or f"stat says nothing of {', '.join(untold) or 'anything'}"
        return unread(record, why)
    return Sources(found=found, refused=refused)


def parse_filesystem(record: Record) -> Filesystem | Unread:
    """Read `findmnt -J ... -T PATH`, or a plain table of several file systems; the path is the last word.

    findmnt follows links and answers for what the path leads to: /data for /srv/models/M, when that is a link to /data/M. Only in a
    table, which may be that of every file system, the path has to be looked up.
    """
    path = record.argv[-1]
    rows = _json_rows(record.stdout)
    covering = rows or [row for row in _table_rows(record.stdout) if _covers(row["target"], path)]
    if not covering or (rows and record.rc != 0):
        why = record.stderr.strip() or "no file system that covers the path in findmnt's output"
        return unread(record, why)
    row = covering[-1] if rows else max(covering, key=lambda one: len(one["target"]))
    return Filesystem(
        path=path, target=row["target"], source=row["source"], kind=row["fstype"], options=row["options"]
    )


def _json_rows(text: str) -> list[dict[str, str]]:
    try:
        told: Any = json.loads(text)
        return [{name.lower(): str(one[name.lower()]) for name in _COLUMNS} for one in told["filesystems"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []


def _table_rows(text: str) -> list[dict[str, str]]:
    lines = [line.split() for line in text.splitlines()]
    if not lines or tuple(lines[0]) != _COLUMNS:
        return []
    names = [name.lower() for name in _COLUMNS]
    return [dict(zip(names, row, strict=True)) for row in lines[1:] if len(row) == len(names)]


def _covers(target: str, path: str) -> bool:
    return target in {"/", path} or path.startswith(f"{target}/")


def parse_patches(record: Record) -> Patches | Unread:
    """Read `find SOURCE... -maxdepth 0 -type f -exec sha256sum {} +`; folders are no patches, missing ones another gate's."""
    files: dict[str, str] = {}
    for line in record.stdout.splitlines():
        row = _HASHED.match(line)
        if not row:
            return Unread(probe=record.probe, why="not a line of sha256sum", seen=line)
        files[_ESCAPED.sub(_unescape, row[3]) if row[1] else row[3]] = row[2]
    absent = ("No such file or directory", "Not a directory")
    other = [line for line in record.stderr.splitlines() if line.strip() and not line.endswith(absent)]
    if other:
        return unread(record, " ".join(other))
    return Patches(files=files)


def _unescape(found: re.Match[str]) -> str:
    return {"n": "\n", "r": "\r"}.get(found[1], found[1])


def _filesystems(target: Target) -> tuple[Argv, ...]:
    asked = dict.fromkeys((*target.needs.mounts, target.needs.model_folder))
    return tuple(("findmnt", "-J", "-o", ",".join(_COLUMNS), "-T", path) for path in asked if path)


def _of_sources(before: Argv, after: Argv = ()) -> Callable[[Target], tuple[Argv, ...]]:
    """Return what makes one command over all bind sources; none where the recipe binds nothing."""

    def argvs(target: Target) -> tuple[Argv, ...]:
        sources = tuple(target.needs.mounts)
        return ((*before, *sources, *after),) if sources else ()

    return argvs


PROBES = (
    Probe(
        name="mounts",
        about="what each bind source is: a file, a folder, or not there",
        argvs=_of_sources(_STAT),
        parse=parse_mounts,
        limit_s=10,
    ),
    Probe(
        name="filesystems",
        about="the file system that each bind source and the model lie on",
        argvs=_filesystems,
        parse=parse_filesystem,
        limit_s=10,
    ),
    Probe(
        name="patches",
        about="SHA-256 of every bind source that is a file",
        argvs=_of_sources(("find",), ("-maxdepth", "0", "-type", "f", "-exec", "sha256sum", "{}", "+")),
        parse=parse_patches,
        limit_s=60,
    ),
)
