"""Judges of what a line serves and of what is kept of it. A judge translates and never judges."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import httpx
from field_catalogue import NODES, Outcome
from field_line import example, recipe

from bootcheck import redact
from launcher import api, asking, gauges, status
from launcher.gauges import Look
from launcher.ranks import Rank
from launcher.status import Verdict
from sparkctl.clock import PacedClock

Given = Mapping[str, Any]


@contextmanager
def _answering(response: httpx.Response) -> Iterator[None]:
    """Let the line's API answer whatever it is asked with one response."""
    transport = httpx.MockTransport(lambda _: response)
    with mock.patch.object(api, "_client", side_effect=lambda *_: httpx.Client(transport=transport)):
        yield


def judge_served(text: str, _: Given) -> list[Outcome]:
    """Take the text as the API's answer to everything, while every rank runs."""
    head, _, body = text.partition("\n\n")
    ranks = tuple(Rank(node=name, rank=rank, state="running") for rank, name in enumerate(NODES))
    with _answering(httpx.Response(int(head.split()[1]), text=body)):
        found = status.judge(ranks, api.look(example(), PacedClock()))
    return [_outcome(found)]


def _outcome(verdict: Verdict) -> Outcome:
    return Outcome(by="status", verdict=verdict.state, said=verdict.note, hint=verdict.hint)


def judge_smoke(text: str, _: Given) -> list[Outcome]:
    """Take the completion's text as the reply to every smoke of a line that is about to be called ready."""
    reply = json.loads(text)["choices"][0]["text"]
    with _answering(httpx.Response(200, json={"choices": [{"message": {"content": reply}}]})):
        found = asking.ask(example(), recipe(), PacedClock())
    return [
        Outcome(
            by=f"smoke {one.name}", verdict="fail" if one.fault else "pass", said=one.fault, hint=found.hint
        )
        for one in found.smokes
    ]


def judge_pulse(text: str, _: Given) -> list[Outcome]:
    """Take counters that the text tells twice as two looks a minute apart; what it does not tell is unknown."""
    told = [line for line in text.splitlines() if line.startswith("vllm:")]
    once = [line for line in told if told.count(line) == 1]
    pages = ["\n".join([*once, line]) for line in told if line not in once]
    looks = [Look(at_s=60.0 * place, gauges=gauges.read(page)) for place, page in enumerate(pages)]
    serving = Verdict(state="serving", note="every rank runs and the API answers")
    return [_outcome(status.with_pulse(serving, gauges.judge(looks, NODES)))]


def judge_withheld(text: str, given: Given) -> list[Outcome]:
    """Take the text as anything that leaves a node; a secret of the case that survives is a failure."""
    kept = redact.text(text)
    left = [secret for secret in given["secrets"] if secret in kept]
    return [Outcome(by="redact", verdict="fail" if left else "pass", said=kept)]


JUDGES = {"served": judge_served, "smoke": judge_smoke, "pulse": judge_pulse, "withheld": judge_withheld}
