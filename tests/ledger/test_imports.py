"""Others' figures from a CSV file."""

import hashlib
from pathlib import Path

import pytest

from ledger import reported
from ledger.imports import Fresh, Known, read_ladder
from ledger.journal import Journal
from sparkctl.errors import FileFault

PUBLIC = Path(__file__).parents[2] / "recipes" / "history" / "public_ladder.csv"
HEADER = "line,row,lever,c1_per_stream_tok_s,c6_agg_tok_s,prefill_47k_tok_s,their_verdict\n"
AT = "2026-09-11T11:38:00Z"


def _csv(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "ladder.csv"
    path.write_text(text)
    return path


def test_the_public_ladder_is_imported() -> None:
    """All 26 rows come in, with the file's own words on where they come from and its digest."""
    found = read_ladder(PUBLIC, ())
    assert isinstance(found, Fresh)
    value = reported.imported(found.body)
    assert found.rows == len(value.rows) == 26
    assert value.digest == hashlib.sha256(PUBLIC.read_bytes()).hexdigest()
    assert "README block of 2026-09-11" in value.source
    assert dict(value.rows[15].figures)["c6_agg_tok_s"] == pytest.approx(198.07)
    assert {one.their_verdict for one in value.rows} == {"base", "accept", "reject"}


def test_a_file_is_imported_once(journal: Journal) -> None:
    """The same bytes again are told as known, with the row that holds them, until that row is retracted."""
    found = read_ladder(PUBLIC, ())
    assert isinstance(found, Fresh)
    row = journal.append("import", "", found.body, AT)
    known = read_ladder(PUBLIC, journal.read().rows)
    assert isinstance(known, Known)
    assert (known.n, known.at) == (row.n, AT)
    journal.append("retract", "", {"simulated": False, "retracts": row.n, "why": "the wrong file"}, AT)
    assert isinstance(read_ladder(PUBLIC, journal.read().rows), Fresh)


def test_an_empty_figure_is_not_reported(tmp_path: Path) -> None:
    """A figure that the file leaves out is absent, not zero."""
    found = read_ladder(_csv(tmp_path, f"# origin\n{HEADER}A,r1,base,61.1,,1363,base\n"), ())
    assert isinstance(found, Fresh)
    assert [name for name, _ in reported.imported(found.body).rows[0].figures] == [
        "c1_per_stream_tok_s",
        "prefill_47k_tok_s",
    ]


def test_every_fault_is_told_with_its_line(tmp_path: Path) -> None:
    """Wrong cells of all lines come in one message."""
    text = f"# origin\n{HEADER}A,r1,base,fast,nan,-3,base\nA,r1,,1,2,3,accept\nA,r2,x,1,2\n"
    with pytest.raises(FileFault) as caught:
        read_ladder(_csv(tmp_path, text), ())
    told = [line.split("ladder.csv: ")[1] for line in caught.value.message.splitlines()]
    assert told == [
        "line 3: c1_per_stream_tok_s: wanted a number above 0 or nothing, found 'fast'",
        "line 3: c6_agg_tok_s: wanted a number above 0 or nothing, found 'nan'",
        "line 3: prefill_47k_tok_s: wanted a number above 0 or nothing, found '-3'",
        "line 4: lever: wanted text, found nothing",
        "line 4: row r1 stands already on line 3",
        "line 5: wanted 7 columns, found 5",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{HEADER}A,r1,base,1,2,3,base\n", "no comment"),
        ("# origin\n", "no header"),
        (f"# origin\n{HEADER}", "no rows below the header"),
        (f"# origin\n{HEADER.replace('lever,', '')}", "line 2: the column lever is missing"),
        (f"# origin\n{HEADER.replace('lever', 'levr')}", "line 2: unknown column 'levr'"),
        (f"# origin\n{HEADER.replace('lever', 'row')}", "line 2: the column row stands there twice"),
    ],
)
def test_a_file_of_another_shape_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """Without its origin, its header or its rows a file is not taken."""
    with pytest.raises(FileFault, match=words):
        read_ladder(_csv(tmp_path, text), ())


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    """A missing file and one that is not text are faults with the path."""
    with pytest.raises(FileFault, match="cannot be read"):
        read_ladder(tmp_path / "none.csv", ())
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(FileFault, match="not UTF-8"):
        read_ladder(tmp_path / "bytes.csv", ())
