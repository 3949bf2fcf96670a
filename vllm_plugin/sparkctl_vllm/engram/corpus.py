"""Corpus: documents of token ids out of JSON lines or parquet, one after the other, with the place at which to go on after a break.

A line or row has `tokens`, `input_ids` or `prompt_token_ids` (a list of token ids), or `text`, which wants a tokenizer. Places are bytes in
JSON lines and row groups in parquet.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.refusal import Refusal, demand

KEYS = ("tokens", "input_ids", "prompt_token_ids")
TEXT = "text"
EDGE = 1 << 20
Tokenise = Callable[[str], list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Token ids of one document, where it stands, and the place at which to go on once it is counted (None: not before the next)."""

    tokens: NDArray[np.int64]
    name: str
    after: int | None


def fingerprint(path: Path) -> str:
    """Return what tells a corpus from another: SHA-256 of its size, its first and its last MiB."""
    demand(path.is_file(), str(path), "no such file", "a corpus of JSON lines or parquet")
    size = path.stat().st_size
    with path.open("rb") as file:
        digest = sha256(f"{size} ".encode() + file.read(EDGE))
        file.seek(max(0, size - EDGE))
        digest.update(file.read(EDGE))
    return digest.hexdigest()


def documents(path: Path, place: int, tokenise: Tokenise | None) -> Iterator[Document]:
    """Yield the documents from a place on. Raises Refusal for a line or row that has no tokens, naming it."""
    return _parquet(path, place, tokenise) if path.suffix == ".parquet" else _lines(path, place, tokenise)


def _lines(path: Path, place: int, tokenise: Tokenise | None) -> Iterator[Document]:
    with path.open("rb") as file:
        file.seek(place)
        while line := file.readline():
            name = f"{path.name}, byte {place}"
            place = file.tell()
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError as fault:
                raise Refusal(name, fault, "a JSON object in each line") from fault
            demand(isinstance(record, dict), name, type(record).__name__, "a JSON object in each line")
            yield Document(tokens=_tokens(record, name, tokenise), name=name, after=place)


def _parquet(path: Path, place: int, tokenise: Tokenise | None) -> Iterator[Document]:
    try:
        from pyarrow import ArrowInvalid, parquet  # noqa: PLC0415 - only parquet needs it
    except ImportError as fault:
        raise Refusal(
            "pyarrow", "not installed", "the library that reads parquet", "pip install pyarrow"
        ) from fault
    try:
        file = parquet.ParquetFile(path)
    except ArrowInvalid as fault:
        raise Refusal(path.name, fault, "a parquet file") from fault
    names = [one for one in (*KEYS, TEXT) if one in file.schema_arrow.names]
    for group in range(place, file.num_row_groups):
        batches = file.iter_batches(batch_size=1024, row_groups=[group], columns=names)
        rows = chain.from_iterable(batch.to_pylist() for batch in batches)
        last = file.metadata.row_group(group).num_rows - 1
        for number, record in enumerate(rows):
            name = f"{path.name}, row group {group}, row {number}"
            tokens = _tokens(record, name, tokenise)
            yield Document(tokens=tokens, name=name, after=group + 1 if number == last else None)


def _tokens(record: Mapping[str, Any], name: str, tokenise: Tokenise | None) -> NDArray[np.int64]:
    found = next((record[key] for key in KEYS if record.get(key) is not None), None)
    if found is None and isinstance(record.get(TEXT), str):
        demand(
            tokenise,
            f"{name}: {TEXT}",
            "text, and no tokenizer",
            "token ids",
            "name the model's tokenizer: --tokenizer",
        )
        found = tokenise(record[TEXT]) if tokenise else None
    demand(isinstance(found, list), name, f"keys {sorted(record)}", f"{', '.join(KEYS)} or {TEXT}")
    try:
        return np.array(found, dtype=np.int64).reshape(-1)
    except (ValueError, TypeError, OverflowError) as fault:
        raise Refusal(name, fault, "a list of whole numbers") from fault
