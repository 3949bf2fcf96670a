"""What benchmarks/ritual.py found, as values, held against its bars, as a JSON document and as tables."""

import os
import platform
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

BAR_HOSTS, BAR_S, BAR_SHARE = 4, 10.0, 1 / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Wall times of one form in seconds, in the order in which they were taken."""

    seconds: tuple[float, ...]

    @property
    def median_s(self) -> float:
        """The median."""
        return statistics.median(self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where one check spends its seconds, in this order; the hosts work side by side.

    `fastest` and `slowest` are the times of their tasks as Ansible's events tell them, with the way there and back;
    `command` is the longest of all commands on a host.
    """

    program: float
    ansible_start: float
    hosts: float
    fastest: float
    slowest: float
    command: float
    ansible_end: float
    judging: float

    @classmethod
    def median(cls, turns: list["Where"]) -> "Where":
        """Return the median of each part."""
        return cls(
            **{one.name: statistics.median(getattr(turn, one.name) for turn in turns) for one in fields(cls)}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One size of rack."""

    hosts: int
    commands: int
    forms: Mapping[str, Form]
    where: Where

    def share(self, other: str) -> float:
        """Time of the check as a share of another form's."""
        return self.forms["check"].median_s / self.forms[other].median_s


def faults(measured: list[Measured]) -> list[str]:
    """Say which bars are not held."""
    told = []
    for size in measured:
        if size.hosts != BAR_HOSTS:
            continue
        if (seconds := size.forms["check"].median_s) > BAR_S:
            told.append(f"{BAR_HOSTS} hosts took {seconds:.1f} s; wanted at most {BAR_S:g} s")
        if (share := size.share("sequential")) > BAR_SHARE:
            told.append(f"check took {share:.2f} of one ssh after another; wanted at most {BAR_SHARE:.2f}")
    return told


def document(
    measured: list[Measured], loading: dict[str, Any] | None, broken: list[str], load: float
) -> dict[str, Any]:
    """Return the JSON document; seconds are this machine's, `load` what it carried before the run."""
    return {
        "machine": {
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "load_before": load,
        },
        "wanted": {"hosts": BAR_HOSTS, "check_s": BAR_S, "share_of_sequential": BAR_SHARE},
        "broken": broken,
        "sizes": [
            {
                "hosts": size.hosts,
                "commands": size.commands,
                "share_of_sequential": size.share("sequential"),
                "share_of_parallel": size.share("parallel"),
                "seconds": {
                    name: {"median": form.median_s, "all": form.seconds} for name, form in size.forms.items()
                },
                "where_s": asdict(size.where),
            }
            for size in measured
        ],
        "growth": growth(measured),
        "loading": loading,
    }


def growth(measured: list[Measured]) -> dict[str, float]:
    """Return how often the first size's time each form takes at the last size."""
    first, last = measured[0], measured[-1]
    times = {name: last.forms[name].median_s / form.median_s for name, form in first.forms.items()}
    return {"hosts": last.hosts / first.hosts, "commands": last.commands / first.commands, **times}


def table(measured: list[Measured], loading: dict[str, Any] | None, broken: list[str], load: float) -> str:
    """Return the tables for a reader."""
    rows = ["hosts  commands  of sequential  of parallel   check    kept  sequential  parallel"]
    for size in measured:
        times = {name: form.median_s for name, form in size.forms.items()}
        rows.append(
            f"{size.hosts:5}  {size.commands:8}  {size.share('sequential'):13.3f}  {size.share('parallel'):11.3f}"
            f"  {times['check']:6.2f}  {times['kept']:6.2f}  {times['sequential']:10.2f}  {times['parallel']:8.2f}"
        )
    rows += ["", "where one check goes, in seconds; what is in brackets runs within hosts"]
    rows.append("hosts  program  ansible start   hosts  (fastest slowest command)  ansible end  judging")
    for size in measured:
        at = size.where
        rows.append(
            f"{size.hosts:5}  {at.program:7.2f}  {at.ansible_start:13.2f}  {at.hosts:6.2f}  ({at.fastest:7.2f} {at.slowest:7.2f}"
            f" {at.command:7.2f})  {at.ansible_end:11.2f}  {at.judging:7.2f}"
        )
    times = growth(measured)
    rows += ["", "growth: " + ", ".join(f"{name} {value:.2f}x" for name, value in times.items())]
    if loading:
        slowest = ", ".join(f"{name} {seconds:.1f}" for name, seconds in loading["slowest_s"].items())
        rows.append(
            f"with the loading probes, {loading['hosts']} hosts: {loading['check_s']:.1f} s ({slowest} s)"
        )
    turns, cores = len(measured[0].forms["check"].seconds), os.cpu_count()
    rows.append(
        f"\nmedians of {turns} turns; ratios are what to compare: seconds are this machine's, whose {cores}"
    )
    rows.append(f"cores carry the controller and every host, with a load of {load:.1f} before the run")
    rows.append(f"wanted: {BAR_HOSTS} hosts in at most {BAR_S:g} s and {BAR_SHARE:.2f} of sequential: ")
    rows[-1] += "; ".join(broken) or "held"
    return "\n".join(rows)
