"""Counters: what the server itself counted while a bench ran, and whether that is what the client saw. Pure.

Figures come from the usage blocks of the replies; the server's counters are the second witness. Tokens that only one of both knows of
are somebody else's requests, a lost reply, or a count that means something else. Names are matched exactly and summed over engines:
`_created`, `_bucket` and names that only begin alike are other things (public parsers, tests/tuner/data).
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from launcher import gauges

MOST_APART = 0.005
"""By how much of the client's count the server's may differ. Ours: both count the same tokens, so any lasting gap is a fault; half a
percent is below every effect that a bar asks for."""

LEAST_APART = 4.0
"""Tokens that may always differ: a token of `sparkctl status --canary`, and the last of a stream that was cut. Ours."""

_NAMES = {
    "prompt": "vllm:prompt_tokens_total",
    "made": "vllm:generation_tokens_total",
    "cached": "vllm:prefix_cache_hits_total",
    "preempted": "vllm:num_preemptions_total",
    "drafts": "vllm:spec_decode_num_drafts_total",
    "drafted": "vllm:spec_decode_num_draft_tokens_total",
    "accepted": "vllm:spec_decode_num_accepted_tokens_total",
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The server's counters at one moment, or what they grew by; tokens, requests, drafts. None is what the page does not tell."""

    prompt: float | None = None
    made: float | None = None
    cached: float | None = None
    preempted: float | None = None
    drafts: float | None = None
    drafted: float | None = None
    accepted: float | None = None
    running: float | None = None
    waiting: float | None = None

    @property
    def in_flight(self) -> float:
        """Requests that wait for a token, as far as the page tells."""
        return (self.running or 0.0) + (self.waiting or 0.0)

    @property
    def acceptance(self) -> float | None:
        """Tokens a verification step yields on average, its own one included; None without speculation."""
        return 1 + self.accepted / self.drafts if self.accepted is not None and self.drafts else None


def read(page: str) -> Counters:
    """Read a /metrics page in Prometheus' text format."""
    return Counters(**{name: gauges.total(page, told) for name, told in _NAMES.items()})


def growth(before: Counters, after: Counters) -> Counters:
    """Return by how much each counter grew; of the gauges what they are at the end."""
    grown = {
        one.name: _grown(getattr(before, one.name), getattr(after, one.name))
        for one in fields(Counters)
        if one.name not in {"running", "waiting"}
    }
    return Counters(**grown, running=after.running, waiting=after.waiting)


def _grown(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def voids(before: Counters | None, after: Counters | None, *, prompt: int, made: int) -> Iterator[str]:
    """Yield why the server's counters spoil a bench: other clients, a restart, or tokens that only one side knows of.

    An endpoint without such counters has no second witness; that is no fault of the figures.

    Args:
        before: the counters when the bench began.
        after: the counters when it had ended.
        prompt: tokens of all prompts, as the replies' usage blocks count them.
        made: tokens of all replies, in the same way.

    """
    if before is None or after is None:
        return
    if before.in_flight:
        yield f"{before.in_flight:g} requests of another client ran when it began, wanted a line of its own"
    grown = growth(before, after)
    if any(value is not None and value < 0 for value in (grown.prompt, grown.made)):
        yield "the server's counters went back: the engine was started anew meanwhile"
        return
    yield from _apart("generated", grown.made, made)
    yield from _apart("prompt", grown.prompt, prompt)


def _apart(what: str, server: float | None, client: int) -> Iterator[str]:
    if server is None or abs(server - client) <= max(LEAST_APART, MOST_APART * client):
        return
    cause = "another client was served too" if server > client else "it does not count what it charges for"
    yield (
        f"the server counted {server:,.0f} {what} tokens and the replies {client:,}, wanted both within "
        f"{MOST_APART:.1%}: {cause}"
    )
