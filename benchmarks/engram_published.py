"""The two paths that others published, written anew from their descriptions, as what ours is measured against.

All-disk (tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark, patch/engram.py): distinct ids of the step, weight and scale of each read by itself by
32 threads in pieces of 16, decoded and scattered on the CPU; everything before the forward starts. Split (bot-lab-21, same file, hot rows):
ids sought among the sorted ids of resident rows, hits gathered, misses read as above, both put together. NumPy does here what torch did there.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.engram.reader import Held, Source
from sparkctl_vllm.engram.row_format import decode

THREADS, PIECE = 32, 16


class Published:
    """Both paths over one file in the checkpoint's layout; `held` makes it the split."""

    def __init__(self, source: Source, held: Held | None, ids: NDArray[np.uint32]) -> None:
        self._source, self._held = source, held
        self._sorted = ids.astype(np.int64)
        self._file = os.open(source.path, os.O_RDONLY)
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_RANDOM)
        self._pool = ThreadPoolExecutor(THREADS)

    def look_up(self, ids: NDArray[np.int64], out: NDArray[np.uint16]) -> None:
        """Put the rows of `ids` [lookups] into `out` [lookups, 256]."""
        if self._held is None:
            out[:] = self._from_disk(ids)
            return
        place = np.minimum(np.searchsorted(self._sorted, ids), len(self._sorted) - 1)
        hit = self._sorted[place] == ids
        rows = np.concatenate([self._held.rows[place[hit], :256], self._held.rows[place[hit], 256:]], axis=1)
        out[hit] = decode(rows)
        if not hit.all():
            out[~hit] = self._from_disk(ids[~hit])

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()
        os.close(self._file)

    def _from_disk(self, ids: NDArray[np.int64]) -> NDArray[np.uint16]:
        distinct, back = np.unique(ids, return_inverse=True)
        rows = np.empty((len(distinct), 264), dtype=np.uint8)
        pieces = range(0, len(distinct), PIECE)
        list(self._pool.map(lambda begin: self._piece(distinct, rows, begin), pieces))
        return decode(rows)[back]

    def _piece(self, distinct: NDArray[np.int64], rows: NDArray[np.uint8], begin: int) -> None:
        for place in range(begin, min(begin + PIECE, len(distinct))):
            for base, length, at in self._source.parts:
                os.preadv(
                    self._file, [rows[place, at : at + length].data], base + int(distinct[place]) * length
                )
