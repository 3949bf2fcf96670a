"""Decoding: has an engine make replies, within its budget and read whole, and then score the same tokens in a prefill, which is read whole.

Each number in flight keeps as many requests running; the arms take turns, for a request read whole deepens the reads of all in its step.
Needs what vLLM adds to the API: token ids of prompt and reply, and `prompt_logprobs` of a prompt given as ids. An engine without the plug-in
takes both arms for the same.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from tuner.audit import Reply as Text
from tuner.audit import audit
from tuner.client import Connection
from tuner.quality import answers, divergence, logprobs
from tuner.quality.battery import Decode
from tuner.quality.budget import Arm, Reply
from tuner.quality.logprobs import Position, Sampled, Scored
from tuner.quality.wire import Wire

WHOLE = {"sparkctl_full": True}
"""What a request says through `vllm_xargs` to be read whole."""

_ARMS: tuple[Arm, ...] = ("whole", "budget")

Replies = tuple[tuple[Reply, ...], str]
"""What was made, and why not all of it was ('' when it was)."""


@dataclass(slots=True, kw_only=True)
class _Round:
    """One arm at one number in flight: what is left to ask, what was answered, what was scored, and the first thing that went wrong."""

    arm: Arm
    size: int
    asks: Iterator[tuple[str, str]]
    answered: list[tuple[str, Sampled, str]] = field(default_factory=list)
    """Name, tokens and damage of each reply that is not yet scored."""
    replies: list[Reply] = field(default_factory=list)
    fault: str = ""


async def decode(lines: tuple[Connection, ...], wanted: Decode, wire: Wire) -> Replies:
    """Make and score every reply. All of a round are made before the first is scored: a prefill among them would deepen their reads."""
    made: list[Reply] = []
    for size in wanted.sizes:
        for arm in _ARMS:
            one = _Round(arm=arm, size=size, asks=iter(_asks(wanted)))
            await asyncio.gather(*(_answer(line, one, wanted, wire) for line in lines[:size]))
            await asyncio.gather(*(_score(line, one, wanted, wire) for line in lines[:size]))
            made += one.replies
            if one.fault:
                return tuple(made), one.fault
    return tuple(made), ""


def _asks(wanted: Decode) -> list[tuple[str, str]]:
    rounds = range(-(-wanted.replies // len(wanted.prompts)))
    return [(f"{turn}.{at}", ask) for turn in rounds for at, ask in enumerate(wanted.prompts)][
        : wanted.replies
    ]


async def _answer(line: Connection, one: _Round, wanted: Decode, wire: Wire) -> None:
    for name, ask in one.asks:
        if one.fault:
            return
        wire.report(f"decoding {one.arm}, {one.size} in flight: reply {name}")
        body = {
            "messages": [{"role": "user", "content": f"[{wire.run_tag} {one.size} {name}] {ask}"}],
            "max_tokens": wanted.max_tokens, "temperature": wanted.temperature,
            "logprobs": True, "top_logprobs": wanted.top, "return_token_ids": True, "return_tokens_as_token_ids": True,
            **({"vllm_xargs": WHOLE} if one.arm == "whole" else {}),
        }  # fmt: skip
        answer, fault = await wire.chat(line, body)
        try:
            sampled = logprobs.sampled(answer, wanted.top)
        except ValueError as none:
            one.fault = f"reply {name}: {fault or none}"
            return
        one.answered.append((name, sampled, _damage(answer, ask)))


async def _score(line: Connection, one: _Round, wanted: Decode, wire: Wire) -> None:
    while one.answered and not one.fault:
        name, sampled, damage = one.answered.pop(0)
        wire.report(f"scoring {one.arm}, {one.size} in flight: reply {name}")
        tokens = [*sampled.prompt, *sampled.reply]
        body = {"prompt": tokens, "prompt_logprobs": wanted.top, "vllm_xargs": WHOLE}
        answer, fault = await wire.complete(line, body)
        try:
            kl = _kl(logprobs.read(answer, wanted.top)[len(sampled.prompt) - 1 :], sampled.positions)
        except ValueError as none:
            one.fault = f"the tokens of reply {name} could not be scored: {fault or none}"
            return
        made = len(sampled.reply)
        one.replies.append(Reply(arm=one.arm, size=one.size, id=name, tokens=made, kl_nats=kl, damage=damage))


def _kl(whole: tuple[Position, ...], served: tuple[Position, ...]) -> float:
    """Return the mean least KL(whole || served) in nats a token."""
    before, after = (Scored(text="reply", mix="alone", positions=one) for one in (whole, served))
    apart = divergence.compare(before, after)
    return sum(one.kl for one in apart) / max(1, len(apart))


def _damage(answer: object, ask: str) -> str:
    said = answers.read(answer)
    found = audit(
        Text(
            text=said.text,
            reasoning=said.reasoning,
            completion_tokens=said.completion_tokens,
            finish_reason=said.finish_reason,
            prompt=ask,
        )
    )
    return found[0].said if found else ""
