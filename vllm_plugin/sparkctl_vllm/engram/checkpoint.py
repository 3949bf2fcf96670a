"""Checkpoint: where an Engram table lies in its safetensors file, what identifies it, and its rows, of which only those asked for are read.

Weights `layers.N.engram.embed.weight` F8_E4M3 [rows, 256] and scales `layers.N.engram.embed.scale` F8_E8M0 [rows, 8] lie apart.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.engram.definition import ROW_VALUES
from sparkctl_vllm.engram.row_format import SCALES
from sparkctl_vllm.engram.tables import Slice
from sparkctl_vllm.refusal import Refusal, demand

INDEX = "model.safetensors.index.json"
MOST_HEADER = 100_000_000
WINDOW = 16_384
"""Rows that are looked at together: 4 MiB of weights."""
DENSE = 16
"""Ours: from one wanted row in sixteen on, a window is read whole; a page of 4 KiB holds sixteen rows."""
SAMPLES = 1024
"""Rows, evenly spaced over a rank's, whose bytes identify the table: a few hundred milliseconds of a cold NVMe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One table in its file: where weights and scales begin, in bytes, and how many rows there are."""

    path: Path
    layer: int
    rows: int
    weights_at: int
    scales_at: int
    header_sha256: str


def shard(model: Path, layer: int) -> Shard:
    """Find a layer's table: `model` is the checkpoint's folder with its index, or the safetensors file itself."""
    names = [f"layers.{layer}.engram.embed.{part}" for part in ("weight", "scale")]
    path = _file_of(model, names[0]) if model.is_dir() else model
    demand(path.is_file(), str(path), "no such file", "a safetensors file")
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        demand(
            8 < length <= MOST_HEADER, f"{path.name}: header", f"{length} bytes", "that of a safetensors file"
        )
        header = file.read(length)
    try:
        tensors: dict[str, Any] = json.loads(header)
        weight, scale = (_tensor(tensors, path, name, layer) for name in names)
    except (ValueError, TypeError, AttributeError) as fault:
        raise Refusal(f"{path.name}: header", fault, "that of a safetensors file") from fault
    rows = weight["shape"][0]
    _is(path, names[0], weight, "F8_E4M3", [rows, ROW_VALUES])
    _is(path, names[1], scale, "F8_E8M0", [rows, SCALES])
    begin = 8 + length
    end = begin + max(weight["data_offsets"][1], scale["data_offsets"][1])
    size = path.stat().st_size
    demand(size >= end, f"{path.name}: size", size, f"at least {end}", "copy the file again")
    return Shard(
        path=path,
        layer=layer,
        rows=rows,
        weights_at=begin + weight["data_offsets"][0],
        scales_at=begin + scale["data_offsets"][0],
        header_sha256=sha256(header).hexdigest(),
    )


def identity(found: Shard, owned: Slice) -> Mapping[str, str]:
    """Return what binds a rank's rows to this checkpoint: the header's hash, and that of rows evenly spaced over the rank's range."""
    demand(
        found.rows == owned.table.rows,
        f"{found.path.name}: rows of layer {found.layer}",
        found.rows,
        f"{owned.table.rows}, as the hash columns of this model add up to",
    )
    spaced = np.unique(np.linspace(0, owned.rows - 1, SAMPLES).astype(np.int64))
    digest = sha256()
    for piece in rows_of(found, owned, spaced):
        digest.update(piece.tobytes())
    return {"header": found.header_sha256, "samples": digest.hexdigest()}


def rows_of(found: Shard, owned: Slice, ids: NDArray[np.int64]) -> Iterator[NDArray[np.uint8]]:
    """Yield the rows of ascending ids, counted from the rank's first, uint8 [n, 264], a window of the table at a time.

    Raises Refusal for a hole in the file where a row is wanted: on a node that holds another rank's rows they would read as zeros.
    """
    with found.path.open("rb") as file:
        _no_hole(found, file.fileno(), owned, ids)
        cuts = [0, *(np.flatnonzero(np.diff(ids // WINDOW)) + 1).tolist(), len(ids)]
        for begin, end in pairwise(cuts if len(ids) else ()):
            yield _window(file.fileno(), found, ids[begin:end] + owned.begin)


def _window(fd: int, found: Shard, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    first, last = int(rows[0]), int(rows[-1])
    if len(rows) * DENSE >= last + 1 - first:
        weights = _read(fd, found.weights_at + first * ROW_VALUES, (last + 1 - first, ROW_VALUES))[
            rows - first
        ]
        scales = _read(fd, found.scales_at + first * SCALES, (last + 1 - first, SCALES))[rows - first]
        return np.concatenate([weights, scales], axis=1)
    apart = [
        np.concatenate(
            [
                _read(fd, found.weights_at + int(row) * ROW_VALUES, (1, ROW_VALUES)),
                _read(fd, found.scales_at + int(row) * SCALES, (1, SCALES)),
            ],
            axis=1,
        )
        for row in rows
    ]
    return np.concatenate(apart)


def _read(fd: int, at: int, shape: tuple[int, int]) -> NDArray[np.uint8]:
    data = os.pread(fd, shape[0] * shape[1], at)
    demand(len(data) == shape[0] * shape[1], "bytes read", len(data), f"{shape[0] * shape[1]} at byte {at}")
    return np.frombuffer(data, dtype=np.uint8).reshape(shape)


def _no_hole(found: Shard, fd: int, owned: Slice, ids: NDArray[np.int64]) -> None:
    if not len(ids):
        return
    for at, width in ((found.weights_at, ROW_VALUES), (found.scales_at, SCALES)):
        begin, end = (at + (owned.begin + int(one)) * width for one in (ids[0], ids[-1] + 1))
        hole = os.lseek(fd, begin, os.SEEK_HOLE)
        demand(
            hole >= end,
            f"{found.path.name}: a hole",
            f"at byte {hole}",
            f"none between byte {begin} and {end}",
            f"this file does not hold all rows of rank {owned.rank}: take the whole checkpoint, or that rank's copy",
        )


def _file_of(model: Path, name: str) -> Path:
    index = model / INDEX
    demand(index.is_file(), str(index), "no such file", "the index of a checkpoint, or name the file itself")
    try:
        file = json.loads(index.read_text(encoding="utf-8"))["weight_map"][name]
    except (ValueError, KeyError, TypeError) as fault:
        raise Refusal(f"{index}: {name}", repr(fault), "a checkpoint with Engram tables") from fault
    return model / str(file)


def _tensor(tensors: Mapping[str, Any], path: Path, name: str, layer: int) -> dict[str, Any]:
    allowed = f"the file that holds layer {layer}'s table"
    demand(name in tensors, f"{path.name}: {name}", "not in this file", allowed)
    found = tensors[name]
    demand(isinstance(found, dict), f"{path.name}: {name}", type(found).__name__, "a JSON object")
    return dict(found)


def _is(path: Path, name: str, tensor: Mapping[str, Any], dtype: str, shape: list[int]) -> None:
    found = (tensor.get("dtype"), tensor.get("shape"))
    demand(found == (dtype, shape), f"{path.name}: {name}", found, f"{dtype} {shape}")
