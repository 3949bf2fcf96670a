"""Steps: rows that the steps of a server look up, from text that did not choose the hot rows; what the kill switch times both paths on.

A steps file is a NumPy array int64 [steps, tokens, hash columns] of rows of the whole table, so that one file serves every rank.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.engram import corpus, row_ids
from sparkctl_vllm.engram.row_ids import Ids
from sparkctl_vllm.engram.tables import Slice, Table
from sparkctl_vllm.engram.vocabulary import Vocabulary
from sparkctl_vllm.refusal import Refusal, demand

AGAIN = "write it anew: sparkctl-vllm engram steps"


def of_corpus(
    path: Path, known: Vocabulary, tokenise: corpus.Tokenise, table: Table, tokens: int
) -> Iterator[Ids]:
    """Yield the rows of steps [tokens, columns], so many tokens of one document after the other, each as far as it fills steps."""
    for document in corpus.documents(path, 0, tokenise):
        ids = known.compressed(document.tokens, document.name)
        rows = row_ids.of_sequence(table, ids)
        for begin in range(0, len(rows) - tokens + 1, tokens):
            yield rows[begin : begin + tokens]


def write(path: Path, steps: Sequence[Ids]) -> None:
    """Write a steps file, whole or not at all."""
    fresh = path.with_name(path.name + ".partial")
    with fresh.open("wb") as file:
        np.save(file, np.stack(steps), allow_pickle=False)
    fresh.replace(path)


def read(path: Path, table: Table, least: int) -> NDArray[np.int64]:
    """Return the steps of a file; raises Refusal unless there are enough of them and every row is one of its hash column's."""
    demand(path.is_file(), str(path), "no such file", "a steps file", AGAIN)
    try:
        found = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as fault:
        raise Refusal(path.name, fault, "a steps file", AGAIN) from fault
    shape = f"int64 [{least} or more, tokens, {table.columns}]"
    fits = (
        isinstance(found, np.ndarray) and found.dtype == np.int64 and found.ndim == 3 and len(found) >= least
    )
    demand(
        fits and found.shape[2] == table.columns and found.shape[1] > 0,
        path.name,
        f"{found.dtype} {found.shape}" if isinstance(found, np.ndarray) else "several arrays",
        shape,
        AGAIN,
    )
    begin = np.array(table.offsets)
    inside = bool(((found >= begin) & (found < begin + np.array(table.primes))).all())
    demand(inside, path.name, "rows of another table", f"those of layer {table.layer}'s hash columns", AGAIN)
    return np.asarray(found, dtype=np.int64)


def of_rank(steps: NDArray[np.int64], owned: Slice) -> list[Ids]:
    """Return the lookups of one rank in each step, flat, counted from the rank's first row."""
    return [np.ascontiguousarray(row_ids.of_rank(step, owned).reshape(-1)) for step in steps]
