"""Named: the figures of a result under the names that our metrics have, so that they can be laid beside a ledger's. Pure.

A prefill is named by its tokens in thousands, as `prefill_47k_tok_s`; loads of one number of streams are averaged over the kinds of
question, counting left out, as published tables have them.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean

from tuner.metrics import Metric
from tuner.results.figures import COUNTING, Figures, Load, Timed


def named(figures: Figures) -> tuple[Metric, ...]:
    """Return every figure that has a name of ours, sorted by it."""
    return tuple(sorted((*_loads(figures), *_prefills(figures)), key=lambda one: one.name))


def _loads(figures: Figures) -> Iterator[Metric]:
    for streams in sorted({one.streams for one in figures.loads}):
        own = [one for one in figures.loads if one.streams == streams]
        counted = [one for one in own if one.category != COUNTING] or own
        for quantity, unit, values in (
            ("per_stream_tok_s", "tok/s", [_per_stream(one) for one in counted]),
            ("agg_tok_s", "tok/s", [one.aggregate for one in counted]),
            ("ttft_s", "s", [_ttft(one) for one in counted]),
        ):
            if told := [value for value in values if value is not None and value > 0]:
                yield Metric(name=f"c{streams}_{quantity}", value=fmean(told), unit=unit, n=len(told))


def _prefills(figures: Figures) -> Iterator[Metric]:
    by_name: dict[str, list[float]] = {}
    for one in figures.prefills:
        by_name.setdefault(f"prefill_{round(one.tokens / 1000)}k_tok_s", []).append(one.tok_s)
    for name, values in by_name.items():
        yield Metric(name=name, value=fmean(values), unit="tok/s", n=len(values))


def _per_stream(load: Load) -> float | None:
    return load.per_stream if load.per_stream is not None else _mean([_rate(one) for one in load.requests])


def _ttft(load: Load) -> float | None:
    return load.ttft_s if load.ttft_s is not None else _mean([one.ttft_s for one in load.requests])


def _rate(one: Timed) -> float | None:
    """Return the rate that a result gives, else the tokens after the first over the time after it."""
    if one.rate is not None or one.ttft_s is None or one.total_s is None:
        return one.rate
    return (one.tokens - 1) / (one.total_s - one.ttft_s) if one.total_s > one.ttft_s else None


def _mean(values: Sequence[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return fmean(told) if told else None
