"""Slim rows and the index of a long ledger: the same rows as a whole read, and never those of a file that changed."""

import os
from pathlib import Path

import pytest

from ledger import index
from ledger.codec import strict
from ledger.journal import Journal
from ledger.slim import BULK, slim, slim_body
from ledger.walk import sealed
from sparkctl.errors import LedgerFault

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "docs" / "demo" / "ledger.jsonl"
STEP = {"simulated": True, "boot": "b", "stage": "check", "state": "began", "why": "", "recipe_digest": ""}
AT = "2026-11-30T00:00:00Z"


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """The demo's ledger, long enough for an index."""
    monkeypatch.setattr(index, "FROM_BYTES", 0)
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(DEMO.read_bytes())
    return Journal(path)


@pytest.mark.parametrize(
    "path",
    [DEMO, *sorted((ROOT / "tests" / "ledger").glob("*/*.jsonl"))],
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_a_slim_row_is_the_strict_one_without_its_bulk(path: Path) -> None:
    """Envelope, hash and every key but the bulk are the same, read by bytes or strictly."""
    for raw in path.read_bytes().splitlines():
        (row, made), (whole, digest) = slim(raw), strict(raw)
        assert made == digest == whole.hash
        assert (row.n, row.at, row.kind, row.line, row.prev, row.hash) == (
            *(whole.n, whole.at, whole.kind, whole.line, whole.prev),
            whole.hash,
        )
        assert row.body == slim_body(whole.body)


def test_the_bulk_is_most_of_a_ledger() -> None:
    """What is left out is worth leaving out: of the demo's bytes a twentieth stays."""
    rows = Journal(DEMO).read().rows
    assert sum(len(str(slim_body(row.body))) for row in rows) < DEMO.stat().st_size / 20
    assert not BULK & {key for row in Journal(DEMO).glance().rows for key in row.body}


def test_a_glance_from_the_index_is_the_glance_without(journal: Journal) -> None:
    """The second glance reads the index and nothing else, and gives the same rows."""
    first = journal.glance()
    assert index.path_of(journal.path).exists()
    kept = index.path_of(journal.path).read_bytes()
    journal.path.chmod(0o600)  # another time of change: the index is void
    assert journal.glance() == first
    assert index.path_of(journal.path).read_bytes() != kept
    assert journal.glance() == first


def test_an_append_extends_the_index(journal: Journal) -> None:
    """A row written by us keeps the index whole, so that a glance after it reads no line of the ledger."""
    before = journal.glance().rows
    added = [journal.append("step", "A", STEP, AT) for _ in range(3)]
    with journal.path.open("rb") as file:
        seal = sealed(os.fstat(file.fileno()))
    assert index.load(journal.path, seal) == (*before, *added)
    assert journal.glance().rows == (*before, *added)


def test_an_index_of_another_file_is_void(journal: Journal) -> None:
    """A byte changed in place, whatever its times are set to, is found: the index does not hide it."""
    journal.glance()
    state = journal.path.stat()
    with journal.path.open("r+b") as file:
        file.seek(200)
        byte = file.read(1)
        file.seek(200)
        file.write(bytes([byte[0] ^ 1]))
    os.utime(journal.path, ns=(state.st_atime_ns, state.st_mtime_ns))
    with pytest.raises(LedgerFault, match="line 1"):
        journal.glance()


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\n\xff\n", b'{"schema":0,"bulk":[]}\n', None])
def test_a_broken_index_costs_time_alone(journal: Journal, content: bytes | None) -> None:
    """Cut, foreign, of another version or gone: the ledger itself is read, and appends go on."""
    first = journal.glance()
    path = index.path_of(journal.path)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    row = journal.append("step", "A", STEP, AT)
    assert journal.glance().rows == (*first.rows, row)


def test_verify_does_not_look_at_the_index(journal: Journal) -> None:
    """A forged index deceives nobody who verifies: the rows are counted in the ledger's own file."""
    journal.glance()
    path = index.path_of(journal.path)
    path.write_bytes(path.read_bytes().replace(b"accept", b"reject"))
    assert journal.verify().breaks == ()
    assert journal.verify().rows == len(journal.read().rows)


def test_rows_are_read_whole_by_number() -> None:
    """What a glance leaves out is still had, for the rows that are asked for, and no others."""
    rows = Journal(DEMO).read().rows
    boot = next(row for row in rows if row.kind == "boot")
    assert Journal(DEMO).whole((boot.n, len(rows) + 1)) == (boot,)
    assert "findings" in boot.body
