"""Hot rows: the rows of a rank that the counts say are read most, copied out of the checkpoint into a rows file, and that file into memory.

`all_rows` copies every row of the rank, weight and scale adjacent: one read a row for whatever is not resident.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.engram import rows_file
from sparkctl_vllm.engram.checkpoint import WINDOW, Shard, identity, rows_of
from sparkctl_vllm.engram.counts import Counted
from sparkctl_vllm.engram.membership import Membership
from sparkctl_vllm.engram.reader import Held, Source
from sparkctl_vllm.engram.row_format import Format, halved
from sparkctl_vllm.engram.rows_file import Meaning
from sparkctl_vllm.engram.tables import Slice
from sparkctl_vllm.refusal import demand


def of_rank(counted: Counted, most: int, owned: Slice) -> NDArray[np.uint32]:
    """Return which of the table's `most` hottest rows are this rank's, ascending, counted from its first row."""
    demand(counted.rows == owned.table.rows, "rows of the counts", counted.rows, str(owned.table.rows))
    hottest = counted.hottest(most)
    inside = hottest[(hottest >= owned.begin) & (hottest < owned.end)]
    return inside - np.uint32(owned.begin)


def pack(  # noqa: PLR0913 - what a file is made of
    path: Path, found: Shard, owned: Slice, ids: NDArray[np.uint32], *, kind: Format, counts: str
) -> Meaning:
    """Write a rank's hot rows and return what the file says; `counts` is the SHA-256 of what chose them."""
    demand(len(ids) > 0, "hot rows of this rank", 0, "at least one", "count more text, or keep more rows")
    bound = identity(found, owned)
    meaning = Meaning(holds="hot", **_of(owned), rows=len(ids), kind=kind, checkpoint=bound, counts=counts)
    rows = rows_of(found, owned, ids.astype(np.int64))
    return rows_file.write(path, meaning, ids, rows if kind == "fp8" else (halved(piece) for piece in rows))


def all_rows(path: Path, found: Shard, owned: Slice) -> Meaning:
    """Write all rows of a rank, 264 bytes each, and return what the file says."""
    bound = identity(found, owned)
    meaning = Meaning(holds="all", **_of(owned), rows=owned.rows, kind="fp8", checkpoint=bound)
    return rows_file.write(path, meaning, None, _whole(found, owned))


def held(path: Path, owned: Slice, checkpoint: Mapping[str, str]) -> Held:
    """Return a rank's hot rows in memory; raises Refusal unless they are this rank's, of this checkpoint, and whole."""
    meaning = rows_file.opened(path, {"holds": "hot", **_of(owned), "checkpoint": dict(checkpoint)})
    ids, rows = rows_file.loaded(path, meaning)
    return Held(rows=rows, membership=Membership.of(ids, owned.rows), kind=meaning.kind)


def source(path: Path, owned: Slice, checkpoint: Mapping[str, str]) -> Source:
    """Return where a rank's rows lie in a file with all of them; raises Refusal as `held` does, but hashes nothing."""
    meaning = rows_file.opened(path, {"holds": "all", **_of(owned), "checkpoint": dict(checkpoint)})
    return Source.of_file(path, meaning)


def _of(owned: Slice) -> dict[str, Any]:
    return {
        "layer": owned.table.layer,
        "rank": owned.rank,
        "ranks": owned.ranks,
        "begin": owned.begin,
        "end": owned.end,
    }


def _whole(found: Shard, owned: Slice) -> Iterator[NDArray[np.uint8]]:
    for begin in range(0, owned.rows, 16 * WINDOW):
        yield from rows_of(found, owned, np.arange(begin, min(begin + 16 * WINDOW, owned.rows)))
