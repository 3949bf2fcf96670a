"""What lies under /srv on a practice node: the model, the Engram tables, caches and patches; made up, by name, size and hash."""

import os
import stat
from hashlib import sha256
from typing import NamedTuple

from rehearsal.node import Node, changes

_ROOT = "/srv"
MODELS = "/srv/models"
CACHE = "/srv/sparkctl-cache"
_MODEL = f"{MODELS}/DeepSeek-V4.1-Flash-EXL3"
_ENGRAM = "/srv/engram-local"
_PATCHES = "/srv/patches/"

_SHARDS = 8
_SHARD = 33_688_195_072  # ours, chosen: eight of them are what the four ranks load together
_BAD = 5
_FOLDER = 4_096

_SMALL = {
    "chat_template.jinja": 6_312,
    "config.json": 4_812,
    "generation_config.json": 181,
    "model.safetensors.index.json": 9_214_336,
    "quantization_config.json": 118_204,
    "tokenizer.json": 7_847_602,
    "tokenizer_config.json": 3_412,
}


class Entry(NamedTuple):
    """One file, folder or dangling link."""

    kind: str
    """As find's `%y`: f, d or l."""
    size: int = _FOLDER
    content: str = ""
    """What the hash is made of beside the path."""


def is_own(node: Node, path: str) -> bool:
    """Whether a path is the node's own and not the machine's; the cluster's home may itself lie under /srv."""
    return f"{path}/".startswith(f"{_ROOT}/") and not path.startswith(str(node.root.parent))


def entries(node: Node) -> dict[str, Entry]:
    """Return everything under /srv, by path."""
    traits = node.traits
    found = {
        _ROOT: Entry("d"),
        MODELS: Entry("d"),
        **_model(node),
        _ENGRAM: Entry("d"),
        f"{_ENGRAM}/engram-local.json": Entry("f", 1_406),
        f"{_ENGRAM}/table-0.bin": Entry("f", 25_422_807_040, str(node.rank)),
        f"{_ENGRAM}/table-1.bin": Entry("f", 25_422_807_040, str(node.rank)),
        CACHE: Entry("d"),
        **{f"{CACHE}/{name}": Entry("d") for name in ("tilelang", "triton", "vllm")},
    }
    for gone in traits.absent_mounts:
        found = {path: one for path, one in found.items() if not f"{path}/".startswith(f"{gone}/")}
    made = {path: Entry("d") for path in changes(node.root).folders}
    return {**made, **found}


def _model(node: Node) -> dict[str, Entry]:
    fault = node.traits.model_files
    if fault == "absent":
        return {}
    if fault == "empty":
        return {_MODEL: Entry("d")}
    files = {name: Entry("f", size) for name, size in _SMALL.items()}
    shards = [f"model-{number:05d}-of-{_SHARDS:05d}.safetensors" for number in range(1, _SHARDS + 1)]
    files |= {name: Entry("f", _SHARD + 8_192 * len(name) * at) for at, name in enumerate(shards)}
    bad = shards[_BAD - 1]
    if fault in {"shard-missing", "incomplete"}:
        del files[bad]
    if fault == "incomplete":
        folder = ".cache/huggingface/download"
        files |= {path: Entry("d") for path in (".cache", ".cache/huggingface", folder)}
        files[f"{folder}/{bad}.b7d1c2.incomplete"] = Entry("f", 11_811_160_064)
    if fault == "dangling":
        files[bad] = Entry("l", len(f"../../blobs/{bad}"))
    if fault == "shard-short":
        files[bad] = Entry("f", files[bad].size - 4_194_304)
    if fault == "shard-other":
        files[bad] = files[bad]._replace(content="other")
    return {_MODEL: Entry("d"), **{f"{_MODEL}/{name}": one for name, one in files.items()}}


def look(node: Node, path: str) -> Entry | None:
    """Return what lies at a path; None when nothing does. Any file is there in /srv/patches, the same on every node."""
    plain = path.rstrip("/") or "/"
    if not is_own(node, plain):
        return _real(plain)
    if plain.startswith(_PATCHES) and plain not in node.traits.absent_mounts:
        return Entry("f", 18_204, node.traits.patch_build)
    return entries(node).get(plain)


def children(node: Node, folder: str) -> tuple[str, ...]:
    """Return the names of what lies in a folder."""
    if not is_own(node, folder):
        return tuple(sorted(os.listdir(folder)))  # noqa: PTH208 - as below
    names = (path.removeprefix(f"{folder}/") for path in entries(node) if path.startswith(f"{folder}/"))
    return tuple(name for name in names if "/" not in name)


def _real(path: str) -> Entry | None:
    try:
        told = os.stat(path)  # noqa: PTH116 - pathlib's own would follow with more imports
    except OSError:
        return None
    return Entry("d" if stat.S_ISDIR(told.st_mode) else "f", told.st_size)


def hashed(path: str, entry: Entry) -> str:
    """Return a file's made-up SHA-256."""
    return sha256(f"{path}\0{entry.size}\0{entry.content}".encode()).hexdigest()
