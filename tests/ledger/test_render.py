"""The README's block: golden files, and its place between the markers."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.journal import Journal
from ledger.render import END, START, MarkerFault, render, splice

GOLDEN = Path(__file__).parent / "golden"
BLOCK = "one\n\ntwo"


@pytest.mark.parametrize("ledger", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.stem)
def test_golden(ledger: Path) -> None:
    """A ledger gives exactly the text beside it; on a difference the text found is left as .got."""
    found = render(Journal(ledger).read().rows) + "\n"
    wanted, got = ledger.with_suffix(".md"), ledger.with_suffix(".got")
    if found != wanted.read_text(encoding="utf-8"):
        got.write_text(found, encoding="utf-8")
        pytest.fail(f"differs from {wanted.name}; compare with {got}")
    got.unlink(missing_ok=True)


@pytest.mark.parametrize("ledger", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.stem)
def test_a_second_report_changes_nothing(ledger: Path) -> None:
    """Whatever outside text a row holds, markers among it, putting the block in again gives the same file."""
    block = render(Journal(ledger).read().rows)
    once = splice(f"# Title\n\n{START}\n{END}\n\nend\n", block)
    assert splice(once, block) == once
    assert once.startswith("# Title\n\n")
    assert once.endswith(f"\n{END}\n\nend\n")


def test_the_block_goes_between_the_markers() -> None:
    """What stood there is replaced, what stands around stays."""
    text = f"above\n{START}\nold\nolder\n{END}\nbelow"
    assert splice(text, BLOCK) == f"above\n{START}\n{BLOCK}\n{END}\nbelow"


def test_windows_line_ends_stay() -> None:
    """A file with CRLF keeps it, in the block too."""
    text = f"above\r\n{START}\r\n{END}\r\nbelow\r\n"
    once = splice(text, BLOCK)
    assert once == f"above\r\n{START}\r\none\r\n\r\ntwo\r\n{END}\r\nbelow\r\n"
    assert splice(once, BLOCK) == once


def test_a_marker_in_a_sentence_is_none() -> None:
    """Only a marker on a line of its own counts, so a text may speak of it; indentation is kept."""
    text = f"Put `{START}` and `{END}` there:\n\n  {START}\n  {END}\n"
    assert splice(text, "x") == f"Put `{START}` and `{END}` there:\n\n  {START}\nx\n  {END}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nothing", f"{START} is missing"),
        (f"{START}\n", f"{END} is missing"),
        (f"{START}\n{END}\n{START}\n{END}\n", f"{START} stands on lines 1, 3"),
        (f"{START}\n{END}\n{END}\n", f"{END} stands on lines 2, 3"),
        (f"{END}\n{START}\n", f"{END} stands before {START}"),
    ],
)
def test_wrong_markers_are_told(text: str, words: str) -> None:
    """A missing, doubled or turned pair of markers is a fault that names the lines; nothing is replaced."""
    with pytest.raises(MarkerFault) as caught:
        splice(text, BLOCK)
    assert words in str(caught.value)


@settings(deadline=None)  # a busy machine is no fault
@given(st.text(), st.text(), st.sampled_from(["\n", "\r\n"]))
def test_the_text_around_is_never_touched(above: str, below: str, newline: str) -> None:
    """Any text above and below survives as it is."""
    text = f"{above}{newline}{START}{newline}{END}{newline}{below}"
    once = splice(text, BLOCK)
    assert once.startswith(f"{above}{newline}{START}{newline}one")
    assert once.endswith(f"two{newline}{END}{newline}{below}")
    assert splice(once, BLOCK) == once
