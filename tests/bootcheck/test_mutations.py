"""Every valid case, damaged: a text that is cut, localised or mangled gives no number that it does not hold."""

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bootcheck.facts import Record, Unread
from bootcheck.probes.table import parse

CASES = {
    f"{path.parent.name}/{path.stem}": (path.parent.name, json.loads(path.read_text()))
    for path in sorted((Path(__file__).parent / "cases").glob("*/*.json"))
}
VALID = {name: told for name, told in CASES.items() if "Unread" not in told[1]["fact"]}

# What node.run writes behind a text that it cut.
CUT = "\n[cut: 99 more bytes]\n"
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
SCALES = (1, 1024, 1024**2)
SUMS = {"blocks", "nccl-tests"}
"""Probes whose facts add up what stands in several places."""


def record(name: str, stdout: str | None = None) -> Record:
    """Return the case's record, or the same with another text."""
    probe, case = VALID[name]
    return Record(
        probe=probe,
        argv=tuple(case["argv"]),
        rc=case["rc"],
        stdout=case["stdout"] if stdout is None else stdout,
        stderr=case["stderr"],
        seconds=0.1,
    )


def figures(found: Any) -> set[float]:
    """Return every number of a fact."""
    return set(_leaves(dataclasses.asdict(found)))


def _leaves(value: Any) -> Iterator[float]:
    match value:
        case bool() | None:
            return
        case int() | float():
            yield value
        case dict():
            for one in value.values():
                yield from _leaves(one)
        case list() | tuple():
            for one in value:
                yield from _leaves(one)


def invented(name: str, text: str) -> set[float]:
    """Return the numbers of the fact that do not stand in the text, its errors or its command; none of an Unread."""
    told = record(name, text)
    found = parse(told)
    if isinstance(found, Unread):
        return set()
    whole = " ".join((text, told.stderr, *told.argv))
    standing = [int(one) if one.isdigit() else float(one) for one in NUMBER.findall(whole)]
    counted = set(map(float, range(len(text.splitlines()) + 1))) if told.probe in SUMS else set()
    most = sum(standing) if told.probe in SUMS else 0
    known = {one * scale for one in standing for scale in SCALES} | counted
    return {one for one in figures(found) if one not in known and not 0 <= one <= most}


@pytest.mark.parametrize("name", VALID)
def test_a_text_that_was_cut_gives_nothing_new(name: str) -> None:
    """Wherever a text ends, with the mark of a cut or within a line, no half number passes for a whole one."""
    text = VALID[name][1]["stdout"]
    whole = figures(parse(record(name)))
    step = max(1, len(text) // 150)
    for place in range(0, len(text), step):
        for cut in (text[:place] + CUT, text[:place]):
            if cut.endswith("\n") and not cut.endswith(CUT):
                continue  # nobody can tell that lines are missing
            found = parse(record(name, cut))
            if not isinstance(found, Unread):
                assert figures(found) <= whole, cut[-80:]


LOCAL = {
    "decimal commas": lambda text: re.sub(r"(?<=\d)\.(?=\d)", ",", text),
    "thousands": lambda text: re.sub(r"(?<=\d)(?=(?:\d{3})+(?!\d))", ".", text),
    "other units": lambda text: re.sub(r"\b(kB|MiB|MHz|W|us)\b", "Ko", text),
    "other words": lambda text: re.sub(r"\b[a-z]{4,}\b", "größer", text),
    "capitals": str.upper,
}


@pytest.mark.parametrize("way", LOCAL)
def test_a_localised_text_gives_no_number_of_its_own(way: str) -> None:
    """Figures written otherwise are not read, or read as they stand."""
    found = {name: invented(name, LOCAL[way](VALID[name][1]["stdout"])) for name in VALID}
    assert {name: one for name, one in found.items() if one} == {}


def _mangled(text: str, draw: st.DrawFn) -> str:
    """Damage one line, or one of its numbers."""
    lines = text.split("\n")
    place = draw(st.integers(0, len(lines) - 1))
    line = lines[place]
    numbers = list(re.finditer(r"\d+", line))
    match draw(st.sampled_from(("drop", "double", "swap", "huge", "negative", "none", "sign"))):
        case "drop":
            lines[place : place + 1] = []
        case "double":
            lines[place : place + 1] = [line, line]
        case "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[place], lines[other] = lines[other], line
        case "sign":
            at = draw(st.integers(0, max(0, len(line) - 1)))
            lines[place] = line[:at] + draw(st.sampled_from(" ,.:-\t")) + line[at + 1 :]
        case kind if numbers:
            found = draw(st.sampled_from(numbers))
            put = {"huge": "9" * 40, "negative": f"-{found[0]}", "none": "[N/A]"}[kind]
            lines[place] = line[: found.start()] + put + line[found.end() :]
    return "\n".join(lines)


@st.composite
def mangling(draw: st.DrawFn) -> tuple[str, str]:
    """A valid case and its damaged text."""
    name = draw(st.sampled_from(sorted(VALID)))
    return name, _mangled(VALID[name][1]["stdout"], draw)


@settings(max_examples=1500, deadline=None)
@given(mangling())
def test_a_mangled_text_gives_no_number_of_its_own(case: tuple[str, str]) -> None:
    """A line lost, doubled or moved, a number that cannot be, another sign: unread, or as it stands."""
    name, text = case
    assert invented(name, text) == set()
