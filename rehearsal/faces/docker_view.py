"""What docker prints: the JSON of a container and of an image, the table of ps, and the few templates in use."""

import fnmatch
import json
import re
import sys
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from rehearsal.containers import Container
from rehearsal.node import Node

VERSION = "28.2.2"
_NEVER = "0001-01-01T00:00:00Z"
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
        elif one.startswith("-"):
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


def digest(*parts: str) -> str:
    """Return a made-up content digest that is the same for the same parts."""
    return "sha256:" + sha256("\0".join(parts).encode()).hexdigest()


def holds(node: Node, reference: str) -> bool:
    """Whether the node holds that image."""
    return any(fnmatch.fnmatchcase(reference, pattern) for pattern in node.images)


def image(reference: str) -> dict[str, Any]:
    """Return `docker image inspect` of one image: the same on every node that holds it."""
    return {
        "Id": digest("image", reference),
        "RepoTags": [reference],
        "RepoDigests": [f"{reference.rpartition(':')[0] or reference}@{digest('manifest', reference)}"],
        "Created": "2026-09-18T20:11:04.120Z",
        "Architecture": "arm64",
        "Os": "linux",
        "Size": 31_207_845_120,
        "RootFS": {
            "Type": "layers",
            "Layers": [digest("layer", reference, str(index)) for index in range(4)],
        },
        "Config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"], "Entrypoint": ["vllm"], "Labels": {}},
    }


def container(node: Node, one: Container) -> dict[str, Any]:
    """Return `docker inspect` of one container."""
    state = _state(one)
    entry = one.entrypoint or ("vllm",)
    return {
        "Id": one.id,
        "Created": one.created,
        "Path": entry[0],
        "Args": [*entry[1:], *one.argv],
        "State": state,
        "Image": digest("image", one.image),
        "LogPath": f"/var/lib/docker/containers/{one.id}/{one.id}-json.log",
        "Name": f"/{one.name}",
        "RestartCount": 0,
        "Driver": "overlay2",
        "Platform": "linux",
        "HostConfig": one.host,
        "Mounts": [],
        "Config": {
            "Hostname": node.name,
            "User": "",
            "Env": list(one.env),
            "Cmd": list(one.argv),
            "Image": one.image,
            "WorkingDir": "/",
            "Entrypoint": list(entry),
            "Labels": one.labels,
        },
        "NetworkSettings": {"Ports": {}, "Networks": {str(one.host["NetworkMode"]): {}}},
    }


def _state(one: Container) -> dict[str, Any]:
    running = one.is_running()
    process = one.process()
    code, finished = (0, _NEVER) if running else one.ending()
    return {
        "Status": "running" if running else "exited",
        "Running": running,
        "Paused": False,
        "Restarting": False,
        "OOMKilled": False,
        "Dead": False,
        "Pid": process.pid if running and process else 0,
        "ExitCode": code,
        "Error": "",
        "StartedAt": one.created,
        "FinishedAt": finished,
    }


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


def table(shown: list[Container], form: str, *, whole: bool) -> int:
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
    then = datetime.fromisoformat(stamp[:19]).replace(tzinfo=UTC)
    seconds = int((datetime.now(UTC) - then).total_seconds())
    for size, one, many in (
        (3600, "About an hour", "hours"),
        (60, "About a minute", "minutes"),
        (1, "1 second", "seconds"),
    ):
        if seconds >= size:
            count = seconds // size
            return one if count == 1 else f"{count} {many}"
    return "Less than a second"


def _row(one: Container, *, whole: bool) -> dict[str, str]:
    running = one.is_running()
    command = " ".join([*(one.entrypoint or ("vllm",)), *one.argv])
    return {
        "Command": f'"{command}"' if whole else f'"{command[:19]}…"',
        "CreatedAt": one.created[:19].replace("T", " ") + " +0000 UTC",
        "ID": shown_id(one, whole=whole),
        "Image": one.image,
        "Labels": ",".join(f"{key}={value}" for key, value in one.labels.items()),
        "LocalVolumes": "0",
        "Mounts": "",
        "Names": one.name,
        "Networks": str(one.host["NetworkMode"]),
        "Ports": "",
        "RunningFor": f"{_ago(one.created)} ago",
        "Size": "0B",
        "State": "running" if running else "exited",
        "Status": f"Up {_ago(one.created)}"
        if running
        else f"Exited ({one.ending()[0]}) {_ago(one.ending()[1])} ago",
    }
