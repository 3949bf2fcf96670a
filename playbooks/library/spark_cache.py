"""Ansible module: drop a node's page cache where there is enough of it to matter, and say what that freed.

On a GB10 the page cache and the GPU share one memory: what the kernel caches, CUDA does not see as free.
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.spark_command import run

DOCUMENTATION = """
module: spark_cache
short_description: Drop the page cache and report what was freed
description:
  - Reads C(/proc/meminfo), drops the caches through C(sudo -n) when more than O(most_bytes) are cached, reads again.
  - A refused sudo is a result (RV(dropped=false), RV(reason)), because whether a boot goes on is not decided here.
author: [the sparkctl authors]
attributes:
  check_mode: {support: full, description: Reads, drops nothing and says whether it would.}
  diff_mode: {support: full, description: The page cache before and after.}
options:
  most_bytes: {type: int, required: true, description: Page cache of at most this size is left alone.}
  limit_s: {type: float, default: 60, description: Seconds that dropping may take.}
"""

EXAMPLES = """
- name: The page cache is small
  spark_cache:
    most_bytes: 1073741824
"""

RETURN = """
dropped: {description: Whether the caches were dropped., returned: always, type: bool}
reason: {description: Why they were not dropped., returned: always, type: str}
before: {description: free_bytes available_bytes and cached_bytes before., returned: always, type: dict}
after: {description: The same afterwards., returned: always, type: dict}
freed_bytes: {description: By how much MemFree grew., returned: always, type: int}
"""

READ = ["cat", "/proc/meminfo"]
DROP = ["sudo", "-n", "sh", "-c", "sync; echo 3 > /proc/sys/vm/drop_caches"]
READ_LIMIT_S = 5.0
GIB = 1024**3


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


def settle(most_bytes: int, limit_s: float, *, check_mode: bool) -> dict[str, Any]:
    """Drop the caches if more than `most_bytes` are cached; return the module's answer.

    Raises:
        ValueError: the memory could not be read.

    """
    before = _read()
    if before["cached_bytes"] <= most_bytes:
        why = f"page cache is {before['cached_bytes'] / GIB:.1f} GiB, up to {most_bytes / GIB:.1f} GiB is left alone"
        return _answer(before, before, why)
    if check_mode:
        return _answer(before, before, "check mode") | {"changed": True}
    outcome = run(DROP, limit_s)
    return _answer(
        before, _read(), f"{outcome.stderr.strip() or 'no word'} (rc {outcome.rc})" if outcome.rc else ""
    )


def _read() -> dict[str, int]:
    outcome = run(READ, READ_LIMIT_S)
    if outcome.rc:
        raise ValueError(f"{' '.join(READ)} ended with rc {outcome.rc}: {outcome.stderr.strip()}")
    return sizes(outcome.stdout)


def _answer(before: dict[str, int], after: dict[str, int], reason: str) -> dict[str, Any]:
    return {
        "changed": not reason,
        "dropped": not reason,
        "reason": reason,
        "before": before,
        "after": after,
        "freed_bytes": after["free_bytes"] - before["free_bytes"],
    }


def main() -> None:
    """Answer Ansible."""
    module = AnsibleModule(
        argument_spec={
            "most_bytes": {"type": "int", "required": True},
            "limit_s": {"type": "float", "default": 60.0},
        },
        supports_check_mode=True,
    )
    try:
        answer = settle(module.params["most_bytes"], module.params["limit_s"], check_mode=module.check_mode)
    except ValueError as fault:
        module.fail_json(msg=str(fault))
    shown = {
        side: f"page cache {answer[side]['cached_bytes'] / GIB:.1f} GiB\n" for side in ("before", "after")
    }
    module.exit_json(**answer, diff=shown)


if __name__ == "__main__":
    main()
