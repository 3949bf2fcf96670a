"""The page in a real browser: every mark stands where its number belongs, on a phone and a desk, in light and dark."""

import re
from pathlib import Path
from typing import Any

import pytest

from launcher.capacity.preset import Model
from ledger.best import best
from ledger.history import climbs
from ledger.journal import Journal
from ledger.page.noise_plot import points
from ledger.page.page import page
from sparkctl import content, edge
from sparkctl.cli import report_facts, run

from .browser import Seen, look

ROOT = Path(__file__).parents[3]
DEMO = ROOT / "docs" / "demo" / "ledger.jsonl"
TIMED = Path(__file__).parent / "timed_boot.jsonl"
GOLDEN = sorted((ROOT / "tests" / "ledger" / "golden").glob("*.jsonl"))
ROWS = Journal(DEMO).read().rows


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the demo's ledger, written by the verb."""
    state = tmp_path_factory.mktemp("state")
    (state / "ledger.jsonl").write_bytes(DEMO.read_bytes())
    assert run(["report", "--html", str(state / "report.html"), "--state", str(state)]) == 0
    return state / "report.html"


@pytest.fixture(scope="module")
def wide(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """That page on a desk."""
    return look(demo, tmp_path_factory.mktemp("wide"))


FARTHEST = 60.0
"""Percent beyond which the ladder's plot cuts an interval off."""


def _number(mark: dict[str, Any], name: str) -> float:
    return float(mark["data"][name])


def _straight(pairs: list[tuple[float, float]]) -> None:
    """Assert that pixels follow numbers along one straight line, to half a pixel."""
    (a, x), (b, y) = min(pairs), max(pairs)
    slope = (y - x) / (b - a)
    for value, place in pairs:
        assert place == pytest.approx(x + slope * (value - a), abs=0.5)


def test_the_ladders_marks_are_the_verdicts_effects(wide: Seen) -> None:
    """Estimate and bounds of each effect are the ledger's, and each dot and line lies where those belong on one axis."""
    (climb,) = climbs(ROWS)
    wanted = {
        (verdict.lever, one.metric): (one.estimate, one.low, one.high)
        for verdict in climb.verdicts
        for one in verdict.effects
    }
    marks = wide.marks("ladder-0", "effect")
    found = {
        (one["data"]["lever"], one["data"]["metric"]): tuple(
            1 + _number(one, name) / 100 for name in ("x", "low", "high")
        )
        for one in marks
    }
    assert found.keys() == wanted.keys()
    for key, values in found.items():
        assert values == pytest.approx(wanted[key])
    _straight([(_number(one, "x"), one["dots"][0]["x"]) for one in marks])
    whole = [one for one in marks if max(abs(_number(one, name)) for name in ("low", "high")) <= FARTHEST]
    assert 0 < len(whole) < len(marks), "this climb has an interval that is cut off at the edge"
    _straight([((_number(one, "low") + _number(one, "high")) / 2, one["lines"][0]["x"]) for one in whole])


def test_throughput_is_that_of_the_best_configuration(wide: Seen) -> None:
    """Each load of streams is a dot at its mean."""
    (one,) = best(ROWS)
    wanted = {
        figure.metric: figure.mean
        for figure in one.figures
        if re.match(r"c[0-9]+_(per_stream|agg)_tok_s", figure.metric)
    }
    marks = wide.marks("streams-0", "stream")
    assert {mark["data"]["metric"]: _number(mark, "y") for mark in marks} == wanted
    _straight([(_number(mark, "y"), mark["dots"][0]["y"]) for mark in marks])
    _straight([(_number(mark, "x"), mark["dots"][0]["x"]) for mark in marks])


def test_the_noise_is_every_boot_beside_its_own_configuration(wide: Seen) -> None:
    """For every metric each boot of the climb that was measured twice and more, at its number and its deviation."""
    (climb,) = climbs(ROWS)
    for metric in ("c1_per_stream_tok_s", "c6_agg_tok_s", "prefill_47k_tok_s"):
        marks = [one for one in wide.marks("noise-0", "noise") if one["data"]["metric"] == metric]
        assert {one["data"]["boot"]: _number(one, "value") for one in marks} == {
            one.boot: one.value for one in points(climb, metric)
        }
        _straight([(_number(one, "y"), one["dots"][0]["y"]) for one in marks])
        _straight([(_number(one, "x"), one["dots"][0]["x"]) for one in marks])


def test_the_roofline_stands_on_the_measured_rates(wide: Seen) -> None:
    """The loads are those of the figures, and what is drawn as arithmetic is rate over accepted tokens, times the FLOPs of a step."""
    (one,) = best(ROWS)
    (told,) = report_facts.facts(ROWS).values()
    rates = {figure.metric: figure.mean for figure in one.figures}
    marks = wide.marks("roofline-0", "standing")
    assert len(marks) == 2
    for mark, standing in zip(marks, told.standings, strict=True):
        assert _number(mark, "tokS") == rates[mark["data"]["metric"]] == standing.tok_s
        assert _number(mark, "y") * 1e12 == pytest.approx(standing.flop_s)
        # A session's rows are a token and those drafted; each of a row's experts has three matrices, two FLOPs a weight, over four ranks.
        shape = edge.read(content.model("deepseek-v41-flash-exl3"), Model).experts
        step = standing.sessions * 6 * shape.layers * shape.top_k * 6 * shape.hidden * shape.intermediate / 4
        assert standing.flop_s == pytest.approx(step * standing.tok_s / standing.accepted)
    assert told.standings[0].low == told.standings[0].high


def test_the_caches_parts_are_one_request(wide: Seen) -> None:
    """The bars add up to the blocks of one full-length request, each as long as its share."""
    (told,) = report_facts.facts(ROWS).values()
    marks = wide.marks("cache-0", "part")
    assert [_number(one, "x") for one in marks] == [part.n_bytes / 1024**3 for part in told.parts]
    long = [(_number(one, "x"), one["bars"][0]["w"]) for one in marks if one["bars"][0]["w"] > 2]
    _straight([(0.0, 0.0), *long])


def test_a_boots_timeline_is_its_steps_and_its_ranks(tmp_path: Path) -> None:
    """Each stage of the line and each stage of each rank is a bar from its beginning to its end, in the line's seconds."""
    rows = Journal(TIMED).read().rows
    path = tmp_path / "report.html"
    path.write_text(page(rows, {}), encoding="utf-8")
    marks = look(path, tmp_path).marks("timeline-0", "stretch")
    steps = [row.body for row in rows if row.kind == "step"]
    boot = next(row.body for row in rows if row.kind == "boot")
    ready = next(one["seconds"] for one in steps if (one["stage"], one["state"]) == ("ready", "began"))
    line = {one["data"]["stage"]: _number(one, "low") for one in marks if one["data"]["who"] == "line"}
    assert line == {one["stage"]: one["seconds"] for one in steps if one["state"] == "began"}
    stages: Any = boot["stages"]
    for node, passed in stages.items():
        own = [(one["data"]["stage"], _number(one, "low")) for one in marks if one["data"]["who"] == node]
        assert own == [(stage, ready + at_s) for stage, at_s in passed]
    _straight([(_number(one, "low"), one["bars"][0]["x"] - one["bars"][0]["w"] / 2) for one in marks])


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_phone_shows_all_of_it(demo: Path, tmp_path: Path, *, dark: bool) -> None:
    """On 360 pixels nothing sticks out, plots are as wide as the column, texts stay legible, and dark is dark."""
    seen = look(demo, tmp_path, width=360, dark=dark)
    assert seen.told["scroll"] <= seen.told["width"]
    assert all(one["box"]["w"] > 280 for one in seen.told["charts"])
    assert min(one["size"] for one in seen.told["texts"]) >= 8
    light = sum(map(int, re.findall(r"[0-9]+", seen.told["background"])[:3])) > 3 * 128
    assert light is not dark
    assert seen.complaints == ()


def test_nothing_is_cut_off(wide: Seen) -> None:
    """Every text of a plot lies within some plot."""
    for one in wide.told["texts"]:
        left, right = one["box"]["x"] - one["box"]["w"] / 2, one["box"]["x"] + one["box"]["w"] / 2
        assert any(
            chart["box"]["x"] - chart["box"]["w"] / 2 - 1 <= left
            and right <= chart["box"]["x"] + chart["box"]["w"] / 2 + 1
            for chart in wide.told["charts"]
        ), one["text"]


def test_the_browser_has_nothing_to_complain_of(wide: Seen) -> None:
    """No error on its console: no script, nothing fetched, nothing that the page's own policy forbids."""
    assert wide.complaints == ()


@pytest.mark.parametrize("ledger", GOLDEN, ids=lambda path: path.stem)
def test_any_ledger_makes_a_page(ledger: Path) -> None:
    """Whatever rows hold, markup from outside among it, the page has none of it as markup, and is the same twice."""
    rows = Journal(ledger).read().rows
    text = page(rows, report_facts.facts(rows))
    assert text == page(rows, report_facts.facts(rows))
    assert not re.search(r"<(script|img|link|iframe)|\son[a-z]+=|https?://[^ ]*\"", text)
    assert "Made by" in text


def test_a_stale_page_is_told(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`report --html FILE --check` answers 0 for the page as it was written, and 1 when the ledger or the file has changed."""
    state = ("--state", str(demo.parent))
    assert run(["report", "--html", str(demo), "--check", *state]) == 0
    other = demo.with_name("other.html")
    other.write_text(demo.read_text(encoding="utf-8") + " ", encoding="utf-8")
    assert run(["report", "--html", str(other), "--check", *state]) == 1
    assert "the page is stale" in capsys.readouterr().out
