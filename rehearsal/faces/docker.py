"""docker of a practice node: the calls that a rank's life needs, answered from folders and real processes."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

from rehearsal.containers import find
from rehearsal.faces import docker_end, docker_image, docker_log, docker_old, docker_view, standing
from rehearsal.faces.standing import Shown
from rehearsal.node import Node, read


def answer(root: Path, _name: str, arguments: list[str]) -> int:
    """Answer docker."""
    node = read(root)
    if arguments in (["--version"], ["-v"]):
        sys.stdout.write(f"Docker version {node.traits.docker_version}, build e6534b4\n")
        return 0
    rest = arguments[1:] if arguments[:1] == ["container"] else arguments
    if not rest or rest[0] not in _VERBS:
        asked = rest[0] if rest else ""
        sys.stderr.write(
            f"docker: unknown command: docker {asked}\n\nRun 'docker --help' for more information\n"
        )
        return 1
    return _VERBS[rest[0]](node, rest[1:])


def _run(node: Node, arguments: list[str]) -> int:
    module = importlib.import_module("rehearsal.faces.docker_run")  # costly, and only this verb needs it
    status: int = module.run(node, arguments)
    return status


def _ship(verb: str) -> Callable[[Node, list[str]], int]:
    """Return the verb that carries an image out of the node, into it or makes one; costly, and seldom asked for."""

    def answer(node: Node, arguments: list[str]) -> int:
        module = importlib.import_module(
            "rehearsal.faces.docker_" + ("build" if verb == "build" else "archive")
        )
        status: int = getattr(module, verb)(node, arguments)
        return status

    return answer


def _exec(node: Node, arguments: list[str]) -> int:
    module = importlib.import_module("rehearsal.faces.docker_exec")  # seldom asked for
    status: int = module.answer(node, arguments)
    return status


def _ps(node: Node, arguments: list[str]) -> int:
    valued = {"--filter": "filter", "-f": "filter", "--format": "format"}
    bare = {
        "-a": "all",
        "--all": "all",
        "-q": "quiet",
        "--quiet": "quiet",
        "--no-trunc": "whole",
        "-aq": "ids",
    }
    options, _ = docker_view.split("ps", arguments, valued, bare)
    whole = "whole" in options
    everything = "all" in options or "ids" in options
    shown = [one for one in standing.every(node) if everything or one.is_running]
    for text in options.get("filter", []):
        key, _, value = text.partition("=")
        if key not in {"label", "name", "status", "id"}:
            sys.stderr.write(f"Error response from daemon: invalid filter '{key}'\n")
            return 1
        shown = [one for one in shown if _passes(one, key, value)]
    if "quiet" in options or "ids" in options:
        sys.stdout.write("".join(f"{docker_view.shown_id(one.told, whole=whole)}\n" for one in shown))
        return 0
    return docker_view.table(shown, (options.get("format") or [""])[-1], whole=whole)


def _passes(shown: Shown, key: str, value: str) -> bool:
    one = shown.told
    if key == "label":
        name, equals, wanted = value.partition("=")
        return name in one.labels and (not equals or one.labels[name] == wanted)
    if key == "name":
        return value.removeprefix("/") in one.name
    if key == "id":
        return one.id.startswith(value)
    return value == ("running" if shown.is_running else "exited")


def _inspect(node: Node, arguments: list[str]) -> int:
    options, names = docker_view.split(
        "inspect", arguments, {"--format": "format", "-f": "format", "--type": "type"}, {}
    )
    if not names:
        return docker_view.too_few("inspect")
    kind = (options.get("type") or [""])[-1]
    found: list[object] = []
    missing = []
    for name in names:
        container = standing.find(node, name) if kind in {"", "container"} else None
        if container:
            found.append(
                docker_view.container(node, container, docker_image.image(node, container.told.image))
            )
        elif kind in {"", "image"} and docker_image.holds(node, name):
            found.append(docker_image.image(node, name))
        else:
            missing.append(name)
    return docker_view.show(
        found, [f"Error: No such object: {name}" for name in missing], options.get("format")
    )


def _image(node: Node, arguments: list[str]) -> int:
    if arguments[:1] != ["inspect"]:
        sys.stderr.write(f"docker: unknown command: docker image {' '.join(arguments[:1])}\n")
        return 1
    options, names = docker_view.split(
        "image inspect", arguments[1:], {"--format": "format", "-f": "format"}, {}
    )
    if not names:
        return docker_view.too_few("image inspect")
    found: list[object] = [docker_image.image(node, name) for name in names if docker_image.holds(node, name)]
    missing = [f"Error: No such image: {name}" for name in names if not docker_image.holds(node, name)]
    return docker_view.show(found, missing, options.get("format"))


def _logs(node: Node, arguments: list[str]) -> int:
    valued = {"--tail": "tail", "-n": "tail", "--since": "since"}
    bare = {"-f": "follow", "--follow": "follow", "-t": "stamps", "--timestamps": "stamps"}
    options, names = docker_view.split("logs", arguments, valued, bare)
    if len(names) != 1:
        return docker_view.too_few("logs")
    container = find(node.root, names[0])
    if container is None:
        return (
            0 if standing.find(node, names[0]) else docker_view.absent(names[0])
        )  # an old one's log is empty
    tail = (options.get("tail") or ["all"])[-1]
    log = docker_log.Log(
        container,
        since=(options.get("since") or [""])[-1],
        is_stamped="stamps" in options,
    )
    return log.show(None if tail == "all" else int(tail), follow="follow" in options)


_VERBS: dict[str, Callable[[Node, list[str]], int]] = {
    "exec": _exec,
    "ps": _ps,
    "inspect": _inspect,
    "image": _image,
    "info": docker_image.info,
    "logs": _logs,
    "stop": docker_old.before(docker_end.stop, "stop"),
    "kill": docker_old.before(docker_end.kill, "kill"),
    "wait": docker_old.before(docker_end.wait, "wait"),
    "rm": docker_old.before(docker_end.rm, "rm"),
    "run": _run,
    "save": _ship("save"),
    "load": _ship("load"),
    "build": _ship("build"),
}
