"""docker build of a practice node: reads the context from stdin, follows the Containerfile, and runs nothing.

Each instruction that makes a layer gives one whose digest stands for all before it, its own words and what it copies.
"""

import re
import sys
import tarfile
from collections.abc import Callable
from typing import Any, NamedTuple

from rehearsal.faces import docker_archive, docker_image, docker_view
from rehearsal.node import Node

_VALUED = {
    name: name.strip("-")
    for name in ("--platform", "--tag", "--build-arg", "--label", "--file", "--progress", "--network")
} | {"-t": "tag", "-f": "file"}
_BASE_LAYERS = 9
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


class _Made(NamedTuple):
    """What a build has come to."""

    layers: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    entrypoint: tuple[str, ...] = ()
    known: tuple[tuple[str, str], ...] = ()
    """Arguments that were declared, with their values."""


class _Fault(Exception):
    """What BuildKit says when it gives up."""


def build(node: Node, arguments: list[str]) -> int:
    """Answer docker build with its context on stdin."""
    options, operands = docker_view.split("build", arguments, _VALUED, {"--pull": "pull", "-q": "quiet"})
    if operands != ["-"]:
        return docker_view.too_few("build")
    given = dict(text.split("=", 1) for text in options.get("build-arg", []))
    name = (options.get("file") or ["Dockerfile"])[-1]
    try:
        files = docker_archive.read(docker_archive.stdin())
        made = _follow(name, files, given)
    except (tarfile.TarError, EOFError):
        sys.stderr.write("ERROR: failed to build: archive/tar: invalid tar header\n")
        return 1
    except _Fault as fault:
        sys.stderr.write(f"ERROR: failed to build: failed to solve: {fault}\n")
        return 1
    labels = dict(made.labels) | dict(text.split("=", 1) for text in options.get("label", []))
    config: dict[str, Any] = {"Env": list(made.env), "Entrypoint": list(made.entrypoint), "Labels": labels}
    machine = (options.get("platform") or ["linux/arm64"])[-1].rpartition("/")[2]
    told = {"layers": list(made.layers), "architecture": machine, "config": config}
    for tag in options.get("tag", []):
        docker_archive.keep(node, tag, told)
        sys.stderr.write(f"naming to {tag} done\n")
    return 0


def _follow(name: str, files: dict[str, bytes], given: dict[str, str]) -> _Made:
    if name not in files:
        raise _Fault(f"failed to read dockerfile: open {name}: no such file or directory")
    made = _Made()
    text = re.sub(r"(?m)^\s*#.*\n", "", files[name].decode())
    rows = re.sub(r"\\\n", " ", text).splitlines()
    steps = [row.strip().split(None, 1) for row in rows if row.strip()]
    for number, (keyword, rest) in enumerate(steps, 1):
        sys.stderr.write(f"#{number} [{number}/{len(steps)}] {keyword} {rest[:100]}\n")
        made = _step(made, keyword.upper(), rest, files, given)
    return made


def _step(made: _Made, keyword: str, rest: str, files: dict[str, bytes], given: dict[str, str]) -> _Made:
    values = dict(made.known) | dict(one.split("=", 1) for one in made.env)
    filled = _VARIABLE.sub(lambda found: values.get(found[1] or found[2], ""), rest)
    if keyword == "ARG":
        return made._replace(known=(*made.known, (rest, given.get(rest, ""))))
    if keyword == "COPY":
        source = rest.split(maxsplit=1)[0]
        if source not in files:
            raise _Fault(
                f'failed to compute cache key: failed to calculate checksum of ref: "/{source}": not found'
            )
        return _layer(made, filled, files[source].hex())
    if keyword not in _STEPS:
        raise _Fault(f"dockerfile parse error: unknown instruction: {keyword}")
    return _STEPS[keyword](made, filled)


def _from(made: _Made, base: str) -> _Made:
    if not base.strip():
        raise _Fault("base name (${BASE}) should not be blank")
    layers = tuple(docker_image.digest("base", base, str(index)) for index in range(_BASE_LAYERS))
    return made._replace(layers=layers, env=docker_image.ENV)


def _layer(made: _Made, *words: str) -> _Made:
    return made._replace(layers=(*made.layers, docker_image.digest("built", *made.layers, *words)))


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(name, value.strip('"')) for name, value in re.findall(r'([\w.-]+)=("[^"]*"|\S*)', text)]


def _over(env: tuple[str, ...], pairs: list[tuple[str, str]]) -> list[str]:
    told = dict(one.split("=", 1) for one in env) | dict(pairs)
    return [f"{name}={value}" for name, value in told.items()]


_STEPS: dict[str, Callable[[_Made, str], _Made]] = {
    "FROM": _from,
    "RUN": _layer,
    "ENV": lambda made, text: made._replace(env=tuple(_over(made.env, _pairs(text)))),
    "LABEL": lambda made, text: made._replace(labels=(*made.labels, *_pairs(text))),
    "ENTRYPOINT": lambda made, text: made._replace(entrypoint=tuple(re.findall(r'"([^"]*)"', text))),
}
"""What an instruction makes of its text, variables filled in."""
