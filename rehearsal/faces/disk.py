"""stat, find, sha256sum, findmnt and df of a practice node: the made-up tree under /srv, its mounts, and docker's room."""

import json
import sys
from pathlib import Path

from rehearsal.faces import real, tree
from rehearsal.faces.tree import Entry
from rehearsal.node import Node, read

_KINDS = {"d": "directory", "f": "regular file", "l": "symbolic link"}
_NFS = "rw,relatime,vers=4.2,rsize=1048576,wsize=1048576,hard,proto=tcp,timeo=600,sec=sys"
_MISSING = "No such file or directory"

Found = tuple[str, str, Entry]
"""Starting point, path, entry."""


def answer(root: Path, name: str, arguments: list[str]) -> int:
    """Answer one of the commands."""
    node = read(root)
    if name == "findmnt":
        return _findmnt(node, arguments)
    if name == "df":
        return _df(node, arguments)
    if not any(tree.is_own(node, word) for word in arguments):
        real.run(name, arguments)
    return {"stat": _stat, "find": _find, "sha256sum": _sha256sum}[name](node, arguments)


def _df(node: Node, arguments: list[str]) -> int:
    """Answer `df --block-size=1 --output=avail PATH` for the folder of docker."""
    if len(arguments) != 3 or arguments[:2] != ["--block-size=1", "--output=avail"]:
        sys.stderr.write("df: unrecognized option\nTry 'df --help' for more information.\n")
        return 1
    sys.stdout.write(f"{'Avail':>15}\n{int(node.traits.docker_free_gib * 1024**3):>15}\n")
    return 0


def _stat(node: Node, arguments: list[str]) -> int:
    """Answer `stat -L -c FORMAT PATH...`."""
    if len(arguments) < 4 or arguments[:2] != ["-L", "-c"]:
        sys.stderr.write("stat: missing operand\nTry 'stat --help' for more information.\n")
        return 1
    status = 0
    for path in arguments[3:]:
        entry = tree.look(node, path)
        if entry is None or entry.kind == "l":
            sys.stderr.write(f"stat: cannot statx '{path}': {_MISSING}\n")
            status = 1
            continue
        kind = _KINDS[entry.kind] if entry.size else "regular empty file"
        cells = {"%F": kind, "%s": str(entry.size), "%n": path}
        sys.stdout.write(_filled(arguments[2], cells) + "\n")
    return status


def _filled(form: str, cells: dict[str, str]) -> str:
    for mark, text in {**cells, "\\n": "\n", "\\0": "\0", "\\t": "\t"}.items():
        form = form.replace(mark, text)
    return form


def _find(node: Node, arguments: list[str]) -> int:
    """Answer find with -maxdepth, -mindepth, -type, and -printf or -exec sha256sum {} +; links are followed."""
    words = [word for word in arguments if word not in {"-L", "-H", "-P"}]
    cut = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    starts, tests = words[:cut], words[cut:]
    limits: dict[str, str] = {}
    form, hashes = "%p\\n", False
    while tests:
        word = tests.pop(0)
        if word in {"-maxdepth", "-mindepth", "-type"} and tests:
            limits[word] = tests.pop(0)
        elif word == "-printf" and tests:
            form = tests.pop(0)
        elif word == "-exec" and tests[:3] == ["sha256sum", "{}", "+"]:
            hashes, tests = True, tests[3:]
        else:
            sys.stderr.write(f"find: unknown predicate `{word}'\n")
            return 1
    status = 0
    for start in starts:
        if tree.look(node, start) is None:
            sys.stderr.write(f"find: '{start}': {_MISSING}\n")
            status = 1
            continue
        for found in _walk(node, start, limits):
            sys.stdout.write(_hashed(found) if hashes else _printed(form, found))
    return status


def _walk(node: Node, start: str, limits: dict[str, str]) -> list[Found]:
    """Return what find visits from a starting point, in its order: a folder before what it holds."""
    top = start.rstrip("/")
    there = {top: tree.look(node, top)}
    if tree.is_own(node, top):
        there |= {path: one for path, one in sorted(tree.entries(node).items()) if path.startswith(f"{top}/")}
    least, most = int(limits.get("-mindepth", "0")), int(limits.get("-maxdepth", "99"))
    return [
        (top, path, one)
        for path, one in there.items()
        if one is not None
        and least <= path[len(top) :].count("/") <= most
        and limits.get("-type", one.kind) == one.kind
    ]


def _printed(form: str, found: Found) -> str:
    top, path, entry = found
    cells = {
        "%y": entry.kind,
        "%s": str(entry.size),
        "%P": path[len(top) + 1 :],
        "%p": path,
        "%f": path.rpartition("/")[2],
    }
    return _filled(form, cells)


def _hashed(found: Found) -> str:
    _, path, entry = found
    return f"{tree.hashed(path, entry)}  {path}\n"


def _sha256sum(node: Node, arguments: list[str]) -> int:
    return hashes(node, [(path, path) for path in arguments if path != "--"])


def hashes(node: Node, files: list[tuple[str, str]]) -> int:
    """Print the hash of each file, given what it is called and where it lies on the node."""
    status = 0
    for shown, path in files:
        entry = tree.look(node, path)
        fault = (
            _MISSING if entry is None or entry.kind == "l" else "Is a directory" if entry.kind == "d" else ""
        )
        if fault or entry is None:
            sys.stderr.write(f"sha256sum: {shown}: {fault}\n")
            status = 1
            continue
        sys.stdout.write(f"{tree.hashed(path, entry)}  {shown}\n")
    return status


def _findmnt(node: Node, arguments: list[str]) -> int:
    """Answer `findmnt -J -o COLUMN,... -T PATH`; nothing and 1 where there is no such path."""
    if len(arguments) != 5 or arguments[:2] != ["-J", "-o"] or arguments[3] != "-T":
        sys.stderr.write("findmnt: bad usage\nTry 'findmnt --help' for more information.\n")
        return 1
    if tree.look(node, arguments[4]) is None:
        return 1
    mount = _mount(node, arguments[4])
    columns = arguments[2].lower().split(",")
    if unknown := [column for column in columns if column not in mount]:
        sys.stderr.write(f"findmnt: unknown column: {unknown[0].upper()}\n")
        return 1
    shown = {column: mount[column] for column in columns}
    sys.stdout.write(json.dumps({"filesystems": [shown]}, indent=3) + "\n")
    return 0


def _mount(node: Node, path: str) -> dict[str, str]:
    traits = node.traits
    root = {"target": "/", "source": "/dev/nvme0n1p2", "fstype": "ext4", "options": "rw,relatime"}
    for target, told in ((tree.MODELS, traits.model_filesystem), (tree.CACHE, traits.cache_filesystem)):
        is_root = (told.source, told.kind) == (root["source"], root["fstype"])
        if is_root or not f"{path}/".startswith(f"{target}/"):
            continue
        server = told.source.partition(":")[0]
        options = f"{_NFS},addr={server}" if told.kind.startswith("nfs") else root["options"]
        return {"target": target, "source": told.source, "fstype": told.kind, "options": options}
    return root
