"""cat, grep and ls of a practice node: its own kernel files and /dev/shm; for everything else the machine's own tool."""

import re
import sys
from pathlib import Path

from rehearsal.faces import kernel, real
from rehearsal.node import read

_SHARED = "/dev/shm"  # noqa: S108 - the node's shared memory, listed and never written to
_GREP_FLAGS = frozenset("rHvhsqi")
_SIZES = {"psm_": 1_073_741_824, "nccl-": 33_030_144, "sem.": 32}
_SEGMENT = 4_096


def answer(root: Path, name: str, arguments: list[str]) -> int:
    """Answer one of the commands."""
    return {"cat": _cat, "grep": _grep, "ls": _ls}[name](root, arguments)


def _cat(root: Path, arguments: list[str]) -> int:
    if not any(map(kernel.is_own, arguments)):
        real.run("cat", arguments)
    node = read(root)
    there = kernel.files(node) if any(path.startswith("/sys/") for path in arguments) else {}
    status = 0
    for path in arguments:
        try:
            is_own = kernel.is_own(path)
            text = kernel.text(node, there, path) if is_own else Path(path).read_text(encoding="utf-8")
        except OSError as fault:
            sys.stderr.write(f"cat: {path}: {fault.strerror}\n")
            status = 1
        else:
            sys.stdout.write(text)
    return status


def _grep(root: Path, arguments: list[str]) -> int:
    """Answer grep for one basic pattern over kernel files; 2 when a file could not be read, as the real one."""
    flags = {flag for one in arguments if one.startswith("-") for flag in one[1:]}
    pattern, *paths = [one for one in arguments if not one.startswith("-")] or [""]
    if not paths or not all(map(kernel.is_own, paths)):
        real.run("grep", arguments)
    if wrong := sorted(flags - _GREP_FLAGS):
        usage = "Usage: grep [OPTION]... PATTERNS [FILE]...\n"
        sys.stderr.write(f"grep: invalid option -- '{wrong[0]}'\n{usage}")
        return 2
    node = read(root)
    there = kernel.files(node)
    files = [file for path in paths for file in ("r" in flags and kernel.below(there, path)) or (path,)]
    named = "H" in flags or ("h" not in flags and len(files) > 1)
    wanted = re.compile(pattern, re.IGNORECASE if "i" in flags else 0)
    found = failed = False
    for file in files:
        try:
            lines = kernel.text(node, there, file).splitlines()
        except OSError as fault:
            failed = True
            if "s" not in flags:
                sys.stderr.write(f"grep: {file}: {fault.strerror}\n")
            continue
        shown = [line for line in lines if bool(wanted.search(line)) != ("v" in flags)]
        found = found or bool(shown)
        if "q" not in flags:
            sys.stdout.write("".join(f"{file}:{line}\n" if named else f"{line}\n" for line in shown))
    return 2 if failed else int(not found)


def _ls(root: Path, arguments: list[str]) -> int:
    paths = [one.rstrip("/") for one in arguments if not one.startswith("-")]
    flags = {flag for one in arguments if one.startswith("-") for flag in one[1:]}
    if paths != [_SHARED] or flags - set("la1"):
        real.run("ls", arguments)
    segments = read(root).traits.segments
    if "l" not in flags:
        sys.stdout.write("".join(f"{name}\n" for name in segments))
        return 0
    rows = [_segment(name) for name in segments]
    blocks = sum((size + 1023) // 1024 for size, _ in rows)
    sys.stdout.write(f"total {blocks}\n" + "".join(line for _, line in rows))
    return 0


def _segment(name: str) -> tuple[int, str]:
    """Return a segment's size in bytes and its line; what a container left belongs to root."""
    size = next((size for beginning, size in _SIZES.items() if name.startswith(beginning)), _SEGMENT)
    owner = "spark spark" if name.startswith("sem.") else "root root"
    return size, f"-rw------- 1 {owner} {size:>10} Nov 24 14:40 {name}\n"
