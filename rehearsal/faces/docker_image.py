"""docker of a practice node: what it says of the image, by content, and of itself."""

import fnmatch
import sys
from hashlib import sha256
from typing import Any

from rehearsal.faces import docker_view, system
from rehearsal.node import Node, changes

_LAYERS = 12
_PATH = "PATH=/opt/venv/bin:/usr/local/nvidia/bin:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/bin:/bin"
ENV = (
    _PATH,
    "NVIDIA_VISIBLE_DEVICES=all",
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    "CUDA_VERSION=13.0.1",
)


def digest(*parts: str) -> str:
    """Return a made-up content digest that is the same for the same parts."""
    return "sha256:" + sha256("\0".join(parts).encode()).hexdigest()


def holds(node: Node, reference: str) -> bool:
    """Whether the node holds that image: from the beginning, or because it was built or loaded here."""
    return reference in changes(node.root).images or any(
        fnmatch.fnmatchcase(reference, pattern) for pattern in node.traits.images
    )


def identity(node: Node, reference: str) -> str:
    """Return an image's Id: the digest of its configuration, or of its manifest where containerd keeps the images."""
    traits = node.traits
    if traits.image_store == "containerd":
        return digest("manifest", reference, traits.image_build)
    how = "reloaded" if traits.image_reloaded else ""
    return digest("image", reference, traits.image_build, how, *traits.image_env)


def image(node: Node, reference: str) -> dict[str, Any]:
    """Return `docker image inspect` of one image; one that was built or loaded here is what its own configuration says."""
    came = changes(node.root).images.get(reference)
    return (
        _first(node, reference)
        if came is None
        else {**_first(node, reference), **_came(node, reference, came)}
    )


def _came(node: Node, reference: str, told: dict[str, Any]) -> dict[str, Any]:
    """Return what is shown of an image that was built or loaded here: it has no digest of a registry, and an Id of its own."""
    by_manifest = node.traits.image_store == "containerd"
    words = (*told["layers"], *told["config"]["Env"], *told["config"]["Labels"].values())
    return {
        "Id": digest("manifest" if by_manifest else "config", reference, *words),
        "RepoDigests": [],
        "Architecture": told["architecture"],
        "RootFS": {"Type": "layers", "Layers": told["layers"]},
        "Config": told["config"],
    }


def _first(node: Node, reference: str) -> dict[str, Any]:
    traits = node.traits
    name = reference.rpartition(":")[0] or reference
    published = (
        [] if traits.image_reloaded else [f"{name}@{digest('manifest', reference, traits.image_build)}"]
    )
    return {
        "Id": identity(node, reference),
        "RepoTags": [reference],
        "RepoDigests": published,
        "Created": "2026-09-18T20:11:04.120Z",
        "Architecture": traits.image_architecture,
        "Os": "linux",
        "Size": 31_207_845_120,
        "GraphDriver": _graph(node, reference),
        "RootFS": {"Type": "layers", "Layers": _layers(reference, traits.image_build)},
        "Config": {"Env": [*ENV, *traits.image_env], "Entrypoint": ["vllm"], "Labels": {}},
    }


def _layers(reference: str, build: str) -> list[str]:
    """Return the layers: another build has its own last two on the same base."""
    salts = [""] * (_LAYERS - 2) + [build] * 2
    return [digest("layer", reference, str(index), salt) for index, salt in enumerate(salts)]


def _graph(node: Node, reference: str) -> dict[str, Any]:
    if node.traits.image_store == "containerd":
        return {"Data": None, "Name": "overlayfs"}
    folder = f"/var/lib/docker/overlay2/{digest('folder', node.name, reference)[7:]}"
    return {"Data": {"MergedDir": f"{folder}/merged", "UpperDir": f"{folder}/diff"}, "Name": "overlay2"}


def info(node: Node, arguments: list[str]) -> int:
    """Answer docker info, as JSON by template or as a short text."""
    options, _ = docker_view.split("info", arguments, {"--format": "format", "-f": "format"}, {})
    told = _info(node)
    form = options.get("format")
    if form:
        return docker_view.show([told], [], ["{{json .}}" if form[-1] == "json" else form[-1]])
    for key in ("ServerVersion", "Driver", "KernelVersion", "OperatingSystem", "Architecture", "Name"):
        sys.stdout.write(f" {key}: {told[key]}\n")
    return 0


def _info(node: Node) -> dict[str, Any]:
    contained = node.traits.image_store == "containerd"
    status = (
        [["driver-type", "io.containerd.snapshotter.v1"]]
        if contained
        else [["Backing Filesystem", "extfs"], ["Supports d_type", "true"], ["Using metacopy", "false"]]
    )
    return {
        "ID": digest("docker", node.name)[7:43],
        "Driver": "overlayfs" if contained else "overlay2",
        "DriverStatus": status,
        "KernelVersion": node.traits.kernel,
        "OperatingSystem": "Ubuntu 24.04.3 LTS",
        "OSType": "linux",
        "Architecture": "aarch64",
        "NCPU": 20,
        "MemTotal": system.TOTAL_KIB * 1024,
        "DockerRootDir": "/var/lib/docker",
        "Name": node.name,
        "ServerVersion": node.traits.docker_version,
        "Runtimes": {
            "io.containerd.runc.v2": {"path": "runc"},
            "nvidia": {"path": "nvidia-container-runtime"},
            "runc": {"path": "runc"},
        },
        "DefaultRuntime": "runc",
        "CgroupDriver": "systemd",
        "CgroupVersion": "2",
        "SecurityOptions": ["name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"],
    }
