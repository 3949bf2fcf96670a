"""What a file of sessions is, seen by its content, and the load that it makes. Pure.

A first line that is a whole JSON object is a neutral trace's header or the first of several recorded sessions; a document that goes on
over lines is one recorded session; everything else is a workload of ours in YAML, which the caller reads.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Literal

from tuner.agents import trace, weka
from tuner.agents.fields import decoded
from tuner.agents.trace import Trace, refuse

Kind = Literal["trace", "weka lines", "weka", "workload"]


def kind(first: str) -> Kind:
    """Return what a file is whose first line that is not empty is this one."""
    if not first.lstrip().startswith(("{", "[")):
        return "workload"
    try:
        found: object = json.loads(first)
    except (ValueError, RecursionError):
        return "weka"
    if isinstance(found, dict) and "format" in found:
        return "trace"
    return "weka lines" if isinstance(found, dict) else "weka"


def read(lines: Iterable[str], *, source: str, take: int | None = None) -> Trace | None:
    """Read a trace of either form, or its first `take` sessions; None for what is no JSON.

    Raises:
        FileFault: the message lists every fault with its place.

    """
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    first = next(numbered, None)
    if first is None:
        return None
    match kind(first[1]):
        case "trace":
            blank = [""] * (first[0] - 1)
            rest = (line for _, line in numbered)
            return trace.parse(chain(blank, [first[1]], rest), source=source, take=take)
        case "weka lines":
            return _recorded(islice(chain([first], numbered), take), source)
        case "weka":
            return _whole(chain([first[1]], (line for _, line in numbered)), source, take)
        case "workload":
            return None


def _recorded(numbered: Iterable[tuple[int, str]], source: str) -> Trace:
    faults: list[str] = []
    found = [(f"{source}:{number}", decoded(line, f"{source}:{number}", faults)) for number, line in numbered]
    refuse(faults)
    return weka.read(found, source=source)


def _whole(lines: Iterator[str], source: str, take: int | None) -> Trace:
    faults: list[str] = []
    raw = decoded("\n".join(lines), source, faults)
    refuse(faults)
    if not isinstance(raw, list):
        return weka.read([(source, raw)], source=source)
    return weka.read([(f"{source}: $[{n}]", one) for n, one in enumerate(raw[:take])], source=source)
