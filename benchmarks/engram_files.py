"""Files for the Engram benchmark: a rank's table in both layouts, really written, and a page cache that holds what it is told to and no more."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.engram import rows_file
from sparkctl_vllm.engram.reader import Source
from sparkctl_vllm.engram.rows_file import PAGE, Meaning

PIECE = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table: weight and scale adjacent in a rows file, and apart as in a checkpoint."""

    together: Source
    apart: Source


def rows_at(begin: int, count: int, seed: int) -> NDArray[np.uint8]:
    """Return made-up rows [count, 264], a function of their ids: no code is a NaN, scales of a few octaves as real ones."""
    rows = (
        np.random.default_rng((seed, begin)).integers(0, 2**64, (count, 33), dtype=np.uint64).view(np.uint8)
    )
    rows[:, :256] &= np.uint8(0xBF)
    rows[:, 256:] = 115 + (rows[:, 256:] & 15)
    return rows


def written(folder: Path, layer: int, rows: int) -> Table:
    """Write one table in both layouts."""
    meaning = Meaning(
        holds="all", layer=layer, rank=0, ranks=4, begin=0, end=rows, rows=rows, kind="fp8", checkpoint={"made": "up"}
    )  # fmt: skip
    path, other = folder / f"together-{layer}", folder / f"apart-{layer}"
    with other.open("wb") as file:

        def pieces():  # noqa: ANN202 - a generator of rows
            for begin in range(0, rows, PIECE):
                piece = rows_at(begin, min(PIECE, rows - begin), layer)
                file.seek(begin * 256)
                file.write(piece[:, :256].tobytes())
                file.seek(rows * 256 + begin * 8)
                file.write(piece[:, 256:].tobytes())
                yield piece

        meaning = rows_file.write(path, meaning, None, pieces())
        file.flush()
        os.fsync(file.fileno())
    apart = Source(path=other, rows=rows, parts=((0, 256, 0), (rows * 256, 8, 256)))
    return Table(together=Source.of_file(path, meaning), apart=apart)


def read_rows(source: Source, ids: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Return those rows [ids, 264], read from the file in one pass."""
    ((base, length, _),) = source.parts
    found = np.empty((len(ids), length), dtype=np.uint8)
    with source.path.open("rb") as file:
        for begin in range(0, source.rows, PIECE):
            low, high = np.searchsorted(ids, [begin, begin + PIECE])
            file.seek(base + begin * length)
            piece = np.fromfile(file, np.uint8, min(PIECE, source.rows - begin) * length).reshape(-1, length)
            found[low:high] = piece[ids[low:high] - begin]
            os.posix_fadvise(file.fileno(), base + begin * length, piece.nbytes, os.POSIX_FADV_DONTNEED)
    return found


def touch(rows: NDArray[np.uint8]) -> None:
    """Read a byte of every page of resident rows, so that no step is the first to meet it.

    Without this, on a virtual machine, the first lookup in each 2 MiB took 50 to 100 us, and a step 1 to 3 ms until each had been met
    once, with no page fault counted in the machine. Memory that a server holds for hours does not do that.
    """
    rows.reshape(-1)[::PAGE].sum()


class Cache:
    """The page cache of one file, held to the pages of the hottest rows: what a page cache of that size would keep at best."""

    def __init__(self, source: Source, hottest: NDArray[np.int64], size: int) -> None:
        """Drop the file's pages and read in those of the hottest rows, in the order of `hottest`, until `size` bytes are used."""
        self._source = source
        self._file = os.open(source.path, os.O_RDONLY)
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_RANDOM)
        self.drop_all()
        end = max(base + source.rows * length for base, length, _ in source.parts)
        self.kept = np.zeros(end // PAGE + 2, dtype=bool)
        pages = size // PAGE
        for base, length, _ in source.parts[1:]:  # scales: so small that they are kept whole
            self.kept[base // PAGE : (base + source.rows * length) // PAGE + 1] = True
        left = pages - int(self.kept.sum())
        for row in np.array_split(hottest, max(1, len(hottest) // 4096)):
            if left <= 0:
                break
            before = int(self.kept.sum())
            self.kept[self._pages(row, first_part_only=True)] = True
            left -= int(self.kept.sum()) - before
        self._read_in()

    def evict(self, ids: NDArray[np.int64]) -> None:
        """Give back the pages that these rows brought in and that the cache would not keep."""
        pages = np.unique(self._pages(ids, first_part_only=False))
        for page in pages[~self.kept[pages]]:
            os.posix_fadvise(self._file, int(page) * PAGE, PAGE, os.POSIX_FADV_DONTNEED)

    def drop_all(self) -> None:
        """Give back every page."""
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)

    def share_there(self, sample: int = 2000) -> float:
        """Return what share of the pages that it should hold are there, by a sample of reads that do not wait for the disk."""
        pages = np.random.default_rng(0).choice(np.flatnonzero(self.kept), sample)
        buffer = bytearray(8)
        found = 0
        for page in pages:
            try:
                found += os.preadv(self._file, [buffer], int(page) * PAGE, os.RWF_NOWAIT) > 0
            except BlockingIOError:
                continue
        return found / sample

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _pages(self, ids: NDArray[np.int64], *, first_part_only: bool) -> NDArray[np.int64]:
        parts = self._source.parts[:1] if first_part_only else self._source.parts
        firsts = [(base + ids * length) // PAGE for base, length, _ in parts]
        lasts = [(base + (ids + 1) * length - 1) // PAGE for base, length, _ in parts]
        return np.concatenate([*firsts, *lasts])

    def _read_in(self) -> None:
        pages = np.flatnonzero(self.kept)
        buffer = bytearray(PAGE)
        for page in pages:
            os.posix_fadvise(self._file, int(page) * PAGE, PAGE, os.POSIX_FADV_WILLNEED)
        for page in pages:
            os.preadv(self._file, [buffer], int(page) * PAGE)
