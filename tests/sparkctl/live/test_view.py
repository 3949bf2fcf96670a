"""The view is a function of what was told: recorded events at a moment give the same text, at 60, 80 and 120 columns.

A case is a file of events, as `--events` writes them; the moment is 45 of the line's seconds after the last.
"""

import io
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from sparkctl.live import words
from sparkctl.live.state import State, fold
from sparkctl.live.view import view

from .events import read

CASES = Path(__file__).parent / "cases"
LATER_S = 45.0


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("case", sorted(one.stem for one in CASES.glob("*.jsonl")))
def test_view(case: str, width: int) -> None:
    """What is shown is what the file beside the events says, and no line is wider than the terminal."""
    shown = text(case, width)
    golden = CASES / f"{case}.{width}.txt"
    if not golden.exists() or golden.read_text(encoding="utf-8") != shown:
        golden.with_suffix(".got").write_text(shown, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == shown
    assert max(map(len, shown.splitlines())) <= width


@pytest.mark.parametrize("case", sorted(one.stem for one in CASES.glob("*.jsonl")))
def test_plain_lines(case: str) -> None:
    """Without a terminal every boot that is over and every verdict is one line, and what is under way is none."""
    events = tuple(read(CASES / f"{case}.jsonl"))
    told = [text for one in events if (text := words.line(one, stages=False))]
    golden = CASES / f"{case}.plain.txt"
    shown = "\n".join(told) + "\n"
    if not golden.exists() or golden.read_text(encoding="utf-8") != shown:
        golden.with_suffix(".got").write_text(shown, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == shown


def text(case: str, width: int) -> str:
    """Render the state after all events of a case, without colour."""
    state, events = State(), tuple(read(CASES / f"{case}.jsonl"))
    for event in events:
        state = fold(state, event)
    last = events[-1]
    later = datetime.fromisoformat(last.at) + timedelta(seconds=LATER_S)
    shown = io.StringIO()
    console = Console(file=shown, width=width, no_color=True)
    console.print(view(state, s=last.s + LATER_S, at=later.strftime("%Y-%m-%dT%H:%M:%SZ")))
    lines = shown.getvalue().splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"
