"""Rates: tokens per second of a request, of a round, of a prompt. Pure.

Tokens are the server's usage counts, never chunks: with speculative decoding a chunk holds several tokens.
"""

from collections.abc import Sequence

from tuner.counters import Counters
from tuner.request import Request


def decode_rate(request: Request) -> float:
    """Return tokens per second of one stream after what came first, one token as a rule: (n - first) / (total - ttft)."""
    tokens = request.completion_tokens or 0
    return (tokens - request.first_tokens) / (request.total_s - request.ttft_s)


def decoded(request: Request) -> float | None:
    """Return the decode rate of a request that has one; None for a fault, missing usage, or tokens that came all at once."""
    is_timed = not request.fault and request.total_s > request.ttft_s
    return (
        decode_rate(request) if is_timed and (request.completion_tokens or 0) > request.first_tokens else None
    )


def step_s(request: Request, grown: Counters | None) -> float | None:
    """Return the seconds of one decode step of a request that was alone; None where it has no rate.

    With speculation a step yields several tokens, more of them for a text that is easily guessed: what `grown` says of the drafts
    takes that out, so that two replies can be compared. Without it a step is a token.
    """
    if decoded(request) is None:
        return None
    steps = (
        grown.drafts if grown and grown.drafts else (request.completion_tokens or 0) - request.first_tokens
    )
    return (request.total_s - request.ttft_s) / steps


def prefill_rate(request: Request) -> float:
    """Return prompt tokens per second up to the only token that was asked for: prompt_tokens / total."""
    return (request.prompt_tokens or 0) / request.total_s


def aggregate_rate(requests: Sequence[Request]) -> float:
    """Return all tokens of one round over its wall time, from the first sending to the last token."""
    tokens = sum(request.completion_tokens or 0 for request in requests)
    end_s = max(request.sent_s + request.total_s for request in requests)
    return tokens / (end_s - min(request.sent_s for request in requests))
