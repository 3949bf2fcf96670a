"""`sparkctl-vllm engram count | merge`: stream corpora through the hash and keep how often each row is read; add up what nodes counted."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from sparkctl_vllm.engram import corpus, counts, vocabulary
from sparkctl_vllm.engram.counts import Corpus, Tally
from sparkctl_vllm.engram.tables import Table
from sparkctl_vllm.engram.vocabulary import Vocabulary

Answer = tuple[int, dict[str, Any], Callable[[dict[str, Any]], str]]
BATCH = 1 << 16
"""Tokens that are counted together: some 25 MB of rows a table."""
KEEP_S = 120.0
"""Ours: seconds between two times that the counts are written; what a break loses at most."""


def count_options(parser: argparse.ArgumentParser, layers: Sequence[int]) -> None:
    """Add what counting needs."""
    parser.add_argument(
        "corpora",
        nargs="+",
        type=Path,
        metavar="CORPUS",
        help="JSON lines or .parquet, with token ids or text",
    )
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json of the model")
    parser.add_argument(
        "-o",
        dest="path",
        type=Path,
        required=True,
        help="the file of counts; one that is there is gone on with",
    )
    parser.add_argument("--layer", type=int, choices=layers, help="this table only: half the memory")


def merge_options(parser: argparse.ArgumentParser) -> None:
    """Add what merging needs."""
    parser.add_argument("files", nargs="+", type=Path, metavar="COUNTS")
    parser.add_argument("-o", dest="path", type=Path, required=True, help="the file of counts to write")


def count(asked: argparse.Namespace, tables: Sequence[Table]) -> Answer:
    """Count every corpus that is not yet counted, and say what the file holds."""
    known, tokenizer = vocabulary.read(asked.tokenizer, tables[0].vocabulary)
    tally = Tally(tables)
    if asked.path.exists():
        tally.add(counts.read(asked.path))
    encode = tokenizer.encode
    for path in asked.corpora:
        one = counts.started(tally.corpora, path.name, corpus.fingerprint(path))
        if one.whole:
            print(f"{path.name}: counted before", file=sys.stderr)
            continue
        _count_one(
            asked.path, tally, one, path, known, lambda text: list(encode(text, add_special_tokens=False).ids)
        )
    counts.write(asked.path, tally.ledger())
    return 0, _counted(asked.path), _told


def _count_one(  # noqa: PLR0913, PLR0917 - one corpus, and all that counting it needs
    path: Path, tally: Tally, one: Corpus, source: Path, known: Vocabulary, tokenise: corpus.Tokenise
) -> None:
    waiting: list[np.ndarray[Any, np.dtype[np.int64]]] = []
    size, kept = 0, time.monotonic()
    for document in corpus.documents(source, one.done, tokenise):
        waiting.append(known.compressed(document.tokens, document.name))
        size += len(document.tokens)
        one = replace(one, tokens=one.tokens + len(document.tokens), documents=one.documents + 1)
        if document.after is not None and (size >= BATCH):
            _flush(tally, waiting)
            size, one = 0, replace(one, done=document.after)
            tally.progress(one)
            if time.monotonic() - kept > KEEP_S:
                counts.write(path, tally.ledger())
                kept = time.monotonic()
    _flush(tally, waiting)
    tally.progress(replace(one, whole=True))
    counts.write(path, tally.ledger())


def _flush(tally: Tally, waiting: "list[np.ndarray[Any, np.dtype[np.int64]]]") -> None:
    if waiting:
        lengths = [len(one) for one in waiting]
        begins = np.cumsum([0, *lengths[:-1]])
        tally.count(np.concatenate(waiting), np.repeat(begins, lengths))
        waiting.clear()


def merge(asked: argparse.Namespace, tables: Sequence[Table]) -> Answer:
    """Add up files of counts."""
    ledgers = [counts.read(path) for path in asked.files]
    layers = {layer for one in ledgers for layer in one.tables}
    own = [one for one in tables if one.layer in layers]
    counts.write(asked.path, counts.merged(own, ledgers))
    return 0, _counted(asked.path), _told


def _counted(path: Path) -> dict[str, Any]:
    ledger = counts.read(path)
    return {
        "schema": "sparkctl-engram-count/1",
        "path": str(path),
        "tokens": ledger.tokens,
        "corpora": [asdict(one) for one in ledger.corpora],
        "tables": [
            {"layer": layer, "lookups": one.lookups, "rows_read": len(one.ids), "rows": one.rows}
            for layer, one in ledger.tables.items()
        ],
    }


def _told(document: dict[str, Any]) -> str:
    lines = [f"{document['path']}: {document['tokens']:,} tokens"]
    lines += [
        f"  {one['name']}: {one['tokens']:,} tokens in {one['documents']:,} documents"
        for one in document["corpora"]
    ]
    lines += [
        f"  layer {one['layer']}: {one['lookups']:,} lookups of {one['rows_read']:,} of {one['rows']:,} rows"
        for one in document["tables"]
    ]
    return "\n".join(lines)
