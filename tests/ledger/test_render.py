"""The README's block: golden files, and its place between the markers."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.journal import Journal
from ledger.markers import END, START, MarkerFault, splice
from ledger.render import render

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
    once = splice(f"# Title\n\n{START}\n{END}\n\nend\n", lambda _: block)
    assert splice(once, lambda _: block) == once
    assert once.startswith("# Title\n\n")
    assert once.endswith(f"\n{END}\n\nend\n")


def test_the_block_goes_between_the_markers() -> None:
    """What stood there is replaced, what stands around stays."""
    text = f"above\n{START}\nold\nolder\n{END}\nbelow"
    assert splice(text, lambda _: BLOCK) == f"above\n{START}\n{BLOCK}\n{END}\nbelow"


def test_windows_line_ends_stay() -> None:
    """A file with CRLF keeps it, in the block too."""
    text = f"above\r\n{START}\r\n{END}\r\nbelow\r\n"
    once = splice(text, lambda _: BLOCK)
    assert once == f"above\r\n{START}\r\none\r\n\r\ntwo\r\n{END}\r\nbelow\r\n"
    assert splice(once, lambda _: BLOCK) == once


def test_a_marker_in_a_sentence_is_none() -> None:
    """Only a marker on a line of its own counts, so a text may speak of it; indentation is kept."""
    text = f"Put `{START}` and `{END}` there:\n\n  {START}\n  {END}\n"
    assert splice(text, lambda _: "x") == f"Put `{START}` and `{END}` there:\n\n  {START}\nx\n  {END}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nothing", f"{START} is missing"),
        (f"{START}\n", f"{END} is missing"),
        (f"{START}\n{START}\n{END}\n", f"{START} on line 2 stands within the block that begins on line 1"),
        (f"{START}\n{END}\n{END}\n", f"{END} on line 3 ends nothing"),
        (f"{START}\n{END}\n{START}\n", f"{END} is missing for the block that begins on line 3"),
        (f"{END}\n{START}\n", f"{END} on line 1 ends nothing"),
    ],
)
def test_wrong_markers_are_told(text: str, words: str) -> None:
    """A missing, doubled or turned pair of markers is a fault that names the lines; nothing is replaced."""
    with pytest.raises(MarkerFault) as caught:
        splice(text, lambda _: BLOCK)
    assert words in str(caught.value)


@settings(deadline=None)  # a busy machine is no fault
@given(st.text(), st.text(), st.sampled_from(["\n", "\r\n"]))
def test_the_text_around_is_never_touched(above: str, below: str, newline: str) -> None:
    """Any text above and below survives as it is."""
    text = f"{above}{newline}{START}{newline}{END}{newline}{below}"
    once = splice(text, lambda _: BLOCK)
    assert once.startswith(f"{above}{newline}{START}{newline}one")
    assert once.endswith(f"two{newline}{END}{newline}{below}")
    assert splice(once, lambda _: BLOCK) == once


def test_any_number_of_blocks_in_one_file() -> None:
    """Each is what its own start marker asks for, and a second rendering changes nothing."""
    rows = Journal(GOLDEN / "lines_apart.jsonl").read().rows
    line = START.replace(" -->", " line A -->")
    text = f"{START}\n{END}\n\n{line}\nold\n{END}\n\n{START.replace(' -->', ' reported -->')}\n{END}\n"
    once = splice(text, lambda what: render(rows, what))
    assert splice(once, lambda what: render(rows, what)) == once
    whole, of_line, others = (render(rows, what) for what in ("", "line A", "reported"))
    assert once == (
        f"{START}\n{whole}\n{END}\n\n{line}\n{of_line}\n{END}\n\n{START.replace(' -->', ' reported -->')}\n{others}\n{END}\n"
    )
    assert "### Line A" in of_line
    assert "### Line B" not in of_line
    assert "### Line" not in others


def test_a_marker_that_asks_for_what_is_not_there() -> None:
    """It names what there is."""
    rows = Journal(GOLDEN / "practice_climb.jsonl").read().rows
    with pytest.raises(
        MarkerFault, match="wants 'line C'; wanted nothing, 'reported' or a line with figures: 'line A'"
    ):
        render(rows, "line C")


def test_credit_stands_beside_the_lever() -> None:
    """From the plan row, and for older ones from whoever knows the ladder by its digest; the plan's own word comes first."""
    rows = Journal(GOLDEN / "practice_climb.jsonl").read().rows
    plan = next(row.body for row in rows if row.kind == "plan")
    lever = plan["levers"][0]  # type: ignore[index]
    known = render(
        rows, credits_={str(plan["ladder_digest"]): {str(lever): "the vLLM project | and <b>others</b>"}}
    )
    assert "| why | credit |" in known
    assert "| the vLLM project \\| and &lt;b>others&lt;/b> |" in known.replace("&gt;", ">")
    assert "credit" not in render(rows)
