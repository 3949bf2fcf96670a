"""Ansible module: settle a node's memory where it matters: drop page cache, make contiguous blocks, say what that freed.

On a GB10 the page cache and the GPU share one memory: what the kernel caches, CUDA does not see as free, and a GPU page wants
2 MiB in one piece.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.spark_command import run

DOCUMENTATION = """
module: spark_cache
short_description: Drop the page cache, compact memory and report what was freed
description:
  - Reads C(/proc/meminfo) and C(/proc/buddyinfo). Drops the caches and compacts memory through C(sudo -n) when more than
    O(most_bytes) are cached or less than O(least_contiguous) of the free memory lies in blocks of 2 MiB or more; reads again.
  - Where sudo refuses, it asks the kernel to forget the files under O(paths), which needs no right but to read them.
  - A refused sudo is a result (RV(how), RV(reason)), because whether a boot goes on is not decided here.
author: [the sparkctl authors]
attributes:
  check_mode: {support: full, description: Reads, drops nothing and says whether it would.}
  diff_mode: {support: full, description: The page cache before and after.}
options:
  most_bytes: {type: int, required: true, description: Page cache of at most this size is left alone.}
  least_contiguous: {type: float, default: 0.5, description: Share of free memory in large blocks that is enough.}
  paths: {type: list, elements: path, default: [], description: Files and folders to forget where sudo refuses.}
  limit_s: {type: float, default: 60, description: Seconds that dropping may take.}
"""

EXAMPLES = """
- name: The page cache is small
  spark_cache:
    most_bytes: 1073741824
    paths: [/srv/models]
"""

RETURN = """
dropped: {description: Whether anything was dropped., returned: always, type: bool}
how: {description: "drop_caches, fadvise, or nothing.", returned: always, type: str}
reason: {description: "Why sudo did not drop the caches, empty if it did or need not.", returned: always, type: str}
note: {description: "Why nothing was done, if nothing had to be.", returned: always, type: str}
before: {description: "free_bytes, available_bytes, cached_bytes, contiguous_bytes (null if unknown).", returned: always, type: dict}
after: {description: The same afterwards., returned: always, type: dict}
freed_bytes: {description: By how much MemFree grew., returned: always, type: int}
"""

READ = ["cat", "/proc/meminfo"]
BLOCKS = ["cat", "/proc/buddyinfo"]
PAGE = ["getconf", "PAGESIZE"]
# One command, so that one sudo rule is enough.
SETTLE = "sync; echo 3 > /proc/sys/vm/drop_caches; echo 1 > /proc/sys/vm/compact_memory"
DROP = ["sudo", "-n", "sh", "-c", SETTLE]
READ_LIMIT_S = 5.0
GIB = 1024**3
LARGE = 2 * 1024**2


def sizes(meminfo: str) -> dict[str, int]:
    """Read free, available and cached bytes out of `/proc/meminfo`.

    Cached means what a drop could free: Shmem is counted in Cached by the kernel and stays (proc_meminfo(5)).

    Raises:
        ValueError: a line that is needed is missing or is not in kB.

    """
    kib = {}
    for line in meminfo.splitlines():
        name, _, value = line.partition(":")
        number, _, unit = value.strip().partition(" ")
        if unit == "kB" and number.isdigit():
            kib[name] = int(number)
    missing = [name for name in ("MemFree", "MemAvailable", "Cached", "Shmem") if name not in kib]
    if missing:
        raise ValueError(f"/proc/meminfo lacks {', '.join(missing)}")
    return {
        "free_bytes": kib["MemFree"] * 1024,
        "available_bytes": kib["MemAvailable"] * 1024,
        "cached_bytes": max(0, kib["Cached"] - kib["Shmem"]) * 1024,
    }


def contiguous(buddyinfo: str, page_bytes: int) -> int | None:
    """Return the free bytes that lie in blocks of 2 MiB or more; None where the text is no buddyinfo."""
    free = 0
    rows = [line.partition("zone")[2].split()[1:] for line in buddyinfo.splitlines() if "zone" in line]
    if not rows or not all(row and all(count.isdigit() for count in row) for row in rows):
        return None
    for row in rows:
        for order, count in enumerate(row):
            size = page_bytes << order
            free += int(count) * size if size >= LARGE else 0
    return free


def settle(
    most_bytes: int, least_contiguous: float, paths: list[str], limit_s: float, *, check_mode: bool
) -> dict[str, Any]:
    """Drop and compact where the memory needs it; return the module's answer.

    Raises:
        ValueError: the memory could not be read.

    """
    before = _read()
    if before["cached_bytes"] <= most_bytes and not _is_scattered(before, least_contiguous):
        why = f"page cache is {before['cached_bytes'] / GIB:.1f} GiB, up to {most_bytes / GIB:.1f} GiB is left alone"
        return _answer(before, before, "", "") | {"note": why}
    if check_mode:
        return _answer(before, before, "", "") | {"changed": True, "note": "check mode"}
    outcome = run(DROP, limit_s)
    if not outcome.rc:
        return _answer(before, _read(), "drop_caches", "")
    reason = f"{outcome.stderr.strip() or 'no word'} (rc {outcome.rc})"
    how = "fadvise" if forget(paths, limit_s) else ""
    return _answer(before, _read(), how, reason)


def _is_scattered(memory: dict[str, Any], least: float) -> bool:
    large = memory["contiguous_bytes"]
    return large is not None and large < least * memory["free_bytes"]


def forget(paths: list[str], limit_s: float) -> int:
    """Ask the kernel to drop the cached pages of every file under `paths`; return how many files that were.

    Only clean pages go, as those of weights that were read are. A file that may not be read is passed over, and what is not
    reached within `limit_s` stays.
    """
    count, until = 0, time.monotonic() + limit_s
    for path in _files(paths):
        if time.monotonic() > until:
            break
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            count += 1
        finally:
            os.close(descriptor)
    return count


def _files(paths: list[str]) -> Iterator[Path]:
    for path in map(Path, paths):
        if path.is_file():
            yield path
        for folder, _, names in os.walk(path):
            yield from (one for name in names if (one := Path(folder, name)).is_file())


def _read() -> dict[str, Any]:
    outcome = run(READ, READ_LIMIT_S)
    if outcome.rc:
        raise ValueError(f"{' '.join(READ)} ended with rc {outcome.rc}: {outcome.stderr.strip()}")
    page, blocks = run(PAGE, READ_LIMIT_S).stdout.strip(), run(BLOCKS, READ_LIMIT_S)
    known = page.isdigit() and not blocks.rc
    return sizes(outcome.stdout) | {
        "contiguous_bytes": contiguous(blocks.stdout, int(page)) if known else None
    }


def _answer(before: dict[str, Any], after: dict[str, Any], how: str, reason: str) -> dict[str, Any]:
    return {
        "changed": bool(how),
        "dropped": bool(how),
        "how": how,
        "reason": reason,
        "note": "",
        "before": before,
        "after": after,
        "freed_bytes": after["free_bytes"] - before["free_bytes"],
    }


def main() -> None:
    """Answer Ansible."""
    module = AnsibleModule(
        argument_spec={
            "most_bytes": {"type": "int", "required": True},
            "least_contiguous": {"type": "float", "default": 0.5},
            "paths": {"type": "list", "elements": "path", "default": []},
            "limit_s": {"type": "float", "default": 60.0},
        },
        supports_check_mode=True,
    )
    try:
        wanted = module.params
        answer = settle(
            wanted["most_bytes"],
            wanted["least_contiguous"],
            wanted["paths"],
            wanted["limit_s"],
            check_mode=module.check_mode,
        )
    except ValueError as fault:
        module.fail_json(msg=str(fault))
    shown = {
        side: f"page cache {answer[side]['cached_bytes'] / GIB:.1f} GiB\n" for side in ("before", "after")
    }
    module.exit_json(**answer, diff=shown)


if __name__ == "__main__":
    main()
