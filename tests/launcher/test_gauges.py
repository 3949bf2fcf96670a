"""What counters and power amount to: work, idleness, a long prefill, a frozen engine, or nothing that can be told."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.gauges import HUNG_MOST_W, STILL_S, Beat, Gauges, Look, Power, judge, read, read_power, total

PAGES: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text())
    for path in sorted((Path(__file__).parent / "pages").glob("*.json"))
}
NODES = ("a0", "a1")
BUSY = Gauges(running=4.0, waiting=0.0, prompt=1000.0, made=5000.0, kv=0.25, steps=None)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_gives_its_totals(name: str) -> None:
    """Names match exactly, engines are summed, look-alikes and absurd values count for nothing."""
    case = PAGES[name]
    page = "\n".join(case["text"])
    assert {one: total(page, one) for one in case["totals"]} == case["totals"]
    assert dataclasses.asdict(read(page)) == case["gauges"]


@given(page=st.text(max_size=300), end=st.integers(0, 2000))
def test_any_page_gives_numbers_or_unknown(page: str, end: int) -> None:
    """Whatever the page, each gauge is a finite number or unknown; a cut page is read as far as it goes."""
    for text in (page, "\n".join(PAGES["one_engine_busy"]["text"])[:end] + page):
        values = dataclasses.asdict(read(text)).values()
        assert all(value is None or (math.isfinite(value) and value >= 0) for value in values)


@pytest.mark.parametrize(
    ("text", "watts", "busy"),
    [
        ("power.draw [W], utilization.gpu [%]\n23.51 W, 96 %\n", 23.51, 96.0),
        ("power.draw [W], utilization.gpu [%]\n[N/A], 96 %\n", None, 96.0),
        ("power.draw [W], utilization.gpu [%]\n[Unknown Error], [N/A]\n", None, None),
        ("power.draw [W], utilization.gpu [%]\n18.00 W, 95 %\n41.50 W, 12 %\n", 41.5, 95.0),
        ("power.draw [W], utilization.gpu [%]\n18.00 W, 95 %\n[N/A], 12 %\n", None, 95.0),
        ("power.draw [W], utilization.gpu [%]\n23,51 W, 96 %\n", None, None),
        ("power.draw [W], utilization.gpu [%]\n23.5", None, None),
        ("power.draw [W], utilization.gpu [%]\n", None, None),
        ("utilization.gpu [%], power.draw [W]\n96 %, 23.51 W\n", None, None),
        ("Unable to determine the device handle for GPU0: Unknown Error\n", None, None),
        ("", None, None),
    ],
)
def test_power_that_is_not_told_is_unknown(text: str, watts: float | None, busy: float | None) -> None:
    """A cell that is no number is unknown, never zero and never low; of several GPUs the highest counts, if all are known."""
    assert read_power(text) == Power(watts=watts, busy_percent=busy)


@given(text=st.text(max_size=200))
def test_any_text_gives_power_or_unknown(text: str) -> None:
    """Whatever nvidia-smi prints, with its header or without, nothing is raised."""
    for one in (text, f"power.draw [W], utilization.gpu [%]\n{text}"):
        watts = read_power(one).watts
        assert watts is None or 0 <= watts < 1e5


def _looks(
    *gauges: Gauges | None, every_s: float = 10.0, watts: dict[str, float | None] | None = None
) -> tuple[Look, ...]:
    power = {node: Power(watts=value, busy_percent=96.0) for node, value in (watts or {}).items()}
    return tuple(
        Look(at_s=100 + at * every_s, gauges=one, power=power if at else {}) for at, one in enumerate(gauges)
    )


def _still(**changes: float | None) -> tuple[Gauges, ...]:
    """Seven looks, 60 s, at an engine of which nothing moves but what is said of the last look."""
    return (*[BUSY] * 6, dataclasses.replace(BUSY, **changes))


LOW: dict[str, float | None] = {"a0": 18.2, "a1": 24.0}


@pytest.mark.parametrize(
    ("looks", "beat", "says"),
    [
        (_looks(None), "unread", "/metrics"),
        (_looks(dataclasses.replace(BUSY, running=None)), "unread", "/metrics"),
        (_looks(BUSY, None), "unclear", "no more"),
        (_looks(dataclasses.replace(BUSY, running=0.0)), "idle", "no request runs"),
        (_looks(dataclasses.replace(BUSY, running=0.0, waiting=2.0)), "still", "2 requests under way"),
        (_looks(BUSY, dataclasses.replace(BUSY, running=0.0)), "idle", "no request runs"),
        (_looks(BUSY), "still", "0 s"),
        (_looks(BUSY, BUSY, BUSY), "still", "20 s"),
        (
            _looks(BUSY, dataclasses.replace(BUSY, made=5001.0)),
            "moving",
            "4 requests under way and tokens flow",
        ),
        (_looks(BUSY, dataclasses.replace(BUSY, prompt=1001.0)), "moving", "tokens flow"),
        (_looks(*_still(kv=0.26), watts=LOW), "moving", "tokens flow"),
        (_looks(*_still(made=0.0), watts=LOW), "moving", "tokens flow"),
        (
            _looks(*[dataclasses.replace(BUSY, steps=float(at)) for at in range(7)], watts=LOW),
            "moving",
            "tokens flow",
        ),
        (_looks(*_still(), watts=LOW), "frozen", "4 requests under way and no token in the 60 s"),
        (_looks(*_still(running=9.0), watts=LOW), "frozen", "18 to 24 W at up to 96 %"),
        (_looks(*_still(), watts={"a0": 18.2, "a1": HUNG_MOST_W}), "frozen", "18 to 30 W"),
        (_looks(*_still(), watts={"a0": 18.2, "a1": 17.9}), "frozen", "draw 18 W at"),
        (_looks(*_still(), watts={"a0": 18.2, "a1": HUNG_MOST_W + 1}), "working", "a1 draws 31 W"),
        (_looks(*_still(), watts={"a0": 18.2, "a1": None}), "unclear", "power unknown on a1"),
        (_looks(*_still(), watts={"a0": 18.2}), "unclear", "power unknown on a1"),
        (_looks(*_still()), "unclear", "power unknown on a0, a1"),
        (_looks(*_still(), watts={"a0": None, "a1": 80.0}), "working", "a1 draws 80 W"),
        (_looks(*_still(kv=None), watts=LOW), "unclear", "KV cache usage unknown"),
        (
            _looks(*_still(made=None, prompt=None), watts=LOW),
            "unclear",
            "prompt tokens and generated tokens unknown",
        ),
    ],
)
def test_looks_amount_to_a_beat(looks: tuple[Look, ...], beat: Beat, says: str) -> None:
    """Frozen is said only when every counter is known and flat for a minute and every GPU's power is known and low."""
    pulse = judge(looks, NODES)
    assert (pulse.beat, says in pulse.note) == (beat, True), pulse.note


def test_one_look_is_never_a_minute() -> None:
    """A single look says nothing of time, whatever the clock did."""
    assert judge(_looks(BUSY, watts=LOW), NODES).beat == "still"
    assert judge(_looks(BUSY, BUSY, every_s=STILL_S - 1, watts=LOW), NODES).beat == "still"
    assert judge(_looks(BUSY, BUSY, every_s=STILL_S, watts=LOW), NODES).beat == "frozen"


def test_the_highest_power_of_a_node_counts() -> None:
    """The meter lags: a node that drew much in one look is not hung, and one unknown look takes nothing away."""
    looks = [
        Look(at_s=at, gauges=BUSY, power={"a0": Power(watts=watts), "a1": Power(watts=20.0)})
        for at, watts in ((0.0, 45.0), (30.0, None), (60.0, 18.0))
    ]
    assert judge(looks, NODES).beat == "working"
    assert judge([*looks[1:], dataclasses.replace(looks[2], at_s=90.0)], NODES).beat == "frozen"
