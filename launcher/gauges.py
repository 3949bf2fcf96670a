"""Gauges: the counters of /metrics and the power of the GPUs over some time, to whether an engine works, idles or is frozen. Pure.

A frozen engine looks alive: /health is 200, requests run, the GPUs show 95 % utilisation. What tells is that nothing moves: no
prompt token, no generated token, no KV block. A long prefill moves KV blocks with every chunk, although vLLM counts its prompt
tokens only at its end.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

STILL_S = 60.0
"""Seconds of the line in which nothing may move before it is called frozen. A chunk of 8,192 prompt tokens takes about 6 s at the
1,400 tok/s of public reports (bot-lab-21/DeepSeek-V4.1-Flash-EXL3-DGX-Spark), and each moves KV blocks: ten times that. Watchdogs
in the field take 90 s (tsw2k/Deepseek-4.1-Flash-Quad-DGX-Sparks, reported).
"""

HUNG_MOST_W = 30.0
"""Power up to which a GPU that shows no progress is taken as hung. Ours: above the 16 to 27 W of hung collectives at 95 %
utilisation (tsw2k/Deepseek-4.1-Flash-Quad-DGX-Sparks; eugr/spark-vllm-docker#260, reported) and far below what computing alone
draws (80 to 95 W under a matrix product, same sources). Healthy decode draws 23 to 25 W with one stream and prefill 22 W
(tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark, reported), so power never tells by itself: it confirms, or it contradicts.
"""

POWER_ARGV = ("nvidia-smi", "--query-gpu=power.draw,utilization.gpu", "--format=csv")

Beat = Literal["unread", "idle", "moving", "still", "working", "frozen", "unclear"]
"""`still`: nothing has moved so far, look on. `working`: nothing moves, but a GPU draws more than a hung one."""

_RUNNING, _WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
_MADE = "vllm:generation_tokens_total"
_PROMPT = "vllm:prompt_tokens_total"
_STEPS = "vllm:iteration_tokens_total_count"
# The second is the name in older releases; never both, since a page that has both shows one pool twice.
_KV = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")

_SAMPLE = re.compile(
    r'(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)(?:\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\})?[ \t]+(?P<value>[^\s#]+)'
    r"(?:[ \t]+-?[0-9]+(?:\.[0-9]+)?)?[ \t]*(?:#.*)?",
    re.ASCII,
)
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_CELL = re.compile(r"(?P<number>[0-9]{1,5}(?:\.[0-9]{1,4})?) (?:W|%)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """The engine's counters at one moment, summed over its engines; None where the page has none or one that is no number."""

    running: float | None
    waiting: float | None
    prompt: float | None
    made: float | None
    kv: float | None
    steps: float | None

    @property
    def in_flight(self) -> float | None:
        """Requests that wait for a token."""
        return None if self.running is None else self.running + (self.waiting or 0.0)

    @property
    def progress(self) -> tuple[float | None, ...]:
        """Whatever grows or changes while the engine works."""
        return (self.prompt, self.made, self.kv, self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """What one GPU draws and how busy it says it is; None is unknown, and never low."""

    watts: float | None
    busy_percent: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look: when, in the line's seconds; the counters, None if /metrics was not read; the power of the nodes asked."""

    at_s: float
    gauges: Gauges | None
    power: Mapping[str, Power] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """What some looks amount to, and how that is said."""

    beat: Beat
    note: str


def read(page: str) -> Gauges:
    """Read a /metrics page in Prometheus' text format."""
    kv = next((value for name in _KV if (value := total(page, name)) is not None), None)
    return Gauges(
        running=total(page, _RUNNING),
        waiting=total(page, _WAITING),
        prompt=total(page, _PROMPT),
        made=total(page, _MADE),
        kv=kv,
        steps=total(page, _STEPS),
    )


def total(page: str, name: str) -> float | None:
    """Sum the samples of exactly that name over all labels; None when there is none, or one of them is no number."""
    values: list[float] = []
    for line in page.splitlines():
        sample = _SAMPLE.fullmatch(line.strip()) if line.lstrip().startswith(name) else None
        if sample is None or sample["name"] != name:
            continue
        if not _NUMBER.fullmatch(sample["value"]):
            return None
        values.append(float(sample["value"]))
    whole = math.fsum(values) if values and all(map(math.isfinite, values)) else None
    return whole if whole is not None and math.isfinite(whole) else None


def read_power(text: str) -> Power:
    """Read what POWER_ARGV prints; a cell such as `[N/A]` is unknown. Of several GPUs the one that draws most counts."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    if not rows or [cell.partition(" ")[0] for cell in rows[0]] != ["power.draw", "utilization.gpu"]:
        return Power(watts=None)
    gpus = [(_cell(row[0]), _cell(row[1])) for row in rows[1:] if len(row) == 2]
    known = [watts for watts, _ in gpus if watts is not None]
    busy = [percent for _, percent in gpus if percent is not None]
    whole = len(known) == len(gpus) == len(rows) - 1
    return Power(watts=max(known) if known and whole else None, busy_percent=max(busy, default=None))


def _cell(text: str) -> float | None:
    found = _CELL.fullmatch(text)
    return float(found["number"]) if found else None


def judge(looks: Sequence[Look], nodes: Sequence[str]) -> Pulse:
    """Judge looks in the order of time; `nodes` are those whose power must be known before anything is called frozen."""
    first, last = looks[0].gauges, looks[-1].gauges
    if first is None or first.in_flight is None:
        return Pulse(beat="unread", note="its /metrics could not be read, so a frozen engine would not show")
    if last is None or last.in_flight is None:
        return Pulse(beat="unclear", note="its /metrics could be read at first and then no more")
    if not last.in_flight:
        return Pulse(beat="idle", note="no request runs")
    asked = f"{last.in_flight:g} {'request' if last.in_flight == 1 else 'requests'} under way"
    if any(_moved(first, look.gauges) for look in looks[1:]):
        return Pulse(beat="moving", note=f"{asked} and tokens flow")
    passed_s = looks[-1].at_s - looks[0].at_s
    if len(looks) < 2 or passed_s < STILL_S:
        return Pulse(beat="still", note=f"{asked} and nothing moved in the {passed_s:.0f} s of this look")
    return _stood_still(
        first, last, looks, nodes, f"{asked} and no token in the {passed_s:.0f} s of this look"
    )


def _stood_still(
    first: Gauges, last: Gauges, looks: Sequence[Look], nodes: Sequence[str], said: str
) -> Pulse:
    """Say what it amounts to that nothing was seen to move: only what is known to be flat is."""
    unknown = _unknown(first, last)
    if unknown:
        why = f"{' and '.join(unknown)} unknown, so a long prefill would look the same"
        return Pulse(beat="unclear", note=f"{said}; {why}")
    return _confirm(f"{said}, nor a KV block", looks, nodes)


def _unknown(first: Gauges, last: Gauges) -> tuple[str, ...]:
    """Return what is not known at both ends, and so cannot be called flat."""
    both = (
        ("prompt tokens", first.prompt, last.prompt),
        ("generated tokens", first.made, last.made),
        ("KV cache usage", first.kv, last.kv),
    )
    return tuple(name for name, old, new in both if old is None or new is None)


def _moved(before: Gauges, after: Gauges | None) -> bool:
    """Whether anything that is known at both moments differs; a counter that fell was started anew, which is a move too."""
    return after is not None and any(
        old is not None and new is not None and old != new
        for old, new in zip(before.progress, after.progress, strict=True)
    )


def _confirm(said: str, looks: Sequence[Look], nodes: Sequence[str]) -> Pulse:
    """Let power decide between a freeze and work that shows nowhere else."""
    most = {node: _most(node, looks) for node in nodes}
    known = {node: watts for node, watts in most.items() if watts is not None}
    hot = [f"{node} draws {watts:.0f} W" for node, watts in known.items() if watts > HUNG_MOST_W]
    if hot:
        return Pulse(beat="working", note=f"{said}, but {', '.join(hot)}: more than a hung GPU")
    unknown = [node for node in nodes if node not in known]
    if unknown or not nodes:
        return Pulse(beat="unclear", note=f"{said}; power unknown on {', '.join(unknown) or 'every node'}")
    low, high = (f"{edge:.0f}" for edge in (min(known.values()), max(known.values())))
    drawn = f"{low} W" if low == high else f"{low} to {high} W"
    busy = [one.busy_percent for look in looks for one in look.power.values() if one.busy_percent is not None]
    shows = f" at up to {max(busy):.0f} % utilisation" if busy else ""
    return Pulse(beat="frozen", note=f"{said}; the GPUs draw {drawn}{shows}, as hung ones do")


def _most(node: str, looks: Sequence[Look]) -> float | None:
    watts = [look.power[node].watts for look in looks if node in look.power]
    known = [value for value in watts if value is not None]
    return max(known) if known else None
