"""Shards: safetensors files by their headers, and new ones put together from tensors of others, byte by byte and a piece at a time.

The library's own writer wants all tensors of a file in memory; a shard of a large model is 10 GB.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkctl_vllm.refusal import Refusal, demand

PIECE = 16 << 20
"""Bytes that are copied at once."""
LONGEST = 100_000_000
"""Bytes of a header, as the format's own library allows (safetensors/src/tensor.rs)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Where a tensor lies: its bytes from `begin` to `end` of the file."""

    file: Path
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.begin


def entries(file: Path) -> dict[str, Entry]:
    """Return what a file holds."""
    again = "copy it again: it may be cut short"
    try:
        with file.open("rb") as held:
            length = int.from_bytes(held.read(8), "little")
            demand(length <= LONGEST, str(file), f"a header of {length} bytes", "a safetensors file", again)
            said = json.loads(held.read(length))
        found = {
            name: Entry(
                file=file, dtype=one["dtype"], shape=tuple(one["shape"]),
                begin=8 + length + one["data_offsets"][0], end=8 + length + one["data_offsets"][1],
            )
            for name, one in said.items() if name != "__metadata__"
        }  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise Refusal(str(file), fault, "a safetensors file", again) from fault
    last = max((one.end for one in found.values()), default=0)
    demand(file.stat().st_size >= last, str(file), f"{file.stat().st_size} bytes", f"{last} bytes", again)
    return found


def written(path: Path, tensors: Mapping[str, Entry]) -> None:
    """Write a file of these tensors, whole or not at all."""
    # The widest numbers first, as the library does, so that every tensor is aligned; no holes are allowed.
    names = sorted(tensors, key=lambda name: (-_width(tensors[name]), name))
    header, place = {}, 0
    for name in names:
        one = tensors[name]
        header[name] = {
            "dtype": one.dtype,
            "shape": list(one.shape),
            "data_offsets": [place, place + one.size],
        }
        place += one.size
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    unfinished = path.with_suffix(".writing")
    with unfinished.open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            with tensors[name].file.open("rb") as held:
                held.seek(tensors[name].begin)
                left = tensors[name].size
                while left:
                    piece = held.read(min(PIECE, left))
                    demand(piece, str(tensors[name].file), "ended early", "a whole file")
                    out.write(piece)
                    left -= len(piece)
        out.flush()
        os.fsync(out.fileno())
    unfinished.replace(path)


def _width(one: Entry) -> float:
    return one.size / max(1, math.prod(one.shape))
