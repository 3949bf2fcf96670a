"""From the calls of a level to its figures, and to the reasons why it is void. Pure.

A user's speed is 1 / ITL at the same statistic, so that its p90 is the slow tail: nine calls of ten were at least as fast. ITL of a
call is (total - TTFT) / (tokens - 1), by the server's count. The second form, 1 / (whole time / tokens), holds the wait for the first
token too. Both as AgentX reports them (SemiAnalysisAI/InferenceX, utils/agentic/aggregation); time per session it does not report.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from tuner import counters
from tuner.agents.exchange import Exchange, Level, SessionRun
from tuner.agents.session import Load, asked
from tuner.audit import Reply, audit
from tuner.metrics import Metric

MOST_CLIENT_SHARE = 0.9
"""Of one core; ours: above, reads wait for the client, and its times are its own."""

FILLER_SIZE = (0.8, 1.25)
"""The server's count over the planned tokens of all filler prompts. Ours: words are drawn, so a block is some percent longer or
shorter, and a whole level by a fraction of that; further off, prompts were cut or the calibration was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One quantity over `n` calls or sessions: mean, median and 90th percentile (linear between ranks)."""

    mean: float
    p50: float
    p90: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The calls at one place of their sessions: `i` counts from 0. `cached_share` is None where the server does not tell."""

    i: int
    calls: int
    prompt_tokens: int
    cached_share: float | None
    ttft_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a level says; None where no call or session can tell. Times in the line's seconds, speeds in tokens per second."""

    live: int
    calls: int
    failed: int
    sessions_ended: int
    sessions_cut: int
    sessions_failed: int
    seconds: float
    per_user: Spread | None
    """1 / ITL: mean, p50 and p90 are those of ITL, so p90 is the slow tail."""
    end_to_end: Spread | None
    """1 / (whole time / tokens), likewise."""
    ttft_s: Spread | None
    session_s: Spread | None
    """Of sessions that ended: from the first call's due time to the last answer, waits included."""
    busy_s: Spread | None
    """Of the same sessions: the time during which at least one call was in flight."""
    sessions_per_min: float | None
    output_tok_s: float | None
    prompt_tokens: int
    cached_tokens: int | None
    completion_tokens: int
    acceptance: float | None
    """Tokens of a verification step, from the server's counters; None for filler, where it means nothing."""
    positions: tuple[Position, ...]

    @property
    def uncached_tokens(self) -> int | None:
        """Prompt tokens that were computed."""
        return None if self.cached_tokens is None else self.prompt_tokens - self.cached_tokens

    @property
    def cached_share(self) -> float | None:
        """Share of the prompt tokens that came from the cache."""
        return (
            None
            if self.cached_tokens is None or not self.prompt_tokens
            else self.cached_tokens / self.prompt_tokens
        )


def figures(level: Level) -> Figures:
    """Return the figures of a level; calls with a fault give none but their number."""
    sound = tuple(one for one in level.exchanges if not one.fault)
    ended = tuple(one for one in level.sessions if one.end == "ended")
    ends = [one.end for one in level.sessions]
    timed = [one for one in sound if (one.completion_tokens or 0) > 1 and one.total_s > one.ttft_s]
    answered = [one for one in sound if one.completion_tokens and one.total_s > 0]
    made = sum(one.completion_tokens or 0 for one in sound)
    grown = counters.growth(level.before, level.after) if level.before and level.after else None
    return Figures(
        live=level.live,
        calls=len(level.exchanges),
        failed=len(level.exchanges) - len(sound),
        sessions_ended=len(ended),
        sessions_cut=ends.count("cut"),
        sessions_failed=ends.count("failed"),
        seconds=level.seconds,
        per_user=_speed([_itl_s(one) for one in timed]),
        end_to_end=_speed([one.total_s / (one.completion_tokens or 1) for one in answered]),
        ttft_s=_spread([one.ttft_s for one in answered]),
        session_s=_spread([one.ended_s - one.began_s for one in ended]),
        busy_s=_spread([_busy_s(one, level.exchanges) for one in ended]),
        sessions_per_min=len(ended) * 60 / level.seconds if ended else None,
        output_tok_s=made / level.seconds if level.seconds else None,
        prompt_tokens=sum(one.prompt_tokens or 0 for one in sound),
        cached_tokens=_cached(sound, grown.cached if grown else None),
        completion_tokens=made,
        acceptance=grown.acceptance if grown and level.load.words != "filler" else None,
        positions=_positions(sound),
    )


def withheld(found: Figures) -> Figures:
    """Return the figures of a void level: what was sent and how it ended, and nothing that could be taken for a measurement."""
    return replace(
        found,
        per_user=None,
        end_to_end=None,
        ttft_s=None,
        session_s=None,
        busy_s=None,
        sessions_per_min=None,
        output_tok_s=None,
        cached_tokens=None,
        acceptance=None,
        positions=(),
    )


def metrics(level: Level) -> tuple[Metric, ...]:
    """Return the figures of a level by the names under which they stand in the ledger, `agents_s<live>_...`."""
    found = figures(level)
    told: Mapping[str, tuple[Spread | None, str, str]] = {
        "per_user_tok_s": (found.per_user, "mean", "tok/s"),
        "per_user_p50_tok_s": (found.per_user, "p50", "tok/s"),
        "per_user_p90_tok_s": (found.per_user, "p90", "tok/s"),
        "end_to_end_tok_s": (found.end_to_end, "mean", "tok/s"),
        "end_to_end_p90_tok_s": (found.end_to_end, "p90", "tok/s"),
        "ttft_s": (found.ttft_s, "mean", "s"),
        "ttft_p90_s": (found.ttft_s, "p90", "s"),
        "session_s": (found.session_s, "mean", "s"),
        "session_busy_s": (found.busy_s, "mean", "s"),
    }
    spread = [
        (name, getattr(one, which), unit, one.n)
        for name, (one, which, unit) in told.items()
        if one is not None
    ]
    single = [
        ("sessions_per_min", found.sessions_per_min, "1/min", found.sessions_ended),
        ("output_tok_s", found.output_tok_s, "tok/s", found.calls - found.failed),
        ("cached_share", found.cached_share, "share", found.calls - found.failed),
    ]
    return tuple(
        Metric(name=f"agents_s{level.live}_{name}", value=value, unit=unit, n=n)
        for name, value, unit, n in (*spread, *single)
        if value is not None
    )


def voids(level: Level) -> tuple[str, ...]:
    """Return the reasons for which nothing of this level may be used; none if it is sound."""
    return tuple(_voids(level))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which that share of the values lies, linear between ranks."""
    ranked = sorted(values)
    place = share * (len(ranked) - 1)
    low = int(place)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * (place - low)


def _voids(level: Level) -> Iterator[str]:
    calls = level.exchanges
    if failed := [one for one in calls if one.fault]:
        yield f"{len(failed)} of {len(calls)} calls failed, wanted none"
    for one in calls:
        if reason := one.fault or _uncounted(one) or _misfit(one, level.load):
            yield f"{one.session} copy {one.copy + 1} call {one.i}: {reason}"
    if not calls:
        yield "no call was made"
    if level.client_cpu_share > MOST_CLIENT_SHARE:
        yield (
            f"the client used {level.client_cpu_share:.0%} of a core, wanted at most {MOST_CLIENT_SHARE:.0%}: "
            "its times are its own"
        )
    if not failed:  # what a broken stream was charged for nobody knows
        yield from _miscounts(level)


def _miscounts(level: Level) -> Iterator[str]:
    prompt = sum(one.prompt_tokens or 0 for one in level.exchanges)
    made = sum(one.completion_tokens or 0 for one in level.exchanges)
    yield from counters.voids(level.before, level.after, prompt=prompt, made=made)
    planned = sum(one.planned_tokens or 0 for one in level.exchanges)
    low, high = FILLER_SIZE
    if level.load.words == "filler" and planned and not low <= prompt / planned <= high:
        yield f"{prompt} prompt tokens counted, wanted about {planned}: prompts were cut or counted otherwise"


def _uncounted(one: Exchange) -> str:
    if one.prompt_tokens is None or one.completion_tokens is None:
        return "the server sent no usage block, so its tokens cannot be counted"
    return "" if one.total_s > 0 else "no token arrived"


def _misfit(one: Exchange, load: Load) -> str:
    """Return what is wrong with an answer; what filler makes a model say past its own end is not judged."""
    if load.words == "filler":
        if one.completion_tokens == one.max_tokens:
            return ""
        return (
            f"{one.completion_tokens} completion tokens, wanted the {one.max_tokens} that were forced: "
            "the endpoint does not heed ignore_eos"
        )
    reply = Reply(
        text=one.text,
        completion_tokens=one.completion_tokens,
        finish_reason=one.finish_reason,
        prompt=asked(next(session for session in load.sessions if session.id == one.session), one.i),
    )
    return next((f"its reply is damaged, {damage.said}" for damage in audit(reply)), "")


def _cached(sound: Sequence[Exchange], counted: float | None) -> int | None:
    """Return the cached prompt tokens as the replies tell them, else as the server counted them."""
    told = [one.cached_tokens for one in sound if one.cached_tokens is not None]
    if len(told) == len(sound):
        return sum(told)
    return None if counted is None else round(counted)


def _positions(sound: Sequence[Exchange]) -> tuple[Position, ...]:
    return tuple(_position(i, [one for one in sound if one.i == i]) for i in sorted({one.i for one in sound}))


def _position(i: int, calls: Sequence[Exchange]) -> Position:
    tokens = sum(one.prompt_tokens or 0 for one in calls)
    cached = _cached(calls, None)
    return Position(
        i=i,
        calls=len(calls),
        prompt_tokens=tokens,
        cached_share=None if cached is None or not tokens else cached / tokens,
        ttft_s=fmean(one.ttft_s for one in calls),
    )


def _itl_s(one: Exchange) -> float:
    return (one.total_s - one.ttft_s) / ((one.completion_tokens or 0) - 1)


def _busy_s(run: SessionRun, calls: Sequence[Exchange]) -> float:
    """Return for how long at least one call of a session was in flight."""
    busy, until = 0.0, 0.0
    for one in sorted((one for one in calls if one.copy == run.copy), key=lambda one: one.sent_s):
        busy += max(0.0, one.ended_s - max(one.sent_s, until))
        until = max(until, one.ended_s)
    return busy


def _spread(values: Sequence[float], of: Callable[[float], float] = float) -> Spread | None:
    if not values:
        return None
    return Spread(
        mean=of(fmean(values)),
        p50=of(percentile(values, 0.5)),
        p90=of(percentile(values, 0.9)),
        n=len(values),
    )


def _speed(seconds: Sequence[float]) -> Spread | None:
    """Return 1 / each statistic of times a token."""
    return _spread(seconds, lambda value: 1 / value)
