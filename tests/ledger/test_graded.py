"""What the block says of a configuration's quality: the verdict, and each measure beside the floor."""

from typing import TYPE_CHECKING

from ledger.best import best
from ledger.entry import Json
from ledger.graded import graded, said

if TYPE_CHECKING:
    from .conftest import Story

MEASURES = [
    {"measure": "kl_nats", "value": 0.00412, "floor": 0.0036, "bound": 0.0018, "outcome": "passes"},
    {"measure": "top1_changed", "value": 0.0131, "floor": 0.012, "bound": 0.006, "outcome": "passes"},
]


def climbed(story: "Story", digest: str) -> None:
    """A climb that kept one lever, on a boot of that recipe."""
    story.plan("c1", ["EXL3"])
    body = story.boot("c1", ["EXL3"]).body | {"recipe_digest": digest}
    story.rows.pop()
    story.add("boot", body)
    story.figures("c1", ["EXL3"], 61.0)
    story.verdict("c1", "EXL3", "accept", low=1.01, high=1.05)
    story.end("c1", ["EXL3"])


def asked(digest: str, **more: Json) -> dict[str, Json]:
    """A quality run of a configuration."""
    fingerprint = {
        "boot": "elsewhere",
        "recipe_digest": digest,
        "engine_version": "0.33.0",
        "engine_started": "",
    }
    body: dict[str, Json] = {
        "quality": "q1",
        "role": "run",
        "model": "flash",
        "battery": "standard",
        "battery_digest": "d1",
        "fingerprint": fingerprint,
        "verdict": "passes",
        "why": "no answer wrong that was right.",
        "probe": "passes",
        "scores": "0" * 64,
        "reference": "1" * 64,
        "floor_boots": 3,
        "measures": MEASURES,
    }
    return body | more


def test_the_last_run_of_the_configuration_counts(story: "Story") -> None:
    """On whatever boot of it; not one of another recipe, nor a reference or a repeat that makes a floor."""
    climbed(story, "r1")
    story.add("quality", asked("r1", quality="first", verdict="inconclusive"))
    story.add("quality", asked("r1", quality="second"))
    story.add("quality", asked("r2", verdict="fails"))
    story.add("quality", asked("r1", role="floor", verdict="fails"))
    (one,) = best(story.rows)
    assert said(graded(one, story.rows)) == (
        "Quality passes: no answer wrong that was right. Beside the floor that 3 boots make: KL from the reference (nats) 0.00412, "
        "floor 0.0036, may add 0.0018; another likeliest token 0.0131, floor 0.012, may add 0.006."
    )


def test_a_run_without_a_floor_says_its_verdict_alone(story: "Story") -> None:
    """And what was never asked is said to be so."""
    climbed(story, "r1")
    (one,) = best(story.rows)
    assert said(graded(one, story.rows)) == "Quality: not asked of this configuration."
    story.add("quality", asked("r1", verdict="fails", why="count: 3 of 20 wrong", measures=[], probe=None))
    assert said(graded(one, story.rows)) == "Quality fails: count: 3 of 20 wrong."
