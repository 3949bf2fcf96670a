"""Plain reader: the all-disk path, every lookup read for itself, in Python. What the other readers must equal, and the way without a compiler."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.engram.reader import Source
from sparkctl_vllm.engram.row_format import BYTES, decode
from sparkctl_vllm.refusal import demand


def read(source: Source, ids: NDArray[np.int64], threads: int = 1) -> NDArray[np.uint16]:
    """Return bfloat16 bits [lookups, 256]; a negative id is nobody's row: zeros. Raises Refusal for what cannot be read."""
    flat = ids.reshape(-1)
    beyond = flat[flat >= source.rows]
    demand(not len(beyond), "row", beyond[:1].tolist(), f"less than {source.rows}")
    rows = np.zeros((len(flat), BYTES["fp8"]), dtype=np.uint8)
    fd = os.open(source.path, os.O_RDONLY)
    try:
        if threads == 1:
            for place, row in enumerate(flat):
                _into(fd, source, int(row), rows[place])
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(lambda at: _into(fd, source, int(flat[at]), rows[at]), range(len(flat))))
    finally:
        os.close(fd)
    return decode(rows)


def _into(fd: int, source: Source, row: int, place: NDArray[np.uint8]) -> None:
    if row < 0:
        return
    for base, length, at in source.parts:
        read = os.preadv(fd, [place[at : at + length].data], base + row * length)
        demand(read == length, str(source.path), f"{read} bytes of row {row}", f"{length}")
