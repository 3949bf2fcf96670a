"""Every parser on every case file, and on any text at all."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bootcheck.facts import Record, Unread
from bootcheck.probes.probe import Probe
from bootcheck.probes.table import PROBES, parse

CASES = sorted((Path(__file__).parent / "cases").glob("*/*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_case_gives_its_fact(path: Path) -> None:
    """A parser turns the text of a case into the fact beside it, or says why it cannot."""
    case = json.loads(path.read_text())
    record = Record(
        probe=path.parent.name,
        argv=tuple(case["argv"]),
        rc=case["rc"],
        stdout=case["stdout"],
        stderr=case["stderr"],
        seconds=0.1,
    )
    found: Any = parse(record)
    kind, wanted = next(iter(case["fact"].items()))
    assert type(found).__name__ == kind
    if isinstance(found, Unread):
        assert wanted in found.why
    else:
        assert json.loads(json.dumps(dataclasses.asdict(found))) == wanted


def test_every_probe_has_cases() -> None:
    """A probe without a case file is untested."""
    assert {probe.name for probe in PROBES} == {path.parent.name for path in CASES}


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
@given(stdout=st.text(max_size=400), stderr=st.text(max_size=80), rc=st.integers(0, 255))
def test_any_text_gives_a_fact_or_unread(probe: Probe, stdout: str, stderr: str, rc: int) -> None:
    """Whatever a tool prints, a parser answers with a value and never raises."""
    argv = ("ping", "-s", "8972", "10.0.0.1")
    found = parse(Record(probe=probe.name, argv=argv, rc=rc, stdout=stdout, stderr=stderr, seconds=0.0))
    assert dataclasses.is_dataclass(found)


@pytest.mark.parametrize(
    ("rc", "stderr"),
    [(None, "not run: gpu-processes printed 2 lines"), (124, "timed out after 5 s"), (127, "no such tool")],
)
def test_a_command_that_did_not_end_by_itself_is_unread(rc: int | None, stderr: str) -> None:
    """Not run, out of time and no such tool are told apart from every answer, with their reason."""
    for probe in PROBES:
        found = parse(
            Record(probe=probe.name, argv=("x",), rc=rc, stdout="MemTotal: 1 kB", stderr=stderr, seconds=0.0)
        )
        assert isinstance(found, Unread)
        assert found.why == stderr
