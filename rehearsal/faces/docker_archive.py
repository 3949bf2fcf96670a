"""docker save and load of a practice node: an image as a tar stream, the same bytes for the same image, checked layer by layer.

The layers' bytes are made of their digests, so that a stream is some megabytes and damage in it is seen as docker sees it.
"""

import io
import json
import sys
import tarfile
from hashlib import shake_256
from typing import Any

from rehearsal.faces import docker_image, docker_view
from rehearsal.node import Node, change

_LAYER = 262_144
_CUT = "unexpected EOF"


def _bytes(layer: str) -> bytes:
    """Return what a layer holds, from its digest; the real ones hold some GB."""
    return shake_256(layer.encode()).digest(_LAYER)


def save(node: Node, arguments: list[str]) -> int:
    """Answer docker save of one image."""
    _, names = docker_view.split("save", arguments, {}, {})
    if len(names) != 1:
        return docker_view.too_few("save")
    reference = names[0]
    if not docker_image.holds(node, reference):
        sys.stderr.write(f"Error response from daemon: reference does not exist: {reference}\n")
        return 1
    shown = docker_image.image(node, reference)
    layers: list[str] = shown["RootFS"]["Layers"]
    config = {
        "architecture": shown["Architecture"],
        "os": "linux",
        "config": shown["Config"],
        "rootfs": {"type": "layers", "diff_ids": layers},
    }
    manifest = [
        {
            "Config": "config.json",
            "RepoTags": [reference],
            "Layers": [f"blobs/sha256/{one[7:]}" for one in layers],
        }
    ]
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.USTAR_FORMAT) as tar:
        for layer in layers:
            _add(tar, f"blobs/sha256/{layer[7:]}", _bytes(layer))
        _add(tar, "config.json", _plain(config))
        _add(tar, "manifest.json", _plain(manifest))
    sys.stdout.buffer.flush()
    return 0


def _plain(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


def load(node: Node, arguments: list[str]) -> int:
    """Answer docker load from stdin."""
    docker_view.split("load", arguments, {}, {"-q": "quiet", "--quiet": "quiet"})
    try:
        entries = read(stdin())
        manifest: Any = json.loads(entries["manifest.json"])[0]
        config: Any = json.loads(entries[manifest["Config"]])
    except (tarfile.TarError, LookupError, ValueError, EOFError):
        sys.stderr.write(f"{_CUT}\n")
        return 1
    layers = config["rootfs"]["diff_ids"]
    for layer, place in zip(layers, manifest["Layers"], strict=True):
        if entries.get(place) != _bytes(layer):
            found = docker_image.digest((entries.get(place) or b"").hex())
            sys.stderr.write(f"wrong diff id calculated on extraction, expected {layer}, got {found}\n")
            return 1
    told = {"layers": layers, "architecture": config["architecture"], "config": config["config"]}
    for reference in manifest["RepoTags"]:
        keep(node, reference, told)
        sys.stdout.write(f"Loaded image: {reference}\n")
    return 0


def stdin() -> bytes:
    """Return all that comes on stdin; the fork server's own text stream is none of ours."""
    with open(0, "rb", closefd=False) as stream:
        return stream.read()


def read(data: bytes) -> dict[str, bytes]:
    """Return the files of a tar archive by name.

    Raises:
        tarfile.TarError, EOFError: it is none, or its end is missing.

    """
    found = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for entry in tar:
            file = tar.extractfile(entry)
            held = file.read() if file else b""
            if len(held) < entry.size:
                raise EOFError(_CUT)
            found[entry.name] = held
    return found


def keep(node: Node, reference: str, told: dict[str, Any]) -> None:
    """Let the node hold an image that was built or loaded."""
    change(node.root, lambda now: now._replace(images={**now.images, reference: told}))
