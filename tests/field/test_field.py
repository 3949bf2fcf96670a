"""Every raw text of the field has its verdict: what people met on these machines is told as what it is, and nothing else is."""

import functools
import math
import re
from collections import Counter

import field_line
import field_loading
import field_measuring
import field_serving
import pytest
from field_catalogue import GRAVE, NODES, QUIET, RAW, Case, Look, Outcome, Wanted, cases
from field_forms import FORMS

from bootcheck import collect, gates
from bootcheck.floors import Floors
from launcher.diagnosis import TROUBLES

CASES = cases()
JUDGES = {**field_line.JUDGES, **field_loading.JUDGES, **field_serving.JUDGES, **field_measuring.JUDGES}
LOOKS = [(file, place) for file, case in CASES.items() for place in range(len(case.looks))]


@functools.cache
def judged(file: str) -> tuple[tuple[Outcome, ...], ...]:
    """Return what the product says of a case, look by look."""
    case = CASES[file]
    return tuple(tuple(JUDGES[look.judge](case.text, look.given)) for look in case.looks)


def loud(file: str) -> set[tuple[str, str]]:
    """Return who says of a case that something is not as it should be, or tells something, on any node."""
    return {(one.by, one.verdict) for look in judged(file) for one in look if one.verdict != "pass"}


def wanted(look: Look) -> list[tuple[str, Wanted]]:
    """Return what a look wants, node by node."""
    return [(node, one) for one in look.expect for node in one.nodes or look.nodes]


def fits(one: Outcome, node: str, want: Wanted) -> bool:
    """Whether an outcome is what is wanted on a node: verdict, pieces of text, figures."""
    return (
        (one.by, one.verdict, one.node) == (want.by, want.verdict, node)
        and all(piece in one.said for piece in want.said)
        and all(piece in one.hint for piece in want.hint)
        and all(math.isclose(one.figures.get(name, math.nan), value) for name, value in want.figures.items())
    )


@pytest.mark.parametrize(("file", "place"), LOOKS, ids=[f"{file}-{place}" for file, place in LOOKS])
def test_a_raw_text_gets_its_verdict(file: str, place: int) -> None:
    """Exactly what the case wants comes out, with its figures and its remedy; a pass need not be listed."""
    look, found = CASES[file].looks[place], judged(file)[place]
    said = Counter((one.by, one.verdict, one.node) for one in found if one.verdict != "pass")
    assert said == Counter((one.by, one.verdict, node) for node, one in wanted(look) if one.verdict != "pass")
    for node, one in wanted(look):
        near = [outcome for outcome in found if (outcome.by, outcome.node) == (one.by, node)]
        assert any(fits(outcome, node, one) for outcome in near), f"{one} is not among {near}"


@pytest.mark.parametrize("file", CASES)
def test_what_is_wrong_has_a_remedy(file: str) -> None:
    """Whatever asks something of somebody says what, and the case shows a piece of it."""
    assert [one for look in judged(file) for one in look if one.verdict not in QUIET and not one.hint] == []
    assert [
        one for look in CASES[file].looks for one in look.expect if one.verdict not in QUIET and not one.hint
    ] == []


@pytest.mark.parametrize("file", [file for file, case in CASES.items() if case.looks[0].judge == "log"])
def test_a_log_tells_the_cause_first(file: str) -> None:
    """Where a log tells of several things, the case lists them in the order in which they are told."""
    assert [one.by for one in judged(file)[0]] == [one.by for one in CASES[file].looks[0].expect]


def test_every_raw_file_has_a_case() -> None:
    """No raw file lies about unjudged, and no case stands for a file that is gone."""
    assert sorted(CASES) == sorted(path.name for path in RAW.iterdir())
    assert all(case.looks and all(look.expect for look in case.looks) for case in CASES.values())
    assert all(look.about for case in CASES.values() for look in case.looks[1:])


@pytest.mark.parametrize("file", [file for file, case in CASES.items() if case.mate])
def test_a_case_and_its_mate_differ(file: str) -> None:
    """Good and bad output of one tool lead to different verdicts."""
    assert loud(file) != loud(CASES[file].mate)


@pytest.mark.parametrize("file", [file for file, case in CASES.items() if case.lies == "alarm"])
def test_an_alarm_that_lies_stops_nothing(file: str) -> None:
    """What looks alarming in a sound line is neither a failure nor something that cannot be told."""
    assert [one for one in loud(file) if one[1] in GRAVE] == []


@pytest.mark.parametrize("file", [file for file, case in CASES.items() if case.lies == "green"])
def test_a_green_light_that_lies_is_not_believed(file: str) -> None:
    """A healthy sign is no reason to pass what is wrong."""
    assert [one for one in loud(file) if one[1] not in QUIET]


@pytest.mark.parametrize("file", [file for file in CASES if file.startswith(("01", "18"))])
def test_what_the_driver_does_not_tell_is_never_zero(file: str) -> None:
    """GB10 has no memory of its own and no memory clock: nothing that reads the GPU says 0 of either."""
    read = [
        one for look in judged(file) for one in look if one.by in {"gpu", "gpu-quiet", "engine-processes"}
    ]
    assert read
    assert [one for one in read if re.search(r"(?<![\d.])0(?:\.0+)? (?:[KMG]i?B|MHz)\b", one.said)] == []


def test_no_command_locks_a_clock() -> None:
    """GB10 has no memory clock to lock, and a locked clock hides a latched one."""
    words = {word for _, _, argv in collect.examples(Floors()) for word in argv}
    assert "nvidia-smi" in words
    assert not words & {"-lmc", "-lgc", "-rmc", "-rgc", "--lock-memory-clocks", "--lock-gpu-clocks"}


def test_who_judges_a_case_exists() -> None:
    """A case names judges, gates and troubles that are there, and no judge or form is left without a case."""
    looks = [look for case in CASES.values() for look in case.looks]
    assert {look.judge for look in looks} == set(JUDGES)
    specs = [
        spec for look in looks for probes in look.given.get("at", {}).values() for spec in probes.values()
    ]
    assert {spec.get("form", "plain") for spec in specs if "stdout" not in spec} == set(FORMS)
    known = {gate.name for gate in gates.GATES} | {"reachable"} | {trouble.name for trouble in TROUBLES}
    by = {one.by for look in looks if look.judge in {"line", "answer", "log"} for one in look.expect}
    assert by <= known


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.file)
def test_a_case_says_where_it_comes_from(case: Case) -> None:
    """A public thread, a document of a public project, or how we made it; never a place that only we can see."""
    project = r"[\w.-]+/[\w.-]+(?:(?: PR)?#\d+)?(?: \([\w ,./-]+\))?"
    other = r"ansible-core [\d.]+(?:, with a stand-in for ssh)?|NVIDIA's documentation|community guides|made up .*|\S+\.com \(.*\)"
    assert [one for one in case.source.split("; ") if not re.fullmatch(f"{project}|{other}", one)] == []
    assert case.about
    assert len(case.about) < 140


def test_nodes_are_those_of_the_example() -> None:
    """Cases speak of the nodes of the example inventory."""
    assert tuple(node.name for node in field_line.example().nodes) == NODES
    assert {node for case in CASES.values() for look in case.looks for node, _ in wanted(look)} <= {
        *NODES,
        "",
    }
