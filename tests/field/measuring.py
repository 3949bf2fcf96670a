"""Judges of what a bench brought home and of what a tuner makes of it. A judge translates and never judges."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from field_catalogue import Outcome

from sparkctl import content, edge
from tuner import counters, warming
from tuner.audit import audit
from tuner.ladder import replay
from tuner.lever import Ladder
from tuner.metrics import Metric
from tuner.results import Result, doubts, of_document, of_stream
from tuner.results.figures import means
from tuner.steps import Boot, Trial
from tuner.workload import WarmUp

Given = Mapping[str, Any]

_METRIC = "c1_per_stream_tok_s"


def judge_result(text: str, _: Given) -> list[Outcome]:
    """Take the text as a bench result: damaged replies, doubtful numbers, and where there are none what was read."""
    result = of_stream(text) if text.startswith("data:") else of_document(json.loads(text))
    found = [
        Outcome(by=f"audit {one.kind}", verdict="fail", said=f"{one.measured} {one.excerpt}", hint=one.wanted)
        for answered in result.answered
        for one in audit(answered.reply)
    ]
    found += [
        Outcome(by=f"doubt {one.kind}", verdict="fail", said=one.measured, hint=one.wanted)
        for one in doubts(result.figures)
    ]
    return found or [_sound(result)]


def _sound(result: Result) -> Outcome:
    figures = {f"c{one.streams}": one.per_stream for one in means(result.figures) if one.per_stream}
    tokens = sum(one.reply.completion_tokens or 0 for one in result.answered)
    told = f"{len(result.answered)} replies, {len(result.figures.loads)} loads"
    return Outcome(by="audit", verdict="pass", said=told, figures={**figures, "tokens": tokens})


def judge_warming(text: str, given: Given) -> list[Outcome]:
    """Take the text as rates in the order of the requests: from which one on the engine counts as warm."""
    rates = json.loads(text)[given["key"]]
    rule = WarmUp(prompt="any", most=len(rates))
    warm = next(number for number in range(1, len(rates) + 1) if warming.is_warm(rates[:number], rule))
    return [
        Outcome(
            by="warm-up",
            verdict="information",
            said=f"warm after {warm} requests",
            figures={"requests": warm},
        )
    ]


def judge_counters(text: str, _: Given) -> list[Outcome]:
    """Take the text as a /metrics page: what the bench reads from it."""
    found = counters.read(text)
    told = {
        name: value for name in counters.Counters.__slots__ if (value := getattr(found, name)) is not None
    }
    return [Outcome(by="counters", verdict="pass", said=", ".join(told), figures=told)]


def judge_trials(text: str, _: Given) -> list[Outcome]:
    """Take the text as trials of one setting, some of which crashed the server: how often the climb boots it."""
    crashed = [one for one in json.loads(text) if one["state"] == "FAIL"]
    ladder = _ladder()
    history: tuple[Trial, ...] = ()
    while isinstance(step := replay(ladder, history).ahead, Boot):
        fails = step.lever is not None
        history = (*history, _trial(step, 60.0, crashed[0]["error_type"] if fails else ""))
    (verdict,) = replay(ladder, history).verdicts
    spent = sum(one.outcome == "failed" for one in history)
    return [
        Outcome(
            by="tune",
            verdict=verdict.verdict,
            said=verdict.why,
            hint="undo it or mend what it needs",
            figures={"failed": spent, "crashed": len(crashed)},
        )
    ]


def judge_arms(text: str, _: Given) -> list[Outcome]:
    """Take the text as rates of base and candidate, boot by boot: what the rule and what the seeds' rule say."""
    told = json.loads(text)
    ladder = _ladder()
    rates = {"": iter(told["base"]), ladder.levers[0].id: iter(told["candidate"])}
    most = len(told["base"])
    ladder = replace(ladder, boots=replace(ladder.boots, most=most))
    history: tuple[Trial, ...] = ()
    while isinstance(step := replay(ladder, history).ahead, Boot):
        history = (*history, _trial(step, next(rates["".join(step.on)]), ""))
    (verdict,) = replay(ladder, history).verdicts
    return [
        Outcome(by="tune", verdict=verdict.verdict, said=verdict.why, hint="more boots"),
        Outcome(by="the seeds' rule", verdict=verdict.seed_rule, said="first boot of each arm", hint="none"),
    ]


def _ladder() -> Ladder:
    """Return the shipping demonstration with one lever, one primary metric and no guard."""
    whole = edge.read(content.ladder("demo"), Ladder)
    return replace(whole, levers=whole.levers[:1], primary=(_METRIC,), guards=())


def _trial(step: Boot, rate: float, fault: str) -> Trial:
    number = str(step.number)
    if fault:
        return Trial(boot=number, arm=step.on, outcome="failed", why=fault)
    metric = Metric(name=_METRIC, value=rate, unit="tok/s", n=1)
    return Trial(boot=number, arm=step.on, outcome="measured", metrics=(metric,))


JUDGES = {
    "result": judge_result,
    "warming": judge_warming,
    "counters": judge_counters,
    "trials": judge_trials,
    "arms": judge_arms,
}
