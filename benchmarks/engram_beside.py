"""Lookups asked for beside the step, by a thread of their own: the part that the CUDA driver's thread has where rows are staged on a GPU."""

import time
from collections.abc import Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.engram.reader import Reader
from sparkctl_vllm.engram.row_ids import Ids

Rows = NDArray[np.uint16]


class Beside:
    """One thread over the readers of a step's tables; the step hands over its ids and later takes each table's rows, in the same order."""

    def __init__(self, readers: Sequence[Reader], leads_ms: Sequence[float]) -> None:
        """Start the thread; `leads_ms` after the handing over each table's layer wants its rows."""
        self._readers, self._leads = readers, leads_ms
        self._steps: SimpleQueue[tuple[Sequence[Ids], Sequence[Rows], list[Future[None]]] | None] = (
            SimpleQueue()
        )
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def look_up(self, asked: Sequence[Ids], out: Sequence[Rows]) -> float:
        """Hand over, sleep as a forward computes, take; return the seconds that the step waited: the handing over, and what was left at each layer."""
        came: list[Future[None]] = [Future() for _ in asked]
        began = time.perf_counter()
        self._steps.put((asked, out, came))
        forward = time.perf_counter()
        waited = forward - began
        for one, lead in zip(came, self._leads, strict=True):
            left = lead / 1e3 - (time.perf_counter() - forward)
            if left > 0:
                time.sleep(left)
            begin = time.perf_counter()
            one.result()
            waited += time.perf_counter() - begin
        return waited

    def close(self) -> None:
        """End the thread; the readers stay open."""
        self._steps.put(None)
        self._thread.join()

    def _run(self) -> None:
        while step := self._steps.get():
            asked, out, came = step
            for reader, ids, rows in zip(self._readers, asked, out, strict=True):
                reader.begin(ids, rows)
            for reader, rows, one in zip(self._readers, out, came, strict=True):
                reader.wait(rows)
                one.set_result(None)
