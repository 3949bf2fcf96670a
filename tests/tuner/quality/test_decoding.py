"""Replies within a budget as they are asked for: both arms by turns, the same tokens scored again, and an endpoint that cannot."""

import json
from typing import TYPE_CHECKING, Any

import pytest

from sparkctl import content, edge
from sparkctl.clock import PacedClock
from tuner.client import Endpoint
from tuner.quality import asking, battery, outcome
from tuner.quality.asked import Asked
from tuner.quality.battery import Battery, Decode
from tuner.quality.decoding import WHOLE

if TYPE_CHECKING:
    from ..conftest import ScriptedServer, Step

SAID = [
    "Rain",
    "takes",
    "salt",
    "from",
    "the",
    "rocks",
    "and",
    "rivers",
    "carry",
    "it",
    "down",
    "to",
    "the",
    "sea",
    "over",
    "time",
]
PROMPT = [7, 8, 9]
EVEN = {1: -0.6931, 2: -0.6931}
"""Log-probabilities of two tokens, half each."""


@pytest.fixture
def shipped() -> Battery:
    """The battery that ships."""
    return edge.read(content.quality("budget"), Battery)


def small(whole: Battery, **more: Any) -> Battery:
    """Return it with a few replies."""
    made = whole.decode
    assert made is not None
    few = {"sizes": (1, 3), "replies": 4, "prompts": made.prompts[:2], **more}
    asked = Decode(temperature=1.0, top=2, max_tokens=32, **few)
    return Battery(
        schema=1, name="budget", source="", limit_s=20.0, body={"chat_template_kwargs": {"thinking": False}},
        most_wrong={}, decode=asked,
    )  # fmt: skip


def ask(server: "ScriptedServer", whole: Battery) -> Asked:
    """Ask it."""
    endpoint = Endpoint(url=server.url, model="m")
    return asking.ask(endpoint, whole, run_tag="run", clock=PacedClock(), report=lambda _: None)


def chat(tokens: dict[int, float], words: list[str] = SAID) -> "tuple[int, list[Step]]":
    """A reply that vLLM made: each token was the first of these."""
    named = [{"token": f"token_id:{one}", "logprob": told} for one, told in tokens.items()]
    content_ = [{**named[0], "top_logprobs": named} for _ in words]
    choice = {
        "message": {"content": " ".join(words)}, "finish_reason": "stop", "token_ids": [1] * len(words),
        "logprobs": {"content": content_},
    }  # fmt: skip
    usage = {"prompt_tokens": len(PROMPT), "completion_tokens": len(words)}
    return 200, [json.dumps({"choices": [choice], "prompt_token_ids": PROMPT, "usage": usage}).encode()]


def score(body: dict[str, Any]) -> "tuple[int, list[Step]]":
    """Its tokens scored in a prefill: half and half."""
    ids = body["prompt"]
    told = {str(one): {"logprob": value, "rank": 1} for one, value in EVEN.items()}
    scores = [
        None,
        *({str(one): told["1"], **told} if one == 1 else {str(one): told["1"]} for one in ids[1:]),
    ]
    return 200, [
        json.dumps({"choices": [{"prompt_logprobs": scores}], "usage": {"prompt_tokens": len(ids)}}).encode()
    ]


def cutting(body: dict[str, Any]) -> "tuple[int, list[Step]]":
    """Say 0.9 and 0.1 within the budget, half and half when read whole."""
    if "messages" not in body:
        return score(body)
    whole = body.get("vllm_xargs") == WHOLE
    status, steps = chat(EVEN if whole else {1: -0.10536, 2: -2.302585})
    return status, [0.05, *steps]


def test_both_arms_are_made_and_scored_whole(server: "ScriptedServer", shipped: Battery) -> None:
    """By turns for each number in flight, every scoring read whole; KL is that of the prefill from what was served, to the digit."""
    server.script = cutting
    asks = small(shipped)
    asked = ask(server, asks)
    assert asked.undecoded == ""
    assert [(one.arm, one.size) for one in asked.decoded] == [
        (arm, size) for size in (1, 3) for arm in ("whole", "budget") for _ in range(4)
    ]
    assert {one.tokens for one in asked.decoded} == {len(SAID)}
    told = {one.arm: one.kl_nats for one in asked.decoded}
    assert told["whole"] == pytest.approx(0, abs=1e-4)
    assert told["budget"] == pytest.approx(0.5108, abs=1e-3)
    chats = [one for one in server.bodies if "messages" in one]
    assert all(one["return_token_ids"] and one["top_logprobs"] == 2 for one in chats)
    again = [one for one in server.bodies if "messages" not in one]
    assert all(one["prompt"] == PROMPT + [1] * len(SAID) and one["vllm_xargs"] == WHOLE for one in again)
    arms = [one.get("vllm_xargs") == WHOLE if "messages" in one else None for one in server.bodies]
    assert arms == 2 * [*[True] * 4, *[None] * 4, *[False] * 4, *[None] * 4]
    assert server.most_in_flight == 3
    found = outcome.outcome(asks, asked, None)
    assert found.verdict == "fails"
    assert "KL, 1 in flight: the budget adds 0.51" in found.why


def test_a_collapse_is_counted_where_it_was_made(server: "ScriptedServer", shipped: Battery) -> None:
    """The audit reads each text; what was wrong stands with the reply."""

    def looping(body: dict[str, Any]) -> "tuple[int, list[Step]]":
        whole = body.get("vllm_xargs") == WHOLE
        return chat(EVEN, SAID if whole else ["again"] * 64) if "messages" in body else score(body)

    server.script = looping
    asked = ask(server, small(shipped))
    assert all(one.damage.startswith("loop") for one in asked.decoded if one.arm == "budget")
    assert not any(one.damage for one in asked.decoded if one.arm == "whole")
    found = outcome.outcome(small(shipped), asked, None)
    assert found.budget is not None
    assert {one.what: one.outcome for one in found.budget.checks}["collapses"] == "exceeds"


def test_an_engine_without_a_budget_is_left_open_by_few_replies(
    server: "ScriptedServer", shipped: Battery
) -> None:
    """Both arms alike: nothing is added, and eight replies cannot show that none more collapse."""
    server.script = lambda body: chat(EVEN) if "messages" in body else score(body)
    found = outcome.outcome(small(shipped), ask(server, small(shipped)), None)
    assert found.verdict == "inconclusive"
    assert "collapses: the budget adds 0" in found.why


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"choices": [{"message": {"content": "a"}, "logprobs": None}]}, "gives no token ids"),
        (
            {"choices": [{"token_ids": [1], "logprobs": None}], "prompt_token_ids": [1]},
            "no log-probability of each",
        ),
        (
            {
                "choices": [{"token_ids": [1], "logprobs": {"content": [{"token": "a", "logprob": -1}]}}],
                "prompt_token_ids": [1],
            },
            "names its tokens by text",
        ),
    ],
)
def test_an_endpoint_that_tells_no_tokens_cannot_be_asked(
    server: "ScriptedServer", shipped: Battery, answer: Any, why: str
) -> None:
    """The first reply says so, and nothing is judged."""
    server.script = lambda _: (200, [json.dumps(answer).encode()])
    asked = ask(server, small(shipped))
    assert asked.decoded == ()
    found = outcome.outcome(small(shipped), asked, None)
    assert found.verdict == "unasked"
    assert why in found.why
    assert len(server.bodies) == 1


def test_batteries_without_the_part_keep_their_digest() -> None:
    """References name it, and are older than the part."""
    whole = edge.read(content.quality("standard"), Battery)
    assert battery.digest(whole) == "3e8a02d64d02b257303e9960c32eb65c5d02ccd80c2412164eabc9ac2c0489d1"
