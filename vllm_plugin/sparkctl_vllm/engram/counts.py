"""Counts: how often each row of a table is read by a corpus; what makes rows hot. Counted in bounded memory, mergeable, resumable.

While counting there is a uint32 for every row: 1.5 GB a table of V4.1-Flash, whatever the corpus. On disk only the rows that were read: a
safetensors file with `ids.L{layer}` and `counts.L{layer}`, uint32, by ascending id, and in its metadata what was counted, how far. It is
replaced as a whole, so a break loses at most what was counted since the last time.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from sparkctl_vllm.engram import row_ids
from sparkctl_vllm.engram.tables import Table
from sparkctl_vllm.refusal import Refusal, demand

SCHEMA = "sparkctl-engram-counts/1"
MOST = 2**32 - 1
"""Most tokens of one file: a row's count never leaves uint32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """One corpus, as far as it is counted: `done` is the place to go on, `whole` that there is none."""

    name: str
    fingerprint: str
    tokens: int = 0
    documents: int = 0
    done: int = 0
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Rows that were read, uint32 ascending, and how often, of one table of so many rows."""

    rows: int
    ids: NDArray[np.uint32]
    counts: NDArray[np.uint32]

    @property
    def lookups(self) -> int:
        """How many lookups were counted."""
        return int(self.counts.sum(dtype=np.int64))

    def hottest(self, most: int) -> NDArray[np.uint32]:
        """Return the ids of the `most` rows that were read most often, ascending; of equals the lower ids."""
        order = np.argsort(-self.counts.astype(np.int64), kind="stable")[:most]
        return np.sort(self.ids[order])


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What a file holds: tables by layer, corpora in the order in which they were counted."""

    tables: Mapping[int, Counted]
    corpora: tuple[Corpus, ...]

    @property
    def tokens(self) -> int:
        """Tokens in all."""
        return sum(one.tokens for one in self.corpora)


class Tally:
    """Counting: a number for every row of every table, and the corpora so far."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tuple(tables)
        self._counts = {table.layer: np.zeros(table.rows, dtype=np.uint32) for table in tables}
        self.corpora: tuple[Corpus, ...] = ()

    @property
    def tokens(self) -> int:
        """Tokens in all."""
        return sum(one.tokens for one in self.corpora)

    def count(self, ids: NDArray[np.int64], starts: NDArray[np.int64]) -> None:
        """Count the rows of compressed ids [tokens], where `starts` [tokens] is the place at which each token's document begins."""
        for table in self._tables:
            rows = row_ids.of_batch(table, ids, np.arange(len(ids)), starts)
            np.add.at(self._counts[table.layer], rows.reshape(-1), np.uint32(1))

    def add(self, ledger: Ledger) -> None:
        """Add what another file holds. Raises Refusal for a corpus that is in both: it would count twice."""
        known = {one.fingerprint: one.name for one in self.corpora}
        for one in ledger.corpora:
            twice = known.get(one.fingerprint, "")
            demand(not twice, "corpus", f"{one.name} is already counted, as {twice}", "each corpus once")
        self._within(self.tokens + ledger.tokens)
        for table in self._tables:
            found = ledger.tables.get(table.layer)
            demand(
                found is not None,
                f"table of layer {table.layer}",
                "not in the file",
                "counts of the same tables",
            )
            if found is None:
                continue
            demand(found.rows == table.rows, f"rows of layer {table.layer}", found.rows, str(table.rows))
            self._counts[table.layer][found.ids] += found.counts
        self.corpora = (*self.corpora, *ledger.corpora)

    def progress(self, corpus: Corpus) -> None:
        """Say how far a corpus is counted; it takes the place of what was said of it before."""
        rest = tuple(one for one in self.corpora if one.fingerprint != corpus.fingerprint)
        self.corpora = (*rest, corpus)
        self._within(self.tokens)

    def ledger(self) -> Ledger:
        """Return what is counted so far."""
        found = {}
        for table in self._tables:
            counts = self._counts[table.layer]
            ids = np.flatnonzero(counts)
            found[table.layer] = Counted(rows=table.rows, ids=ids.astype(np.uint32), counts=counts[ids])
        return Ledger(tables=found, corpora=self.corpora)

    @staticmethod
    def _within(tokens: int) -> None:
        demand(
            tokens <= MOST,
            "tokens",
            tokens,
            f"at most {MOST} in one file",
            "count the rest into a file of its own",
        )


def write(path: Path, ledger: Ledger) -> None:
    """Replace a file as a whole."""
    tensors: dict[str, NDArray[np.uint32]] = {}
    for layer, one in ledger.tables.items():
        tensors |= {f"ids.L{layer}": one.ids, f"counts.L{layer}": one.counts}
    told = {
        "schema": SCHEMA,
        "rows": json.dumps({layer: one.rows for layer, one in ledger.tables.items()}),
        "corpora": json.dumps([asdict(one) for one in ledger.corpora]),
    }
    fresh = path.with_name(path.name + ".partial")
    save_file(tensors, str(fresh), metadata=told)
    with fresh.open("rb") as file:
        os.fsync(file.fileno())
    fresh.replace(path)


def read(path: Path) -> Ledger:
    """Return what a file holds; raises Refusal for what is none."""
    demand(path.is_file(), str(path), "no such file", "counts", "make them: sparkctl-vllm engram count")
    try:
        with safe_open(str(path), framework="numpy") as file:
            told = file.metadata() or {}
            demand(told.get("schema") == SCHEMA, f"{path.name}: schema", told.get("schema"), SCHEMA)
            rows = {int(layer): int(count) for layer, count in json.loads(told["rows"]).items()}
            corpora = tuple(Corpus(**one) for one in json.loads(told["corpora"]))
            tables = {
                layer: Counted(
                    rows=count,
                    ids=file.get_tensor(f"ids.L{layer}"),
                    counts=file.get_tensor(f"counts.L{layer}"),
                )
                for layer, count in rows.items()
            }
    except (SafetensorError, KeyError, TypeError, AttributeError, ValueError) as fault:
        if isinstance(fault, Refusal):
            raise
        raise Refusal(path.name, fault, "counts as sparkctl-vllm engram count writes them") from fault
    for layer, one in tables.items():
        ascending = bool((one.ids[1:] > one.ids[:-1]).all()) and (not len(one.ids) or one.ids[-1] < one.rows)
        fits = ascending and len(one.ids) == len(one.counts) and bool((one.counts > 0).all())
        demand(
            fits,
            f"{path.name}: layer {layer}",
            "ids out of order or counts of nothing",
            "ascending ids, counts above 0",
        )
    return Ledger(tables=tables, corpora=corpora)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file of counts: what a rows file is bound to."""
    with path.open("rb") as file:
        found = sha256()
        while piece := file.read(1 << 22):
            found.update(piece)
    return found.hexdigest()


def merged(tables: Iterable[Table], ledgers: Iterable[Ledger]) -> Ledger:
    """Return the sum of files, from several nodes for instance."""
    tally = Tally(tuple(tables))
    for one in ledgers:
        tally.add(one)
    return tally.ledger()


def started(corpora: Sequence[Corpus], name: str, fingerprint: str) -> Corpus:
    """Return a corpus as far as it is counted, from its beginning if it is not."""
    known = {one.fingerprint: one for one in corpora}
    return replace(known.get(fingerprint, Corpus(name=name, fingerprint=fingerprint)), name=name)
