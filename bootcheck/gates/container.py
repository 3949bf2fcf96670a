"""Gates on what a rank runs in: the image by content, and the environment that every rank gets."""

import fnmatch
from collections.abc import Iterator, Mapping

from bootcheck import redact
from bootcheck.facts import Unread
from bootcheck.gates import differences
from bootcheck.gates.gate import Demand, LineGate, NodeGate, Scene, Seen, View, answers, reading
from bootcheck.probes.container import Containers, Image
from bootcheck.probes.software import Docker
from sparkctl.line import Node

_ARCHITECTURES = {"aarch64": "arm64", "x86_64": "amd64"}
"""docker info speaks like the kernel, an image like Go."""

MAY_DIFFER: tuple[tuple[str, str], ...] = (
    ("VLLM_HOST_IP", "the node's own address"),
    ("*_IFNAME", "the node's own interface"),
    ("*_HOST_IP", "the node's own address"),
    ("NCCL_IB_HCA", "the node's own RDMA devices"),
    ("NCCL_IB_GID_INDEX", "its place differs between nodes and moves between reboots"),
    ("UCX_NET_DEVICES", "the node's own RDMA devices"),
    ("RANK", "the rank itself"),
    ("*_RANK", "the rank itself"),
    ("HOSTNAME", "the node's own name"),
)
"""Variables in which ranks may differ, and why; everything else must be the same."""


def _judge_image(image: Image, view: View) -> Seen:
    if not image.is_present:
        return Seen(verdict="fail", measured=f"{image.reference} is not there")
    docker = view.facts.one(Docker)
    told = ", ".join(_short(one) for one in image.digests) or "no repository digest"
    measured = f"{image.reference}, id {_short(image.identity)}, {told}, {image.architecture}"
    if isinstance(docker, Unread):
        return Seen(verdict="pass", measured=f"{measured}; the node's architecture is not known")
    if image.architecture != _ARCHITECTURES.get(docker.architecture, docker.architecture):
        return Seen(
            verdict="fail",
            measured=f"{measured}; the node is {docker.architecture}",
            hint="build or pull the image for this machine: docker pull --platform linux/arm64 IMAGE",
        )
    return Seen(verdict="pass", measured=f"{measured}; {docker.store}")


def _short(digest: str) -> str:
    """Return the start of a digest, with the name it belongs to."""
    name, kind, value = digest.rpartition("sha256:")
    return f"{name}{kind}{value[:12]}"


def _judge_content(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    """Compare layers and the image's own environment; an image that is missing or unread is the other gate's."""
    read, _ = answers(scene, Image)
    images = {node: image for node, image in read.items() if image.is_present}
    tables = {
        node: {"content": "\n".join(image.layers), **_named(image.env)} for node, image in images.items()
    }
    yield from differences.judge(
        tables,
        verdict="fail",
        absent_counts=True,
        tell=lambda node: f"{_layers(images[node].layers)}, {len(images[node].env)} variables",
        show=lambda key, value: _layers(value.splitlines()) if key == "content" else _kept(key, value),
    )


def _layers(layers: list[str] | tuple[str, ...]) -> str:
    return f"{len(layers)} layers, last {_short(layers[-1])}" if layers else "no layers"


def _named(words: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def _kept(name: str, value: str) -> str:
    """Return a variable's value as it may be shown."""
    return redact.WITHHELD if redact.names_a_secret(name) and value else redact.text(value) or "empty"


def _judge_environment(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    """Compare what the recipe gives each rank, and what ranks that run now were really given."""
    nodes = [node for node, _ in scene.answering() if node.name in scene.needs.environments]
    planned = {node: _compared(scene.needs.environments[node.name]) for node in nodes}
    running = {node: _compared(env) for node, env in _running(scene)}
    seen = dict(_seen(planned, "from the recipe"))
    for node, one in _seen(running, "of the rank that runs"):
        if seen.get(node, one).verdict == "pass":
            seen[node] = one
    yield from seen.items()


def _seen(tables: Mapping[Node, Mapping[str, str]], whose: str) -> Iterator[tuple[Node, Seen]]:
    for node, one in differences.judge(
        tables,
        verdict="fail",
        absent_counts=True,
        tell=lambda node: f"{len(tables[node])} variables {whose}",
        show=_kept,
    ):
        aside = "" if one.verdict == "pass" else f"{whose}: "
        yield node, Seen(verdict=one.verdict, measured=f"{aside}{one.measured}")


def _compared(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern, _ in MAY_DIFFER)
    }


def _running(scene: Scene) -> Iterator[tuple[Node, Mapping[str, str]]]:
    read, _ = answers(scene, Containers)
    for node, containers in read.items():
        for one in containers.found:
            if one.is_running:
                yield node, one.env
                break


GATES = (
    NodeGate(
        name="image",
        section="parity",
        about="the serving image is there and built for this machine",
        demand=lambda _: Demand(
            wanted="the recipe's image, for the node's architecture", origin="a rank without it cannot start"
        ),
        remedy="sparkctl images sync streams it from a node that has it; docker save IMAGE | ssh NODE docker load does so by hand",
        troubles=(
            "eugr/spark-vllm-docker#339",
            "mmartial/ComfyUI-Nvidia-Docker#96",
            "opendatalab/MinerU#4350",
        ),
        reads=reading(Image),
        judge=_judge_image,
    ),
    LineGate(
        name="image-parity",
        section="parity",
        about="every rank has the same image, by its layers and its own environment",
        demand=lambda _: Demand(
            wanted="the same layers and the same environment in the image on every node",
            origin="ids may differ after save and load while layers match (Richard0571/deepseek-v41-dgx-spark-vllm-tp4, reported)",
        ),
        remedy="sparkctl images show says who has which, sparkctl images sync brings all to one, without a file in between",
        troubles=("eugr/spark-vllm-docker#339", "Richard0571/deepseek-v41-dgx-spark-vllm-tp4"),
        judge=_judge_content,
    ),
    LineGate(
        name="environment-parity",
        section="parity",
        about="every rank gets the same environment, and every rank that runs got it",
        demand=lambda _: Demand(
            wanted="the same variables on every node, save those that name the node itself",
            origin="a flag that reached the head alone let rank 1 boot the stock path "
            "(MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#236, reported)",
        ),
        remedy="give every rank the variable in the recipe's env, and boot all ranks again",
        troubles=("MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#236",),
        judge=_judge_environment,
    ),
)
