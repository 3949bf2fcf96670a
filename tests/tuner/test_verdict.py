"""Verdicts on samples: each case is a file with what was measured and what must be decided."""

import json
import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from tuner.evidence import Evidence, alpha, judge
from tuner.lever import Ladder
from tuner.statistics import Comparison
from tuner.verdict import Verdict, answer, seed_rule, unmeasured

CASES = sorted((Path(__file__).parent / "data" / "verdicts").glob("*.json"))


def evidence(raw: dict[str, Any]) -> Evidence:
    """Complete a case with what its verdict does not depend on."""
    samples = {
        name: {arm: tuple(map(float, values)) for arm, values in arms.items()}
        for name, arms in raw["samples"].items()
    }
    return Evidence(
        arm="arm",
        base="base",
        samples=samples,
        failures=tuple(raw["failures"]),
        voids=tuple(raw["voids"]),
        boots=9,
        void_boots=len(raw["voids"]),
        look=raw["look"],
        last=raw["last"],
        seed_rule="accept",
    )


def judged(ladder: Ladder, case: str) -> Verdict | None:
    """Judge the case of that name."""
    raw = json.loads((Path(__file__).parent / "data" / "verdicts" / f"{case}.json").read_text())
    return judge(ladder, ladder.levers[0], evidence(raw))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_verdict_is_what_the_case_says(case: Path, ladder: Ladder) -> None:
    """The verdict, the numbers named in its reason, and whether it asks for further boots."""
    raw = json.loads(case.read_text(encoding="utf-8"))
    found = judge(ladder, ladder.levers[0], evidence(raw))
    assert (found.verdict if found else None) == raw["verdict"]
    if found:
        assert [part for part in raw["why"] if part not in found.why] == []
        assert (found.wanted is not None) == raw["wanted"]


def test_error_is_shared_out_among_levers_primaries_and_looks(ladder: Ladder) -> None:
    """5 % over 4 levers, 2 primaries and 7 looks; more levers make each look stricter."""
    assert alpha(ladder) == pytest.approx(0.05 / (4 * 2 * 7))
    assert alpha(replace(ladder, levers=ladder.levers[:1])) == pytest.approx(4 * alpha(ladder))


def test_interval_of_a_primary_is_the_one_that_decided(ladder: Ladder) -> None:
    """An accepted lever's interval lies above 1 at the confidence that the ladder's error leaves for a look."""
    found = judged(ladder, "accept_one_primary")
    assert found is not None
    primary, guard = found.metrics["c1_per_stream_tok_s"], found.metrics["prefill_47k_tok_s"]
    assert primary.low > 1
    assert (primary.confidence, guard.confidence) == (pytest.approx(1 - 2 * alpha(ladder)), 0.9)


def test_answer_has_the_agreed_keys_and_is_plain_json(ladder: Ladder) -> None:
    """Unknown bounds are null, for JSON knows no infinity."""
    found = judged(ladder, "no_noise_known_at_the_end")
    assert found is not None
    shown = json.loads(json.dumps(answer(found), allow_nan=False))
    assert {"lever", "verdict", "metrics", "boots", "voids", "seed_rule", "why"} <= shown.keys()
    metric = shown["metrics"]["c1_per_stream_tok_s"]
    assert metric["estimate"] == pytest.approx(62 / 57)
    assert (metric["low"], metric["high"]) == (0.0, None)
    assert "need >= 2 boots" in metric["warnings"][0]


def test_answer_holds_the_whole_verdict(ladder: Ladder) -> None:
    """Every field of the verdict and of its comparisons is there, so a row of the ledger can reproduce them; lines where there are several."""
    found = judged(ladder, "accept_one_primary")
    assert found is not None
    shown = answer(found)
    names = {"boots_wanted" if one.name == "wanted" else one.name for one in fields(Verdict)}
    assert shown.keys() == names - {"by_line"}
    assert answer(replace(found, by_line={"A": found.metrics})).keys() == names
    assert shown["boots_wanted"] == found.wanted
    metrics = shown["metrics"]
    assert isinstance(metrics, dict)
    for name, comparison in found.metrics.items():
        assert Comparison(**{**metrics[name], "warnings": tuple(metrics[name]["warnings"])}) == comparison


def test_answer_spells_out_what_utf_8_has_no_word_for(ladder: Ladder) -> None:
    """A reason may quote a server's broken text; it must not cost the row or the answer."""
    broken = unmeasured(ladder.levers[0], "reject", "half a pair: \ud83d")
    assert answer(broken)["why"] == "half a pair: \\ud83d"


def test_lever_that_was_not_booted_has_no_figures(ladder: Ladder) -> None:
    """A verdict without boots carries its reason alone."""
    found = unmeasured(ladder.levers[0], "reject", "cannot stand beside x, which was accepted")
    assert (found.boots, found.metrics, found.seed_rule) == (0, {}, "none")


@pytest.mark.parametrize(
    ("c1", "c6", "prefill", "said"),
    [
        (1.03, 1.0, 1.0, "accept"),
        (1.0, 1.031, 0.951, "accept"),
        (1.029, 1.029, 1.1, "reject"),
        (1.2, 1.2, 0.949, "reject"),
    ],
)
def test_seed_rule_is_that_of_the_public_ladder(
    ladder: Ladder, c1: float, c6: float, prefill: float, said: str
) -> None:
    """+3 % on either primary and at most 5 % loss of prefill, on one boot each."""
    base = {"c1_per_stream_tok_s": 100.0, "c6_agg_tok_s": 100.0, "prefill_47k_tok_s": 1000.0}
    gains = {"c1_per_stream_tok_s": c1, "c6_agg_tok_s": c6, "prefill_47k_tok_s": prefill}
    assert seed_rule(ladder, base, {name: base[name] * gains[name] for name in base}) == said
    assert seed_rule(ladder, base, {}) == "none"


def test_boots_wanted_follow_from_the_noise(ladder: Ladder) -> None:
    """An open guard asks for the boots that bring its bound above the bar with a power of 80 %."""
    found = judged(ladder, "guard_open_at_the_end")
    assert found is not None
    guard = found.metrics["prefill_47k_tok_s"]
    each = math.ceil(2 * (guard.scatter * (1.6449 + 0.8416) / math.log(guard.estimate / 0.95)) ** 2)
    assert found.wanted == max(2, 2 * each - 8)
