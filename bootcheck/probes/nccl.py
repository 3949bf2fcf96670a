"""NCCL's own words: what its log says of the network it chose, and the table of nccl-tests. Pure."""

import re
from dataclasses import dataclass
from typing import ClassVar

from bootcheck.facts import Record, Unread, unread
from bootcheck.probes.probe import Probe

_NETWORK = re.compile(r"NCCL INFO Using network ([^\r\n]+)")
_CHOSEN = re.compile(r"NCCL INFO NET/(?:IB|Socket) : Using ([^;\r\n]+)")
_DEVICE = re.compile(r"\[\d{1,4}\]([A-Za-z0-9_.-]+):")
_PLUGIN = re.compile(r"NCCL INFO NET/Plugin: (?:Loaded net plugin|Successfully loaded external plugin) (\S+)")
_VERSION = re.compile(r"NCCL version ([0-9][\w.+]*)")
_WARNING = re.compile(r"NCCL WARN ([^\r\n]+)")

_FIGURE = r"(\d{1,12}(?:\.\d{1,6})?)"
_WRONG = r"(\d{1,15}|N/A)"
_TESTED = re.compile(
    rf"^\s*(\d{{1,18}})\s+\d{{1,18}}\s+\w+\s+\w+\s+-?\d{{1,6}}\s+{_FIGURE}\s+{_FIGURE}\s+{_FIGURE}\s+{_WRONG}"
    rf"(?:\s+{_FIGURE}\s+{_FIGURE}\s+{_FIGURE}\s+{_WRONG})?\s*$",
    re.ASCII,
)
_TEST = re.compile(r"^# Collective test starting: (\w+)", re.MULTILINE)
_RANK = re.compile(r"^#\s+Rank\s+\d{1,6}\s", re.MULTILINE)
_ENDED = re.compile(r"^# Out of bounds values : (\d{1,15}) (OK|FAILED)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What NCCL said at its INFO level; empty where it said nothing of it.

    `network` is `IB`, `Socket` or a plugin's name; `devices` are the HCAs or interfaces that it uses.
    """

    network: str = ""
    devices: tuple[str, ...] = ()
    plugin: str = ""
    version: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """One row of nccl-tests: size in bytes, bus bandwidth in GB/s, wrong elements where they were counted."""

    size: int
    rates: tuple[float, ...]
    wrong: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclTests:
    """A run of nccl-tests that somebody put into the bundle; `out_of_bounds` is its own sum of wrong values."""

    probe: ClassVar[str] = "nccl-tests"

    name: str
    ranks: int
    rows: tuple[Tested, ...]
    out_of_bounds: int


def read_log(text: str) -> Log:
    """Read NCCL's INFO and WARN lines out of whatever else was printed."""
    chosen = _CHOSEN.search(text)
    return Log(
        network=_first(_NETWORK, text),
        devices=tuple(_DEVICE.findall(chosen[1])) if chosen else (),
        plugin=_first(_PLUGIN, text),
        version=_first(_VERSION, text),
        warnings=tuple(_WARNING.findall(text)[:3]),
    )


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1].strip() if found else ""


def parse_nccl_tests(record: Record) -> NcclTests | Unread:
    """Read the table of all_gather_perf and its like; a table without its last lines was cut."""
    test, ended = _TEST.search(record.stdout), _ENDED.search(record.stdout)
    lines = [line for line in record.stdout.splitlines() if line.lstrip()[:1].isdigit()]
    rows = [_tested(found) for line in lines if (found := _TESTED.match(line))]
    if not test or not rows or len(rows) != len(lines):
        return unread(record, "not the table of nccl-tests")
    if not ended:
        return unread(record, "the table of nccl-tests was cut")
    return NcclTests(
        name=test[1],
        ranks=len(_RANK.findall(record.stdout)),
        rows=tuple(rows),
        out_of_bounds=int(ended[1]),
    )


def _tested(found: re.Match[str]) -> Tested:
    rates = tuple(float(found[group]) for group in (4, 8) if found[group])
    wrong = [int(found[group]) for group in (5, 9) if found[group] and found[group] != "N/A"]
    return Tested(size=int(found[1]), rates=rates, wrong=sum(wrong) if wrong else None)


PROBES = (
    Probe(
        name="nccl-tests",
        about="a run of nccl-tests, judged when a bundle holds one; never run by itself",
        argvs=lambda _: (),
        parse=parse_nccl_tests,
        limit_s=120,
    ),
)
