"""cat, uname, hostname and sudo of a practice node; and its /proc/meminfo."""

import os
import re
import sys
import time
from pathlib import Path

from rehearsal.containers import load
from rehearsal.node import Node, keep_page_cache, page_cache_kib, read

# A fresh GB10 as public captures show it, in KiB.
_TOTAL = 127_600_412
_FREE = 121_944_516
_AVAILABLE = 122_303_908
_CACHED = 727_304
_ANON = 214_884
_KEPT_FREE = 2_600_000  # below this the kernel gives page cache back


def answer(root: Path, name: str, arguments: list[str]) -> int:
    """Answer one of the commands."""
    return {"cat": _cat, "uname": _uname, "hostname": _hostname, "sudo": _sudo}[name](root, arguments)


def memory_kib(root: Path) -> dict[str, int]:
    """Return the figures of /proc/meminfo that move: what ranks hold is gone, page cache shrinks before they starve."""
    used = load(root)
    held = (used.gpu_mib + used.host_mib) * 1024
    cache = max(0, min(page_cache_kib(root), _FREE - held - _KEPT_FREE))
    return {
        "MemFree": max(_FREE - held - cache, 500_000),
        "MemAvailable": max(_AVAILABLE - held - cache // 50, 100_000),
        "Cached": _CACHED + cache,
        "AnonPages": _ANON + used.host_mib * 1024,
    }


def _meminfo(root: Path) -> str:
    moving = memory_kib(root)
    lines = {
        "MemTotal": _TOTAL,
        "MemFree": moving["MemFree"],
        "MemAvailable": moving["MemAvailable"],
        "Buffers": 38_112,
        "Cached": moving["Cached"],
        "SwapCached": 0,
        "Active": 412_220,
        "Inactive": moving["Cached"] - 36_856,
        "SwapTotal": 16_777_212,
        "SwapFree": 16_777_212,
        "Dirty": 312,
        "AnonPages": moving["AnonPages"],
        "Mapped": 180_332,
        "Shmem": 11_020,
        "CmaTotal": 131_072,
        "CmaFree": 120_784,
    }
    return "".join(f"{key + ':':<15}{value:>9} kB\n" for key, value in lines.items())


def _cat(root: Path, arguments: list[str]) -> int:
    if "/proc/meminfo" not in arguments:
        os.execv("/bin/cat", ["cat", *arguments])  # noqa: S606 - the real tool for the node's real files
    status = 0
    for path in arguments:
        try:
            text = _meminfo(root) if path == "/proc/meminfo" else Path(path).read_text(encoding="utf-8")
        except OSError as fault:
            sys.stderr.write(f"cat: {path}: {fault.strerror}\n")
            status = 1
        else:
            sys.stdout.write(text)
    return status


def _uname(root: Path, arguments: list[str]) -> int:
    node = read(root)
    parts = {
        "s": "Linux",
        "n": node.name,
        "r": node.kernel,
        "v": "#32-Ubuntu SMP PREEMPT_DYNAMIC",
        "m": "aarch64",
        "o": "GNU/Linux",
    }
    letters = _letters(arguments) or "s"
    wrong = [letter for letter in letters if letter not in {*parts, "a"}]
    if wrong:
        sys.stderr.write(f"uname: invalid option -- '{wrong[0]}'\nTry 'uname --help' for more information.\n")
        return 1
    shown = [text for letter, text in parts.items() if letter in letters or "a" in letters]
    sys.stdout.write(" ".join(shown) + "\n")
    return 0


def _letters(arguments: list[str]) -> str:
    return "".join(argument.lstrip("-") for argument in arguments)


def _hostname(root: Path, arguments: list[str]) -> int:
    node = read(root)
    shown = {"": node.name, "-s": node.name, "-f": node.name, "-I": " ".join(_addresses(node))}
    asked = " ".join(arguments)
    if asked not in shown:
        sys.stderr.write("hostname: you must be root to change the host name\n")
        return 1
    sys.stdout.write(shown[asked] + "\n")
    return 0


def _addresses(node: Node) -> list[str]:
    return [node.self.management, *(rail.address for rail in node.self.rails)]


def _sudo(root: Path, arguments: list[str]) -> int:
    """Run a face, or empty the simulated page cache; anything else is refused as sudo refuses without a password.

    Note: passing other commands through would run them as whoever raised the cluster, root perhaps.
    """
    command = [one for one in arguments if one not in {"-n", "--non-interactive", "-E", "-H", "--"}]
    dropped = (
        re.search(r"echo\s+([123])\s*>\s*/proc/sys/vm/drop_caches", command[2])
        if _is_shell(command)
        else None
    )
    if dropped:
        if dropped[1] != "2":  # 2 frees slab objects alone
            keep_page_cache(root, 0)
        time.sleep(1.0 / read(root).pace)
        return 0
    if command and (root / "bin" / command[0]).is_file():
        tool = str(root / "bin" / command[0])
        os.execv(tool, [tool, *command[1:]])  # noqa: S606 - one of the node's own commands
    if command == ["true"]:
        return 0
    sys.stderr.write("sudo: a password is required\n" if command else "usage: sudo -h | -K | -k | -V\n")
    return 1


def _is_shell(command: list[str]) -> bool:
    return len(command) == 3 and command[0] in {"sh", "/bin/sh", "bash"} and command[1] == "-c"
