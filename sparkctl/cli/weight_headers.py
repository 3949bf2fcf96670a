"""Headers of safetensors files: the name and the bytes of every tensor of a checkpoint; no weight is read.

A file begins with the header's length (8 bytes, little-endian) and the header (JSON): by name dtype, shape and data_offsets.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from launcher.capacity.weights import Tensors
from sparkctl import edge
from sparkctl.errors import FileFault

MOST_HEADER = 100_000_000
"""Bytes; the format's own limit."""


def tensors(folder: Path) -> tuple[Tensors, ...]:
    """Return the tensors of every `*.safetensors` in a folder.

    Raises:
        FileFault: there is none, or one is no safetensors file.

    """
    paths = sorted(folder.glob("*.safetensors"))
    if not paths:
        raise FileFault(
            f"{folder}: no *.safetensors file lies there", hint="name the folder of the model's weights"
        )
    return tuple(tensor for path in paths for tensor in _tensors(path))


def _tensors(path: Path) -> Iterator[Tensors]:
    header = edge.parse_json(_header(path), source=f"{path}: header")
    if not isinstance(header, dict):
        raise _wrong(path, "its header is no mapping")
    for name, told in header.items():
        if name == "__metadata__":
            continue
        ends = told.get("data_offsets") if isinstance(told, dict) else None
        if not (isinstance(ends, list) and len(ends) == 2 and all(type(end) is int for end in ends)):
            raise _wrong(path, f"{name} has no data_offsets of two numbers")
        yield Tensors(name=name, kind="", size=ends[1] - ends[0])


def _header(path: Path) -> str:
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(MOST_HEADER, os.fstat(file.fileno()).st_size - 8):
                raise _wrong(path, f"it claims a header of {length:,} bytes")
            return file.read(length).decode("utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise FileFault(
            f"{path}: cannot be read: {fault}", hint="check the path and its permissions"
        ) from fault


def _wrong(path: Path, why: str) -> FileFault:
    return FileFault(
        f"{path}: not a safetensors file: {why}", hint="fetch the file again, or name another folder"
    )
