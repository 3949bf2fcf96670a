"""ps and ss of a practice node."""

import os
import sys
from pathlib import Path

from rehearsal.faces import residents
from rehearsal.faces.residents import Task
from rehearsal.node import Node, read

_NAME = 15  # bytes of a process name that the kernel keeps
_BACKLOG = 128


def answer(root: Path, name: str, arguments: list[str]) -> int:
    """Answer one of the commands."""
    return {"ps": _ps, "ss": _ss}[name](read(root), arguments)


def _ps(node: Node, arguments: list[str]) -> int:
    """Answer `ps -eo FIELD,...`; a field written `pid=` has no header."""
    if len(arguments) != 2 or arguments[0] != "-eo":
        sys.stderr.write("error: unsupported SysV option\n\nUsage:\n ps [options]\n")
        return 1
    asker = Task(os.getpid(), os.getppid(), "spark", 0, 4_096, f"ps -eo {arguments[1]}")
    rows = [_columns(task) for task in (*residents.tasks(node), asker)]
    fields = arguments[1].replace("=,", ",").removesuffix("=").split(",")
    bare = arguments[1].count("=") == len(fields)
    if unknown := [field for field in fields if field not in rows[0]]:
        sys.stderr.write(
            f'error: unknown user-defined format specifier "{unknown[0]}"\n\nUsage:\n ps [options]\n'
        )
        return 1
    heads = [] if bare else [{field: _HEADS[field] for field in fields}]
    widths = {field: max(_WIDTHS[field], *(len(row[field]) for row in rows)) for field in fields}
    for row in (*heads, *rows):
        cells = [
            row[field].rjust(widths[field]) if field in _RIGHT else row[field].ljust(widths[field])
            for field in fields
        ]
        sys.stdout.write(" ".join(cells).rstrip() + "\n")
    return 0


_HEADS = {
    "pid": "PID",
    "ppid": "PPID",
    "user": "USER",
    "etimes": "ELAPSED",
    "rss": "RSS",
    "comm": "COMMAND",
    "args": "COMMAND",
}
_WIDTHS = {"pid": 7, "ppid": 7, "user": 8, "etimes": 7, "rss": 5, "comm": 0, "args": 0}
_RIGHT = frozenset({"pid", "ppid", "etimes", "rss"})


def _columns(task: Task) -> dict[str, str]:
    return {
        "pid": str(task.pid),
        "ppid": str(task.ppid),
        "user": task.user,
        "etimes": str(task.age_s),
        "rss": str(task.rss_kib),
        "comm": _name(task),
        "args": task.args,
    }


def _name(task: Task) -> str:
    return task.args.split()[0].rpartition("/")[2].rstrip(":")[:_NAME]


def _ss(node: Node, arguments: list[str]) -> int:
    """Answer `ss -ltnp`: the processes of root stay unnamed to anybody else."""
    flags = "".join(one.lstrip("-") for one in arguments)
    if sorted(flags) not in (sorted("ltnp"), sorted("ltn"), sorted("Hltnp")):
        sys.stderr.write(f"ss: invalid option -- '{flags[:1]}'\nUsage: ss [ OPTIONS ]\n")
        return 255
    if "H" not in flags:
        sys.stdout.write("State  Recv-Q Send-Q Local Address:Port  Peer Address:PortProcess\n")
    may_see = "p" in flags and "SUDO_UID" in os.environ
    for task in residents.tasks(node):
        for where in task.listens:
            peer = {"*": "*:*", "[": "[::]:*"}.get(where[0], "0.0.0.0:*")
            users = (
                f'users:(("{_name(task)}",pid={task.pid},fd=24))'
                if may_see or (task.user != "root" and "p" in flags)
                else ""
            )
            sys.stdout.write(
                f"LISTEN 0      {_BACKLOG:<6} {where:>17}  {peer:>17}    {users}".rstrip() + "\n"
            )
    return 0
