"""Markers: where blocks of the report stand in somebody's text, and the text with fresh blocks between them. Text in, text out.

A file may have any number of pairs. What stands in a start marker says which block is wanted: nothing for the whole report,
`line A` for one line's best configuration, `reported` for the figures of others.
"""

import re
from collections.abc import Callable, Iterator

START = "<!-- sparkctl:best:start -->"
END = "<!-- sparkctl:best:end -->"

_MARKER = re.compile(
    r"^[ \t]*<!-- sparkctl:best:(?:start(?: (?P<what>[^>\r\n]*?))?|(?P<end>end)) -->[ \t]*\r?$", re.MULTILINE
)


class MarkerFault(ValueError):
    """The text has no pair of markers on lines of their own, or one that is not closed, or one that wants an unknown block."""


def splice(text: str, block: Callable[[str], str]) -> str:
    """Put what `block` makes of each start marker between it and its end; line ends stay as they are at the start marker.

    Raises:
        MarkerFault: see there; the message names the lines.

    """
    parts, at = [], 0
    for start, end in _pairs(text):
        newline = "\r\n" if start.group().endswith("\r") else "\n"
        body = block(start["what"] or "").replace("\n", newline)
        parts.append(f"{text[at : start.end()]}\n{body}{newline}")
        at = end.start()
    return "".join((*parts, text[at:]))


def _pairs(text: str) -> Iterator[tuple[re.Match[str], re.Match[str]]]:
    start: re.Match[str] | None = None
    count = 0
    for found in _MARKER.finditer(text):
        is_end = found["end"] is not None
        if is_end and start is None:
            raise MarkerFault(f"{END} on line {_line(text, found)} ends nothing; wanted {START} before it")
        if not is_end and start is not None:
            raise MarkerFault(
                f"{found.group().strip()} on line {_line(text, found)} stands within the block that begins on line {_line(text, start)}"
            )
        if is_end and start is not None:
            count += 1
            yield start, found
        start = None if is_end else found
    if start is not None:
        raise MarkerFault(f"{END} is missing for the block that begins on line {_line(text, start)}")
    if not count:
        raise MarkerFault(f"{START} is missing; wanted on a line of its own")


def _line(text: str, found: re.Match[str]) -> int:
    return text.count("\n", 0, found.start()) + 1
