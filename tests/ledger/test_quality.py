"""Rows of quality runs: what they must say, which make a floor, and what they say for a lever of a climb."""

from typing import TYPE_CHECKING

import pytest

from ledger import bodies
from ledger.entry import Json, RowFault
from ledger.history import last_climb
from ledger.quality import floor_of, quality, rows, same_configuration

if TYPE_CHECKING:
    from conftest import Story


def _body(boot: str = "b1", *, role: str = "run", **more: Json) -> dict[str, Json]:
    fingerprint: dict[str, Json] = {
        "boot": boot,
        "recipe_digest": "r1",
        "engine_version": "0.33.0",
        "engine_started": "",
    }
    return {
        "quality": f"quality-{boot}",
        "role": role,
        "model": "m",
        "battery": "standard",
        "battery_digest": "d1",
        "fingerprint": fingerprint,
        "verdict": "passes",
        "why": "",
        "probe": "passes",
        "scores": "5" * 64,
        "reference": "0" * 64,
        "simulated": True,
        **more,
    }


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("role", "judge", "role: wanted one of run, reference, floor"),
        ("verdict", "exceeds", "verdict: wanted one of passes, fails"),
        ("fingerprint", {"boot": "b"}, "fingerprint: recipe_digest: the key is missing"),
        ("scores", 5, "scores: wanted text"),
        ("parts", [{"part": "tools"}], "asked: the key is missing"),
    ],
)
def test_a_row_that_says_less_is_refused(key: str, value: Json, fault: str) -> None:
    """With the key and what was wanted."""
    with pytest.raises(RowFault, match=fault):
        bodies.check("quality", _body() | {key: value})


def test_a_row_of_an_older_ledger_still_reads() -> None:
    """Before the battery a quality row had a free body; it is passed over, not refused."""
    bodies.check("quality", {"boot": "b1", "passed": True, "simulated": True})


def test_a_floor_is_the_last_run_of_each_boot(story: "Story") -> None:
    """Of one battery, of practice lines or of real ones, and of one reference."""
    story.add("quality", _body("b1", role="reference", reference=None, scores="0" * 64))
    story.add("quality", _body("b2", role="floor", quality="first"))
    story.add("quality", _body("b3", role="floor"))
    story.add("quality", _body("b2", role="floor", quality="second"))
    story.add("quality", _body("b4", role="floor", reference="9" * 64))
    story.add("quality", _body("b5", role="floor", battery_digest="d2"))
    story.add("quality", _body("b6", role="run"))
    found = rows(story.rows, battery_digest="d1", simulated=True)
    assert [one.quality for one in floor_of(found, "0" * 64)] == ["second", "quality-b3"]
    assert rows(story.rows, battery_digest="d1", simulated=False) == ()
    own = quality(_body("b7")).fingerprint
    assert [one.fingerprint.boot for one in same_configuration(found, "0" * 64, own)] == ["b6"]


def test_a_quality_run_joins_every_boot_of_its_configuration(story: "Story") -> None:
    """Also one that was booted outside the climb: what counts is the recipe's digest. The last run that judged scores holds."""
    story.plan("c1", ["EXL3"])
    for digest in ("r0", "r1", "r1"):
        body = story.boot("c1", [] if digest == "r0" else ["EXL3"]).body | {"recipe_digest": digest}
        story.rows.pop()
        story.add("boot", body)
        story.add(
            "bench",
            {"boot": f"b{story.boots}", "climb": "c1", "on": body["on"], "voids": [], "metrics": []},
        )
    story.add("quality", _body("elsewhere", verdict="inconclusive", probe="inconclusive"))
    story.add("quality", _body("elsewhere"))
    story.add("quality", _body("elsewhere", probe=None))
    climb = last_climb(story.rows, "A", simulated=True)
    assert climb is not None
    assert [one.quality for one in climb.trials] == ["", "passes", "passes"]


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        ((("standard", "passes"),), ""),
        ((("standard", "passes"), ("budget", "passes")), "passes"),
        ((("budget", "passes"), ("standard", "inconclusive")), "inconclusive"),
        ((("standard", "passes"), ("budget", "fails")), "fails"),
        ((("standard", "fails"),), "fails"),
        ((("budget", "fails"), ("standard", "passes"), ("budget", "passes")), "passes"),
    ],
)
def test_a_lever_with_batteries_needs_each_of_them(
    story: "Story", runs: tuple[tuple[str, str], ...], told: str
) -> None:
    """One that was not asked leaves it open, one that fails is enough, and the last run of each counts."""
    story.plan("c1", ["CUT"], batteries={"CUT": ["standard", "budget"]})
    body = story.boot("c1", ["CUT"]).body | {"recipe_digest": "r1"}
    story.rows.pop()
    story.add("boot", body)
    story.add("bench", {"boot": body["boot"], "climb": "c1", "on": ["CUT"], "voids": [], "metrics": []})
    for name, verdict in runs:
        probe = None if name == "budget" else "passes"
        budget = {"budget": "passes"} if name == "budget" else {}
        story.add("quality", _body("b9", battery=name, verdict=verdict, probe=probe, **budget))
    climb = last_climb(story.rows, "A", simulated=True)
    assert climb is not None
    assert [one.quality for one in climb.trials] == [told]
