"""Repair: the request that takes up a reply where it was clean, with full reads.

Takes what was asked and what is kept of the reply, gives the body to send. A chat is continued as vLLM does it: the kept text is the
last message, `continue_final_message` true and `add_generation_prompt` false. A completion gets it behind its prompt. The text is
tokenised anew, so that the tokens at the seam may be cut otherwise than they were.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from proxy.asked import Asked, in_full
from proxy.said import mapping

_LIMITS = ("max_tokens", "max_completion_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is kept of a reply: its thoughts and under which key they came, its text, and how many tokens both are."""

    thought: str = ""
    thought_key: str = ""
    text: str = ""
    tokens: int = 0


def anew(asked: Asked) -> Mapping[str, object]:
    """Return the request for the whole reply again."""
    return in_full(asked.sent)


def continued(asked: Asked, kept: Kept) -> Mapping[str, object]:
    """Return the request for the rest of a reply of which `kept` stands."""
    body = {**in_full(asked.sent), **_less(asked.sent, kept.tokens)}
    if asked.form == "text":
        return {**body, "prompt": f"{asked.sent['prompt']}{kept.text}"}
    messages = asked.sent["messages"]
    before = list(messages) if isinstance(messages, list) else []
    last: Mapping[str, object] = {"role": "assistant"}
    if asked.body.get("continue_final_message"):
        last = mapping(before.pop())
    thought = {kept.thought_key: kept.thought} if kept.thought else {}
    message = {**last, **thought, "content": f"{last.get('content', '')}{kept.text}"}
    return {
        **body,
        "messages": [*before, message],
        "continue_final_message": True,
        "add_generation_prompt": False,
    }


def room(asked: Asked, tokens: int) -> bool:
    """Whether the client's limit leaves a token for the rest of a reply of which that many stand."""
    limits = [asked.sent.get(key) for key in _LIMITS]
    return all(limit > tokens for limit in limits if isinstance(limit, int))


def _less(body: Mapping[str, object], tokens: int) -> Mapping[str, object]:
    """Return the limits on a reply's length without what stands already; the least may be 0."""
    limits = {key: found - tokens for key in _LIMITS if isinstance(found := body.get(key), int)}
    least = body.get("min_tokens")
    return {**limits, "min_tokens": max(0, least - tokens)} if isinstance(least, int) else limits
