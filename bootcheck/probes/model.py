"""The model's files on a node: by name and size, and on request by hash."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from bootcheck.facts import Record, Unread, unread
from bootcheck.probes.probe import Argv, Probe, Target

_FOUND = re.compile(r"^([a-zA-Z?])\|(\d{1,18})\|(.*)$")

# Reads in pieces and gives the page cache back piece by piece: a pass that filled it with 115 GB powered nodes off
# (reported).
HASH_SCRIPT = """
import hashlib, json, os, sys
root, size, found, walked = sys.argv[-1], 1 << 24, {}, set()
for folder, inner, names in os.walk(root, followlinks=True):
    if os.path.realpath(folder) in walked:
        inner[:] = []
        continue
    walked.add(os.path.realpath(folder))
    for name in sorted(names):
        path = os.path.join(folder, name)
        if not os.path.isfile(path):
            continue
        told, at = hashlib.sha256(), 0
        with open(path, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
            while chunk := file.read(size):
                told.update(chunk)
                at += len(chunk)
                # From the beginning: what is read ahead under one call may be given back under the next only.
                os.posix_fadvise(file.fileno(), 0, at, os.POSIX_FADV_DONTNEED)
        found[os.path.relpath(path, root)] = told.hexdigest()
print(json.dumps({"probe": "model-hashes", "files": found}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """The model's folder: sizes in bytes by path within it, links to nothing, and what find could not read."""

    probe: ClassVar[str] = "model-files"

    is_there: bool
    files: Mapping[str, int]
    dangling: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelHashes:
    """SHA-256 of every file of the model, by path within its folder."""

    probe: ClassVar[str] = "model-hashes"

    files: Mapping[str, str]


def parse_model_files(record: Record) -> ModelFiles | Unread:
    """Read `find -L FOLDER -printf %y|%s|%P`, whose first row is the folder itself; followed links show as what they lead to."""
    lines = record.stdout.splitlines()
    refused = tuple(line.removeprefix("find: ") for line in record.stderr.splitlines() if line.strip())
    if not lines:
        if any(line.endswith("No such file or directory") for line in refused):
            return ModelFiles(is_there=False, files={})
        why = " ".join(refused) or "find printed nothing, not even the folder"
        return Unread(probe=record.probe, why=why)
    rows = [_FOUND.match(line) for line in lines]
    if not all(rows) or not rows[0] or rows[0][3]:
        strange = next((line for line, row in zip(lines, rows, strict=True) if not row), lines[0])
        return Unread(probe=record.probe, why="not the rows find was asked for", seen=strange)
    told = [(row[1], int(row[2]), row[3]) for row in rows[1:] if row]
    return ModelFiles(
        is_there=True,
        files={path: size for kind, size, path in told if kind == "f"},
        dangling=tuple(path for kind, _, path in told if kind in {"l", "N", "L"}),
        refused=tuple(line for line in refused if "lost+found" not in line),
    )


def parse_model_hashes(record: Record) -> ModelHashes | Unread:
    """Read the last line of the hashing script."""
    lines = record.stdout.strip().splitlines()
    try:
        answer: Any = json.loads(lines[-1]) if record.rc == 0 and lines else None
        return ModelHashes(files={str(name): str(digest) for name, digest in answer["files"].items()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        said = (record.stderr.strip().splitlines() or ["not the JSON line of the hashing script"])[-1]
        return unread(record, said)


def _of_model(before: Argv, after: Argv = ()) -> Callable[[Target], tuple[Argv, ...]]:
    """Return what makes one command over the model's folder; none where no bind holds it."""

    def argvs(target: Target) -> tuple[Argv, ...]:
        folder = target.needs.model_folder
        return ((*before, folder, *after),) if folder else ()

    return argvs


PROBES = (
    Probe(
        name="model-files",
        about="name and size of every file of the model, and links to nothing",
        argvs=_of_model(("find", "-L"), ("-printf", r"%y|%s|%P\n")),
        parse=parse_model_files,
        limit_s=30,
    ),
    Probe(
        name="model-hashes",
        about="SHA-256 of every file of the model; gives the page cache back while it reads",
        argvs=_of_model(("python3", "-c", HASH_SCRIPT, "sparkctl-hash")),
        parse=parse_model_hashes,
        limit_s=7200,
        group="alone",
        only_if_quiet="gpu-processes",
        most_lines=1,
        on_request=True,
    ),
)
