"""What a known trouble is: how it is recognised in a log, what is said about it, the remedy, and where it was reported.

A sign recognises, an exact pattern reads figures. Where a text was cut or is worded in another language the sign may still be
there and the figures not: the trouble is then told without them. A number is only taken between the delimiters it was printed
with, so that `55,91` or a number at a cut never becomes another number.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["fault", "warning", "information"]
"""A fault ended or spoils the boot; a warning is wrong or unclear but explains no dead rank; information is no trouble."""

Lines = tuple[str, ...]

NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,6})?"
"""A number as engines print it; at most nine digits, so that no absurd text becomes an absurd figure."""

KIB_IN_GIB = 1024**2
MIB_IN_GIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is said of one log; `figures` are the numbers taken or reckoned from it, memory in GiB, time in seconds."""

    said: str
    hint: str
    figures: Mapping[str, float] = field(default_factory=dict)


Read = Callable[[Lines], Told | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One row: `read` returns what to say when the log tells of this trouble, else None; `source` is public."""

    name: str
    read: Read
    source: str
    kind: Kind = "fault"


def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern that knows ASCII digits only."""
    return re.compile(pattern, re.ASCII)


def every(pattern: re.Pattern[str], lines: Lines) -> tuple[re.Match[str], ...]:
    """Return the first match of every line that has one."""
    return tuple(found for line in lines if (found := pattern.search(line)))


def has(pattern: re.Pattern[str], lines: Lines) -> bool:
    """Whether any line matches."""
    return any(pattern.search(line) for line in lines)


def worded(sign: str, *, plain: str, hint: str, exact: tuple[tuple[str, str], ...] = ()) -> Read:
    """Return a reader: the first of `exact` whose pattern matches is worded with its groups, else `plain` when the sign is there."""
    sign_pattern = compiled(sign)
    exact_patterns = tuple((compiled(pattern), words) for pattern, words in exact)

    def read(lines: Lines) -> Told | None:
        if not has(sign_pattern, lines):
            return None
        for pattern, words in exact_patterns:
            for found in every(pattern, lines):
                figures = _figures(found)
                texts = {name: f"{figures[name]:.1f}" for name in figures.keys() - found.groupdict().keys()}
                return Told(said=words.format(**found.groupdict(), **texts), hint=hint, figures=figures)
        return Told(said=plain, hint=hint)

    return read


def _figures(found: re.Match[str]) -> dict[str, float]:
    """Return the groups of a match that are plain numbers; `x_ms` becomes `x_s`."""
    named = {
        name: float(text)
        for name, text in found.groupdict().items()
        if text is not None and re.fullmatch(NUMBER, text)
    }
    return {
        f"{name.removesuffix('_ms')}_s" if name.endswith("_ms") else name: value / 1000
        if name.endswith("_ms")
        else value
        for name, value in named.items()
    }


def gib(value: float) -> str:
    """Format GiB with the two decimals of vLLM's own lines, so that both can be compared."""
    return f"{value:.2f} GiB"


def listed(names: tuple[str, ...]) -> str:
    """Join names for a sentence: `a`, `a and b`, `a, b and c`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def plain_address(text: str) -> str:
    """Return an IPv4 address without the prefix of a mapped GID."""
    return text.removeprefix("::ffff:")
