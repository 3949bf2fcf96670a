"""Scores of a prompt in both forms, as vLLM 0.32.0 answered them (captured; the tiny model of the engine tests)."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuner.quality import logprobs
from tuner.quality.logprobs import Scored

HERE = Path(__file__).parent
BY_ID: Any = json.loads((HERE / "vllm_prompt_logprobs.json").read_text(encoding="utf-8"))
ECHOED: Any = json.loads((HERE / "echoed_logprobs.json").read_text(encoding="utf-8"))


def test_both_forms_tell_the_same() -> None:
    """The token that stands there and its probability, and the same likeliest ones; the token that was made is left out."""
    ids, texts = logprobs.read(BY_ID, 5), logprobs.read(ECHOED, 5)
    assert len(ids) == len(texts) == BY_ID["usage"]["prompt_tokens"] - 1
    assert [one.logprob for one in ids] == [one.logprob for one in texts]
    assert [[value for _, value in one.top] for one in ids] == [
        [value for _, value in one.top] for one in texts
    ]
    assert ids[0].token == "466"
    assert texts[0].token == "text: capital"


def test_the_likeliest_come_first_and_no_more_than_asked() -> None:
    """The token that stands there is given beside them and counts among them only when it is one."""
    first = logprobs.read(BY_ID, 5)[0]
    values = [value for _, value in first.top]
    assert values == sorted(values, reverse=True)
    assert len(first.top) == 5
    assert first.token not in dict(first.top), "rank 70 is none of the five likeliest"


def test_scores_survive_the_store() -> None:
    """Packed and unpacked they are equal, and the bytes are always the same."""
    scored = (Scored(text="a", mix="alone", positions=logprobs.read(BY_ID, 5)),)
    assert logprobs.unpack(logprobs.pack(scored)) == scored
    assert logprobs.pack(logprobs.unpack(logprobs.pack(scored))) == logprobs.pack(scored)


def _without(document: Any, change: Callable[[Any], object]) -> Any:
    changed = copy.deepcopy(document)
    change(changed["choices"][0])
    return changed


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (None, "no choices"),
        ({"choices": []}, "wanted one choice"),
        (_without(BY_ID, lambda one: one.update(prompt_logprobs=None)), "no prompt_logprobs"),
        (_without(BY_ID, lambda one: one.update(prompt_logprobs=[None])), "scores no token"),
        (_without(BY_ID, lambda one: one["prompt_logprobs"].append({})), "wanted tokens"),
        (_without(BY_ID, lambda one: one["prompt_logprobs"].append({"7": {"rank": 1}})), "no logprob"),
        (_without(BY_ID, lambda one: one["prompt_logprobs"].append({"7": {"logprob": 0.5}})), "up to 0"),
        (
            _without(BY_ID, lambda one: one["prompt_logprobs"].append({"7": {"logprob": float("nan")}})),
            "up to 0",
        ),
        (
            _without(
                BY_ID,
                lambda one: one["prompt_logprobs"].append({"7": {"logprob": 0.0}, "8": {"logprob": -0.1}}),
            ),
            "sum to more than 1",
        ),
        (_without(ECHOED, lambda one: one["logprobs"].pop("tokens")), "no list tokens"),
        (_without(ECHOED, lambda one: one["logprobs"].update(tokens=["a"])), "differ in length"),
        ({**ECHOED, "usage": None}, "how many tokens"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_is_no_score_is_refused(answer: object, fault: str) -> None:
    """With what is wrong, whatever the server sent."""
    with pytest.raises(ValueError, match=fault):
        logprobs.read(answer, 5)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"schema": 2}',
        b'{"schema": 1, "scored": [["a"]]}',
        b'{"schema": 1, "scored": [["a", "alone", [["7", -1, []]]]]}',
        b'{"schema": 1, "scored": [["a", "busy", []]]}',
    ],
)
def test_other_bytes_are_no_scores(data: bytes) -> None:
    """A reference that was changed is refused, not half read."""
    with pytest.raises(ValueError):
        logprobs.unpack(data)
