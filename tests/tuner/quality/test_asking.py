"""A battery against a server that says what a test scripts: what is sent, what is counted, and what cannot be asked."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sparkctl import content, edge
from sparkctl.clock import PacedClock
from tuner.client import Endpoint
from tuner.quality import asking, battery, outcome
from tuner.quality.asked import Asked
from tuner.quality.battery import Battery, Part

if TYPE_CHECKING:
    from ..conftest import ScriptedServer, Step

HERE = Path(__file__).parent
BY_ID: Any = json.loads((HERE / "vllm_prompt_logprobs.json").read_text(encoding="utf-8"))
ECHOED: Any = json.loads((HERE / "echoed_logprobs.json").read_text(encoding="utf-8"))


@pytest.fixture
def standard() -> Battery:
    """The battery that ships."""
    return edge.read(content.quality("standard"), Battery)


def _ask(server: "ScriptedServer", whole: Battery, *parts: Part) -> tuple[Battery, Asked]:
    asks = battery.only(whole, parts)
    asked = asking.ask(
        Endpoint(url=server.url, model="m"), asks, run_tag="run", clock=PacedClock(), report=lambda _: None
    )
    return asks, asked


def _says(text: str, **more: object) -> tuple[int, "list[Step]"]:
    message = {"content": text, **more}
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    return 200, [
        json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}).encode()
    ]


def _scores(form: Any) -> Callable[[dict[str, Any]], "tuple[int, list[Step]]"]:
    key = "prompt_logprobs" if form is BY_ID else "echo"

    def script(body: dict[str, Any]) -> "tuple[int, list[Step]]":
        if "messages" in body:
            return _says("Rain takes salt from the rocks, and rivers carry it to the sea.")
        if key in body:
            return 200, [json.dumps(form).encode()]
        return 400, [b'{"error": {"message": "Unexpected key"}}']

    return script


@pytest.mark.parametrize("form", [BY_ID, ECHOED], ids=["by id", "echoed"])
def test_texts_are_scored_alone_and_among_other_requests(
    server: "ScriptedServer", standard: Battery, form: Any
) -> None:
    """Each text once in each mix, in either form; the others run only beside the second."""
    server.script = _scores(form)
    _, asked = _ask(server, standard, "probe")
    assert asked.unscored == ""
    assert standard.probe is not None
    names = [one.id for one in standard.probe.texts]
    assert [(one.mix, one.text) for one in asked.scored] == [
        *(("alone", name) for name in names),
        *(("loaded", name) for name in names),
    ]
    loads = [one for one in server.bodies if "messages" in one]
    first = server.bodies.index(loads[0])
    assert [one.get("prompt") for one in server.bodies[:first] if "prompt" in one][
        -1
    ] == standard.probe.texts[-1].text
    assert all(one["messages"][0]["content"].startswith("[run load ") for one in loads)


def test_an_endpoint_that_scores_nothing_cannot_be_asked(server: "ScriptedServer", standard: Battery) -> None:
    """The refusal of the newer form is told, the answers still count."""
    server.script = lambda body: (
        _says("x") if "messages" in body else (400, [b'{"error": {"message": "no logprobs"}}'])
    )
    asks, asked = _ask(server, standard, "probe")
    found = outcome.outcome(asks, asked, None)
    assert found.verdict == "unasked"
    assert "text harbour: HTTP 400: no logprobs" in found.why


def test_an_answer_that_breaks_off_is_wrong_with_its_reason(
    server: "ScriptedServer", standard: Battery
) -> None:
    """A lost connection and an error of the server are faults of the answers, and the run goes on."""
    broken = b'{"error": {"message": "dead"}}'
    server.script = lambda _: (500, [broken]) if len(server.bodies) == 1 else (200, [b"{}"])
    asks, asked = _ask(server, standard, "counting")
    faults = [one.fault for one in asked.marked]
    assert sorted(faults) == ["HTTP 500: dead", "the answer has no message"]
    assert outcome.outcome(asks, asked, None).verdict == "fails"


def test_tool_calls_are_offered_and_judged(server: "ScriptedServer", standard: Battery) -> None:
    """Twelve calls, each with every tool on offer; one that is wrong is named with what was found."""
    assert standard.tools is not None
    wanted = {one.ask: one for one in standard.tools.calls}

    def script(body: dict[str, Any]) -> "tuple[int, list[Step]]":
        call = wanted[body["messages"][0]["content"]]
        arguments = dict(call.arguments)
        if call.arguments.get("guests") == 4:
            arguments["guests"] = "4"
        function = {"name": call.tool, "arguments": json.dumps(arguments)}
        return _says("", tool_calls=[{"function": function}])

    server.script = script
    asks, asked = _ask(server, standard, "tools")
    assert len(asked.marked) == 12
    assert all(len(one["tools"]) == 5 and one["tool_choice"] == "auto" for one in server.bodies)
    wrong = [one for one in asked.marked if one.fault]
    assert [(one.id, one.fault) for one in wrong] == [("6 book_table", "guests is '\"4\"', wanted integer")]
    assert outcome.outcome(asks, asked, None).why.startswith("tools: 1 of 12 wrong, first 6 book_table")
    assert (asked.counted.prompt, asked.counted.made) == (120, 60)


def test_code_is_run_and_its_fault_told(server: "ScriptedServer", standard: Battery) -> None:
    """The first is right, the second wrong for one pair, the others are no programs of that name."""

    def script(body: dict[str, Any]) -> "tuple[int, list[Step]]":
        if "is_prime" in body["messages"][0]["content"]:
            return _says(
                "```python\ndef is_prime(n):\n    return n > 1 and all(n % d for d in range(2, n))\n```"
            )
        return _says("def gcd(a, b):\n    return a")

    server.script = script
    _, asked = _ask(server, standard, "code")
    faults = {one.id: one.fault for one in asked.marked}
    assert faults["is_prime"] == ""
    assert faults["gcd"].startswith("AssertionError")
    assert "name 'roman' is not defined" in faults["roman"]
    assert asked.held


def test_repeated_answers_are_counted_and_never_judged(server: "ScriptedServer", standard: Battery) -> None:
    """Five answers, two of them other than the rest: recorded, and the run passes."""
    texts = ["Rain takes salt from the rocks.", "Rivers carry the salt to the sea."]
    server.script = lambda _: _says(texts[len(server.bodies) in {2, 3}])
    asks, asked = _ask(server, standard, "repeat")
    found = outcome.outcome(asks, asked, None)
    assert found.verdict == "passes"
    assert found.parts[0].note.startswith("2 different of 5")


def test_garble_is_asked_at_once_and_found(server: "ScriptedServer", standard: Battery) -> None:
    """Six in flight; one reply that loops is damage."""

    def script(_: dict[str, Any]) -> "tuple[int, list[Step]]":
        status, steps = _says(
            "and then " * 60 if len(server.bodies) == 7 else "The market smelled of rain and of apples."
        )
        return status, [0.02, *steps]

    server.script = script
    _, asked = _ask(server, standard, "garble")
    assert server.most_in_flight == 6
    assert [one.fault.partition(":")[0] for one in asked.marked if one.fault] == ["loop"]
    assert {one["temperature"] for one in server.bodies} == {0, 0.7, 1.0}


def test_needles_lie_where_they_are_said_to(server: "ScriptedServer", standard: Battery) -> None:
    """At each depth of each length, in a prompt that begins with the run's tag; the number is wanted back."""
    server.script = lambda _: _says("48213")
    _, asked = _ask(server, standard, "needle")
    assert standard.needle is not None
    assert len(asked.marked) == len(standard.needle.lengths) * len(standard.needle.depths)
    text = server.bodies[1]["messages"][0]["content"]
    assert text.startswith("[run needle 4000@0.5]")
    at = text.index("The secret code")
    assert 0.45 < at / len(text) < 0.55
    assert all(one.fault.startswith("wanted ") for one in asked.marked)
