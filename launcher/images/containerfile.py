"""Containerfile: its instructions as values. Pure; knows what a lint needs of the format and no more."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_VARIABLE = re.compile(r"\$(?:\{(\w+)[^}]*\}|(\w+))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction; `text` is what follows the keyword with continued lines joined by a blank, `line` where it begins."""

    keyword: str
    text: str
    line: int

    @property
    def words(self) -> tuple[str, ...]:
        """The text, split at blanks."""
        return tuple(self.text.split())

    @property
    def variables(self) -> frozenset[str]:
        """Names of the variables that it uses."""
        return frozenset(long or short for long, short in _VARIABLE.findall(self.text))


def read(text: str) -> tuple[Instruction, ...]:
    """Return the instructions of a Containerfile in order; comments and empty lines are left out."""
    return tuple(_instructions(text))


def _instructions(text: str) -> Iterator[Instruction]:
    begun, parts = 0, list[str]()
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):  # also between continued lines, as docker has it
            continue
        begun = begun or number
        parts.append(line.removesuffix("\\").strip())
        if not line.endswith("\\"):
            yield _instruction(" ".join(parts), begun)
            begun, parts = 0, []
    if parts:
        yield _instruction(" ".join(parts), begun)


def _instruction(text: str, line: int) -> Instruction:
    keyword, _, rest = text.partition(" ")
    return Instruction(keyword=keyword.upper(), text=rest.strip(), line=line)


def copied(one: Instruction) -> tuple[str, ...]:
    """Return the sources of a COPY or ADD from the build's own files; empty for any other instruction or stage."""
    if one.keyword not in {"COPY", "ADD"} or any(word.startswith("--from=") for word in one.words):
        return ()
    return tuple(word for word in one.words if not word.startswith("--"))[:-1]


def pairs(one: Instruction) -> tuple[tuple[str, str], ...]:
    """Return NAME=VALUE of an ARG, ENV or LABEL, quotes taken off; a name alone has an empty value."""
    found = re.findall(r'([\w.-]+)(?:=("(?:[^"\\]|\\.)*"|\S*))?', one.text)
    return tuple((name, value.strip('"')) for name, value in found)
