"""The store beside the ledger: what is put comes back, and what was changed is noticed."""

import gzip
import hashlib
from pathlib import Path

import pytest

from ledger.texts import Texts
from sparkctl.errors import FileFault, LedgerFault


def test_what_is_put_comes_back_under_its_hash(tmp_path: Path) -> None:
    """The name is the hash of the content, so the same content is kept once."""
    store = Texts.beside(tmp_path / "ledger.jsonl")
    content = "größe\n".encode() * 1000
    name = store.put(content)
    assert name == hashlib.sha256(content).hexdigest()
    assert store.put(content) == name
    assert store.get(name) == content
    (kept,) = (tmp_path / "texts").iterdir()
    assert (kept.name, kept.stat().st_size < len(content) / 10) == (f"{name}.gz", True)


def test_a_changed_file_is_named(tmp_path: Path) -> None:
    """Whole but other bytes, half a file, no file: each says which and what to do."""
    store = Texts(tmp_path)
    name = store.put(b"scores")
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress(b"better scores"))
    with pytest.raises(LedgerFault, match="wanted that of its name"):
        store.get(name)
    path.write_bytes(gzip.compress(b"scores")[:10])
    with pytest.raises(LedgerFault, match="cannot be read"):
        store.get(name)
    path.unlink()
    with pytest.raises(LedgerFault, match="no such file") as fault:
        store.get(name)
    assert "texts" in fault.value.hint


def test_a_name_is_no_path(tmp_path: Path) -> None:
    """A row that was tampered with cannot make it read elsewhere."""
    with pytest.raises(LedgerFault, match="no SHA-256"):
        Texts(tmp_path).get("../ledger")


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """With the path and a remedy."""
    (tmp_path / "texts").write_text("a file in the way")
    with pytest.raises(FileFault, match="cannot be written") as fault:
        Texts.beside(tmp_path / "ledger.jsonl").put(b"x")
    assert "--state" in fault.value.hint
