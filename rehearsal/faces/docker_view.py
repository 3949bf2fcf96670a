"""What docker prints: the JSON of a container, the table of ps, and the few templates in use."""

import json
import re
import sys
import time
from typing import Any

from rehearsal.containers import Container, moment
from rehearsal.faces.standing import Shown
from rehearsal.node import Node

_FIELD = re.compile(r"\{\{\s*(json\s+)?\.([\w.]*)\s*\}\}")


def usage(verb: str) -> str:
    """Return the two lines that docker adds to a wrong call."""
    return f"Usage:  docker {verb} [OPTIONS]\n\nRun 'docker {verb} --help' for more information"


def split(
    verb: str, arguments: list[str], valued: dict[str, str], bare: dict[str, str]
) -> tuple[dict[str, list[str]], list[str]]:
    """Split arguments into options, by their long names, and operands."""
    options: dict[str, list[str]] = {}
    operands: list[str] = []
    rest = list(arguments)
    while rest:
        one = rest.pop(0)
        name, equals, value = one.partition("=") if one.startswith("--") else (one, "", "")
        if name in valued and (equals or rest):
            options.setdefault(valued[name], []).append(value if equals else rest.pop(0))
        elif one in bare:
            options.setdefault(bare[one], []).append("")
        elif one.startswith("-") and one != "-":
            kind = "flag" if one.startswith("--") else f"shorthand flag: {one[1:2]!r} in"
            sys.stderr.write(f"unknown {kind}: {name}\n\n{usage(verb)}\n")
            raise SystemExit(125 if verb == "run" else 1)
        else:
            operands.append(one)
    return options, operands


def absent(name: str) -> int:
    """Say that there is no such container."""
    sys.stderr.write(f"Error response from daemon: No such container: {name}\n")
    return 1


def too_few(verb: str) -> int:
    """Say that an operand is missing."""
    sys.stderr.write(f"docker: 'docker {verb}' requires at least 1 argument\n\n{usage(verb)}\n")
    return 1


def container(node: Node, shown: Shown, image: dict[str, Any]) -> dict[str, Any]:
    """Return `docker inspect` of one container; its environment is the image's, then what it was given."""
    one = shown.told
    env = dict(text.split("=", 1) for text in (*image["Config"]["Env"], *one.env))
    entry = one.entrypoint or ("vllm",)
    return {
        "Id": one.id,
        "Created": one.created,
        "Path": entry[0],
        "Args": [*entry[1:], *one.argv],
        "State": _state(shown),
        "Image": image["Id"],
        "LogPath": f"/var/lib/docker/containers/{one.id}/{one.id}-json.log",
        "Name": f"/{one.name}",
        "RestartCount": shown.restarts,
        "Driver": image["GraphDriver"]["Name"],
        "Platform": "linux",
        "HostConfig": one.host,
        "Mounts": [_mount(text) for text in one.host["Binds"]],
        "Config": {
            "Hostname": node.name,
            "User": "",
            "Env": [f"{name}={value}" for name, value in env.items()],
            "Cmd": list(one.argv),
            "Image": one.image,
            "WorkingDir": "/",
            "Entrypoint": list(entry),
            "Labels": one.labels,
        },
        "NetworkSettings": {"Ports": {}, "Networks": {str(one.host["NetworkMode"]): {}}},
    }


def _mount(bind: str) -> dict[str, Any]:
    source, target, *mode = bind.split(":")
    read_only = mode == ["ro"]
    return {
        "Type": "bind",
        "Source": source,
        "Destination": target,
        "Mode": "ro" if read_only else "",
        "RW": not read_only,
        "Propagation": "rprivate",
    }


def _state(shown: Shown) -> dict[str, Any]:
    code, finished = shown.ending
    return {
        "Status": _status(shown),
        "Running": shown.is_running,
        "Paused": False,
        "Restarting": False,
        "OOMKilled": False,
        "Dead": False,
        "Pid": shown.pid,
        "ExitCode": code,
        "Error": "",
        "StartedAt": shown.told.created,
        "FinishedAt": finished,
    }


def _status(shown: Shown) -> str:
    return "running" if shown.is_running else "exited"


def show(found: list[Any], faults: list[str], form: list[str] | None) -> int:
    """Print inspected objects as docker does: those found on stdout, then a line for each that is not there."""
    if form is None:
        sys.stdout.write(json.dumps(found, indent=4) + "\n")
    else:
        for one in found:
            sys.stdout.write(fill(form[-1], one) + "\n")
        if not found:
            sys.stdout.write("\n")
    sys.stdout.flush()
    for fault in faults:
        sys.stderr.write(f"{fault}\n")
    return 1 if faults else 0


def fill(template: str, value: Any) -> str:
    """Fill a Go template made of fields; anything beyond is refused with docker's words."""
    rest = _FIELD.sub("", template)
    if "{{" in rest:
        sys.stderr.write(f'template parsing error: template: :1: unexpected "{rest[rest.index("{{") :]}"\n')
        raise SystemExit(64)
    return _FIELD.sub(lambda match: _field(value, match[2], as_json=bool(match[1])), template)


def _field(value: Any, path: str, *, as_json: bool) -> str:
    for step in filter(None, path.split(".")):
        if not isinstance(value, dict) or step not in value:
            sys.stderr.write(
                f'template: :1:2: executing "" at <.{path}>: map has no entry for key "{step}"\n'
            )
            raise SystemExit(1)
        value = value[step]
    if as_json:
        return json.dumps(value, separators=(",", ":"))
    return str(value).lower() if isinstance(value, bool) else str(value)


def shown_id(one: Container, *, whole: bool) -> str:
    """Return the id as ps shows it."""
    return one.id if whole else one.id[:12]


def table(shown: list[Shown], form: str, *, whole: bool) -> int:
    """Print ps: by template, or as the plain table."""
    rows = [_row(one, whole=whole) for one in shown]
    if form and not form.startswith("table"):
        form = "{{json .}}" if form == "json" else form
        sys.stdout.write("".join(fill(form, row) + "\n" for row in rows))
        return 0
    columns = {
        "ID": "CONTAINER ID",
        "Image": "IMAGE",
        "Command": "COMMAND",
        "Status": "STATUS",
        "Names": "NAMES",
    }
    lines = [columns, *rows]
    widths = {key: max(len(line[key]) for line in lines) + 3 for key in columns}
    for line in lines:
        sys.stdout.write("".join(line[key].ljust(widths[key]) for key in columns).rstrip() + "\n")
    return 0


def _ago(stamp: str) -> str:
    """Return how long ago a moment was, in docker's words."""
    seconds = int(time.time() - moment(stamp))
    for size, one, many in (
        (3600, "About an hour", "hours"),
        (60, "About a minute", "minutes"),
        (1, "1 second", "seconds"),
    ):
        if seconds >= size:
            count = seconds // size
            return one if count == 1 else f"{count} {many}"
    return "Less than a second"


def _row(shown: Shown, *, whole: bool) -> dict[str, str]:
    one = shown.told
    command = " ".join([*(one.entrypoint or ("vllm",)), *one.argv])
    code, finished = shown.ending
    return {
        "Command": f'"{command}"' if whole else f'"{command[:19]}…"',
        "CreatedAt": one.created[:19].replace("T", " ") + " +0000 UTC",
        "ID": shown_id(one, whole=whole),
        "Image": one.image,
        "Labels": ",".join(f"{key}={value}" for key, value in one.labels.items()),
        "LocalVolumes": "0",
        "Mounts": ",".join(text.partition(":")[0] for text in one.host["Binds"]),
        "Names": one.name,
        "Networks": str(one.host["NetworkMode"]),
        "Ports": "",
        "RunningFor": f"{_ago(one.created)} ago",
        "Size": "0B",
        "State": _status(shown),
        "Status": f"Up {_ago(one.created)}" if shown.is_running else f"Exited ({code}) {_ago(finished)} ago",
    }
