"""Containers of a node: the serving image by content, and every container with what its start and its end tell."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from bootcheck.facts import Record, Unread, unread
from bootcheck.probes.probe import Probe

# Without docker's --filter: what others left behind counts too. xargs -r: without a container there is nothing to inspect.
_LIST = "docker ps -aq --no-trunc | xargs -r docker inspect"
# What a container that ended between the two commands leaves on stderr, in the words of docker 20 to 29.
_GONE = ("no such object", "no such container")
_ODD = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The serving image on a node. `layers` and `env` are the content; `identity` may differ after save and load.

    `env` is the image's own environment in NAME=VALUE, `digests` what it was pulled as; a loaded image has none. `n_bytes` is what
    docker says that it takes, 0 where it does not say.
    """

    probe: ClassVar[str] = "image"

    reference: str
    is_present: bool
    identity: str = ""
    layers: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    architecture: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    n_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """One bind or volume of a container."""

    source: str
    inside: str
    is_writable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container on a node, ours or not; empty is what docker does not say.

    `state` is docker's word, `started` a time in UTC; `pid` is its first process on the host, 0 when it does not run.
    `line`, `rank`, `boot` and `digest` are our labels; `probe` marks a container that a probe of ours runs in. `uses_gpu` is
    None where docker does not say. `shared` is the size of its /dev/shm in bytes.
    """

    name: str
    image: str = ""
    state: str = ""
    pid: int = 0
    exit_code: int | None = None
    started: str = ""
    line: str = ""
    rank: str = ""
    boot: str = ""
    digest: str = ""
    probe: str = ""
    restart_policy: str = ""
    restarts: int = 0
    is_oom_killed: bool = False
    uses_gpu: bool | None = None
    network: str = ""
    ipc: str = ""
    shared: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Bind, ...] = ()

    @property
    def is_running(self) -> bool:
        """Whether it runs."""
        return self.state == "running"

    @property
    def is_alive(self) -> bool:
        """Whether it holds on to what it has: it runs, was paused, or docker is starting it again."""
        return self.state in {"running", "paused", "restarting", "removing"}

    @property
    def restarts_itself(self) -> bool:
        """Whether docker starts it again when it ends."""
        return self.restart_policy not in {"", "no"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """All containers of a node; `line` is the one that was asked about."""

    probe: ClassVar[str] = "containers"

    line: str
    every: tuple[Container, ...]

    @property
    def found(self) -> tuple[Container, ...]:
        """Those of the line that was asked about; of any line when none was named."""
        return tuple(one for one in self.every if one.line and one.line == (self.line or one.line))

    @property
    def foreign(self) -> tuple[Container, ...]:
        """Those of no line of ours, without our own probes."""
        return tuple(one for one in self.every if not one.line and not one.probe)


def list_argv(line: str) -> tuple[str, ...]:
    """Inspect every container of a node; the line stands behind the command so that the record tells whose are whose."""
    return ("sh", "-c", _LIST, "sparkctl-containers", line)


def parse_image(record: Record) -> Image | Unread:
    """Read `docker image inspect`; an image that is not there is a fact, a docker that does not answer is not."""
    reference = record.argv[-1]
    if record.rc != 0:
        if "no such image" in record.stderr.lower():
            return Image(reference=reference, is_present=False)
        return Unread(probe=record.probe, why=record.stderr.strip() or f"docker ended with {record.rc}")
    try:
        answer: Any = json.loads(record.stdout)
        return Image(
            reference=reference,
            is_present=True,
            identity=str(answer["Id"]),
            layers=tuple(str(layer) for layer in answer["RootFS"]["Layers"]),
            env=tuple(str(one) for one in (answer.get("Config") or {}).get("Env") or ()),
            digests=tuple(str(one) for one in answer.get("RepoDigests") or ()),
            architecture=str(answer["Architecture"]),
            labels={
                str(name): str(value)
                for name, value in ((answer.get("Config") or {}).get("Labels") or {}).items()
            },
            n_bytes=_count(answer.get("Size") or 0),
        )
    except _ODD:
        return unread(record, "not the JSON of docker image inspect")


def parse_containers(record: Record) -> Containers | Unread:
    """Read `docker inspect` of every container. One that is gone in between is no fault; silence with an error is."""
    line = record.argv[4] if record.argv[:2] == ("sh", "-c") and len(record.argv) == 5 else ""
    faults = [text for text in record.stderr.splitlines() if text.strip() and not _is_gone(text)]
    if faults and (record.rc != 0 or not record.stdout.strip()):
        return unread(record, " ".join(faults))
    try:
        found = json.loads(record.stdout) if record.stdout.strip() else []
        return Containers(line=line, every=tuple(_container(one) for one in _listed(found)))
    except _ODD:
        return unread(record, "not the JSON of docker inspect")


def _is_gone(text: str) -> bool:
    return any(words in text.lower() for words in _GONE)


def _listed(found: Any) -> list[Any]:
    if not isinstance(found, list):
        raise TypeError("docker inspect prints a list")
    return found


def _container(told: Any) -> Container:
    config, host, state = (told.get(part) or {} for part in ("Config", "HostConfig", "State"))
    labels = config.get("Labels") or {}
    policy = host.get("RestartPolicy") or {}
    return Container(
        name=str(told["Name"]).removeprefix("/"),
        image=str(config.get("Image") or ""),
        state=str(state.get("Status") or ""),
        pid=_count(state.get("Pid") or 0),
        exit_code=None if state.get("ExitCode") is None else _count(state["ExitCode"]),
        started=_moment(state.get("StartedAt")),
        **{
            name: str(labels.get(f"sparkctl.{name}", ""))
            for name in ("line", "rank", "boot", "digest", "probe")
        },
        restart_policy=str(policy.get("Name") or ""),
        restarts=_count(told.get("RestartCount") or 0),
        is_oom_killed=state.get("OOMKilled") is True,
        uses_gpu=_uses_gpu(host),
        network=str(host.get("NetworkMode") or ""),
        ipc=str(host.get("IpcMode") or ""),
        shared=None if host.get("ShmSize") is None else _count(host["ShmSize"]),
        env=dict(_pairs(config.get("Env") or ())),
        mounts=tuple(_bind(one) for one in told.get("Mounts") or ()),
    )


def _count(told: Any) -> int:
    if type(told) is not int or not 0 <= told < 2**60:
        raise ValueError(f"{told!r} is no count")
    return told


def _moment(text: Any) -> str:
    """Return docker's time to the second; docker writes year 1 for never."""
    return "" if not isinstance(text, str) or text.startswith("0001-") else f"{text[:19]}Z"


def _uses_gpu(host: Any) -> bool | None:
    """Whether a container was given a GPU: by --gpus, by NVIDIA's runtime or by a device of its own."""
    if not {"DeviceRequests", "Runtime", "Devices"} & host.keys():
        return None
    asked = json.dumps([host.get("DeviceRequests"), host.get("Devices")])
    return host.get("Runtime") == "nvidia" or '"gpu"' in asked or "nvidia" in asked


def _pairs(words: Any) -> Iterator[tuple[str, str]]:
    for word in words:
        name, _, value = str(word).partition("=")
        yield name, value


def _bind(told: Any) -> Bind:
    return Bind(
        source=str(told.get("Source") or told.get("Name") or ""),
        inside=str(told.get("Destination") or ""),
        is_writable=told.get("RW") is not False,
    )


PROBES = (
    Probe(
        name="image",
        about="the serving image and its layers",
        argvs=lambda target: (("docker", "image", "inspect", "--format", "{{json .}}", target.needs.image),),
        parse=parse_image,
        limit_s=10,
    ),
    Probe(
        name="containers",
        moves=True,
        about="every container: whose, its state, its restarts, its environment",
        argvs=lambda target: (list_argv(target.line.name),),
        parse=parse_containers,
        limit_s=10,
    ),
)
