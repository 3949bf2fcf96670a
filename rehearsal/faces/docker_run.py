"""docker run of a practice node: a rank as a real process, or a probe answered from the hidden state."""

import os
import subprocess
import sys
from pathlib import Path

from rehearsal import containers, processes
from rehearsal.containers import Container
from rehearsal.faces import docker_probe, standing, tree
from rehearsal.faces.docker_asked import Asked
from rehearsal.faces.docker_image import holds
from rehearsal.faces.docker_view import usage
from rehearsal.node import Node, change, write_json

_FAILED_EXEC = 255


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VALUED = _words(
    "--name --label --env --env-file --gpus --network --net --ipc --shm-size --memory --memory-swap --ulimit --cap-add "
    "--cap-drop --security-opt --device --oom-score-adj --restart --volume --mount --entrypoint --user --workdir "
    "--log-opt --log-driver --pids-limit --hostname --pull --stop-timeout --stop-signal --tmpfs --add-host --runtime "
    "--group-add --pid --uts --cpuset-cpus --platform --publish --cpus --sysctl --cidfile"
)
_BARE = _words("--detach --rm --init --privileged --read-only --interactive --tty --quiet")
_SHORT = {
    "-d": "--detach",
    "-e": "--env",
    "-h": "--hostname",
    "-i": "--interactive",
    "-l": "--label",
    "-m": "--memory",
    "-p": "--publish",
    "-q": "--quiet",
    "-t": "--tty",
    "-u": "--user",
    "-v": "--volume",
    "-w": "--workdir",
}


def run(node: Node, arguments: list[str]) -> int:
    """Answer docker run; 125 for docker's own refusals, as the real one."""
    asked = _read(arguments)
    if not asked.image:
        sys.stderr.write(f"docker: 'docker run' requires at least 1 argument\n\n{usage('run')}\n")
        return 125
    if not holds(node, asked.image):
        return _missing(asked)
    absent = [bind for bind in asked.binds if tree.look(node, bind.source) is None]
    if refused := [bind.source for bind in absent if bind.must_exist]:
        return _refuse(f'invalid mount config for type "bind": bind source path does not exist: {refused[0]}')
    made = tuple(bind.source for bind in absent)
    if made:  # of what -v does not find docker makes an empty folder
        change(node.root, lambda now: now._replace(folders=(*now.folders, *made)))
    return _answer(node, asked)


def _answer(node: Node, asked: Asked) -> int:
    """Let a probe, a rank or nothing come of a run that docker accepts."""
    entry = asked.last("--entrypoint")
    if node.traits.image_architecture != "arm64":
        return _wrong_machine(entry or "vllm")
    probe = docker_probe.find(asked.pairs("--label").get("sparkctl.probe", ""))
    if probe and entry == "python3":
        return probe(node, asked)
    missing = _missing_program(node, entry, asked.argv)
    if missing:
        fault = f'exec: "{missing}": executable file not found in $PATH'
        sys.stderr.write(
            f"docker: Error response from daemon: failed to create task for container: {fault}: unknown\n"
        )
        return 127
    return _start(node, asked)


def _read(arguments: list[str]) -> Asked:
    options: dict[str, list[str]] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        one = rest.pop(0)
        if not one.startswith("--") and len(one) > 2 and one[:2] in {"-d", "-i", "-t"}:
            rest.insert(0, f"-{one[2:]}")
            one = one[:2]
        elif not one.startswith("--") and len(one) > 2:
            one, glued = one[:2], one[2:].removeprefix("=")
            rest.insert(0, glued)
        name, equals, value = _SHORT.get(one, one).partition("=")
        if name in _BARE:
            options.setdefault(name, []).append(value or "true")
        elif name in _VALUED and (equals or rest):
            options.setdefault(name, []).append(value if equals else rest.pop(0))
        else:
            kind = "flag" if one.startswith("--") else f"shorthand flag: {one[1:2]!r} in"
            sys.stderr.write(f"unknown {kind}: {name if one.startswith('--') else one}\n\n{usage('run')}\n")
            raise SystemExit(125)
    return Asked(options, rest[0] if rest else "", tuple(rest[1:]))


def _refuse(fault: str) -> int:
    sys.stderr.write(
        f"docker: Error response from daemon: {fault}\n\nRun 'docker run --help' for more information\n"
    )
    return 125


def _missing(asked: Asked) -> int:
    if asked.last("--pull") == "never":
        return _refuse(f"No such image: {asked.image}")
    sys.stderr.write(f"Unable to find image '{asked.image}' locally\n")
    return _refuse(
        f"pull access denied for {asked.image.partition(':')[0]}, repository does not exist or may require "
        "'docker login': denied: requested access to the resource is denied"
    )


def _wrong_machine(entry: str) -> int:
    """Say what docker says of an image for another machine (mmartial/ComfyUI-Nvidia-Docker#96, reported)."""
    sys.stderr.write(
        "WARNING: The requested image's platform (linux/amd64) does not match the detected host platform "
        f"(linux/arm64/v8) and no specific platform was requested\nexec /usr/bin/{entry}: exec format error\n"
    )
    return _FAILED_EXEC


def _missing_program(node: Node, entry: str, argv: tuple[str, ...]) -> str:
    """Return the program that the image does not have; one with a real engine has that one's commands and a shell."""
    if node.engine:
        return "" if entry in {"", "sh"} or (Path(node.engine) / entry).exists() else entry
    if not entry and argv[:1] == ("vllm",):
        return argv[0]
    return "" if entry in {"", "vllm"} else entry


def _start(node: Node, asked: Asked) -> int:
    identity = os.urandom(32).hex()
    name = asked.last("--name") or f"practice_{identity[:8]}"
    container = Container(
        root=node.root / "containers" / name,
        id=identity,
        name=name,
        image=asked.image,
        created=containers.stamp(),
        labels=asked.pairs("--label"),
        env=tuple(f"{key}={value}" for key, value in asked.environment().items()),
        argv=asked.argv,
        host=_host_config(asked),
        entrypoint=tuple(asked.options.get("--entrypoint", [])[-1:]),
        remove="--rm" in asked.options,
    )
    other = standing.find(node, name)  # what was started with --rm and has ended frees its name
    if other or not containers.create(container):
        return _refuse(
            f'Conflict. The container name "/{name}" is already in use by container "{other.told.id if other else "?"}". '
            "You have to remove (or rename) that container to be able to reuse that name."
        )
    rank = _spawn(node, container)
    if "--detach" in asked.options:
        sys.stdout.write(f"{identity}\n")
        return 0
    code = rank.wait()
    sys.stdout.write(container.log.read_text(encoding="utf-8"))
    return code


def _spawn(node: Node, container: Container) -> "subprocess.Popen[bytes]":
    """Start the rank's process, detached from whoever asked."""
    face = Path(__file__).resolve().parent.parent / "face.py"
    what = "contained" if node.engine else "rank"
    with container.log.open("ab") as log:
        rank = subprocess.Popen(
            [node.python, "-S", "-E", str(face), str(node.root), what, str(container.root)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=node.root / "home",
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", processes.MARK: node.token},
            start_new_session=True,
        )
    write_json(container.root / "process.json", processes.look(rank.pid) or (rank.pid, 0))
    return rank


def _host_config(asked: Asked) -> dict[str, object]:
    return {
        "NetworkMode": asked.last("--network", asked.last("--net", "bridge")),
        "RestartPolicy": {"Name": asked.last("--restart", "no"), "MaximumRetryCount": 0},
        "IpcMode": asked.last("--ipc", "private"),
        "ShmSize": _size(asked.last("--shm-size", "64m")),
        "Memory": _size(asked.last("--memory", "0")),
        "MemorySwap": _size(asked.last("--memory-swap", "0")),
        "OomScoreAdj": int(asked.last("--oom-score-adj", "0")),
        "Binds": asked.options.get("--volume", []),
        "DeviceRequests": [standing.GPUS] if "--gpus" in asked.options else None,
        "Devices": [
            {"PathOnHost": name, "PathInContainer": name} for name in asked.options.get("--device", [])
        ],
        "Runtime": asked.last("--runtime", "runc"),
        "CapAdd": asked.options.get("--cap-add", []),
        "Ulimits": [_ulimit(text) for text in asked.options.get("--ulimit", [])],
        "Privileged": "--privileged" in asked.options,
    }


def _size(text: str) -> int:
    unit = text.rstrip("bB").lower()[-1:]
    factors = {"k": 1024, "m": 1024**2, "g": 1024**3}
    number = text.lower().rstrip("b").rstrip("kmg")
    return int(float(number) * factors.get(unit, 1))


def _ulimit(text: str) -> dict[str, object]:
    name, _, limits = text.partition("=")
    soft, _, hard = limits.partition(":")
    return {"Name": name, "Soft": int(soft), "Hard": int(hard or soft)}
