"""A climb's course in its plan row: written, read back equal, and refused where it contradicts itself."""

import json
from dataclasses import replace

import pytest

from ledger import courses
from ledger.entry import RowFault
from sparkctl import content, edge
from tuner.course import Course
from tuner.factorial.plan import plan
from tuner.lever import Ladder
from tuner.noise import Noise

NOISE = Noise(
    scatter={"c1_per_stream_tok_s": 0.01, "c6_agg_tok_s": 0.03, "prefill_47k_tok_s": 0.015}, correlation=0.45
)


def known() -> list[Course]:
    """One of each kind."""
    ladder = edge.read(content.ladder("demo"), Ladder)
    return [
        Course(design="factorial", rule="proof", seed=7, plan=plan(ladder, NOISE)),
        Course(design="factorial", rule="proof", seed=7, plan=plan(ladder, NOISE, 30, "alone")),
        Course(
            design="factorial",
            rule="proof",
            seed=7,
            plan=replace(plan(ladder, NOISE), variances={"c6_agg_tok_s": 2.5}),
            lines=("A", "B"),
        ),
        Course(design="ladder", rule="proof", seed=1, plan=None),
        Course(design="ladder", rule="seed", seed=1, plan=None),
    ]


@pytest.mark.parametrize("course", known())
def test_a_course_comes_back_as_it_was(course: Course) -> None:
    """Through JSON, to the last share of the error."""
    assert courses.read(json.loads(json.dumps(courses.write(course)))) == course


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"design": "spiral"}, "wanted one of factorial, ladder"),
        ({"rule": "hope"}, "wanted one of proof, seed"),
        ({"rule": "seed"}, "wanted the design ladder"),
        ({"plan": None}, "wanted a plan"),
        ({"seed": "7"}, "seed: wanted a whole number"),
        ({"lines": ["B", "A"]}, "order of their names"),
        ({"lines": ["A"]}, "wanted 2 that climb in blocks"),
    ],
)
def test_what_is_no_course_is_refused(changed: dict[str, object], told: str) -> None:
    """With what was wanted."""
    with pytest.raises(RowFault, match=told):
        courses.read({**courses.write(known()[0]), **changed})


def test_the_row_of_one_line_says_nothing_of_lines() -> None:
    """As it was before two could climb together."""
    body = courses.write(known()[0])
    assert body.keys() == {"design", "rule", "seed", "plan"}
    assert "variances" not in json.dumps(body)
