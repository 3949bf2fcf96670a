"""AIPerf: the summary that `aiperf profile` writes (profile_export_aiperf.json), as figures. Pure; shapes alone, no code of theirs.

Of each metric the mean is read, in the unit that the file names. Its rates of a user are means over requests of tokens after the
first over the time after it, as ours are; its tokens are the server's or its tokenizer's, which the file does not tell.
"""

from tuner.results.fields import at, count, number, text
from tuner.results.figures import Figures, Load, Timed, Totals

_TO_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0}


def of_aiperf(raw: object) -> Figures:
    """Read one summary: one load, of as many streams as its configuration asked for at once.

    Raises:
        ValueError: a key is not what it should be, or a unit of time is none.

    """
    tokens, requests = _mean(raw, "output_sequence_length"), _whole(raw, "request_count")
    load = Load(
        streams=_streams(raw),
        category=_category(raw),
        per_stream=_mean(raw, "output_token_throughput_per_user"),
        aggregate=_mean(raw, "output_token_throughput"),
        ttft_s=_seconds(raw, "time_to_first_token"),
        wall_s=_seconds(raw, "benchmark_duration"),
        requests=(Timed(tokens=round(tokens * requests)),) if tokens and requests else (),
    )
    failed = _whole(raw, "error_request_count") or 0
    totals = (
        None
        if requests is None
        else Totals(done=requests, failed=failed, unfinished=int(at(raw, "was_cancelled") is True))
    )
    return Figures(tool="AIPerf", loads=(load,), totals=totals)


def _streams(raw: object) -> int:
    """Return how many requests were at once: the configuration's word, which stands in one of two places by version."""
    told = at(raw, "input_config")
    return count(at(told, "loadgen"), "concurrency") or count(told, "concurrency") or 1


def _category(raw: object) -> str:
    before, after = _mean(raw, "input_sequence_length"), _mean(raw, "output_sequence_length")
    return f"tg{after:.0f} after {before:.0f}" if before and after else ""


def _mean(raw: object, key: str) -> float | None:
    return number(at(raw, key), "avg")


def _whole(raw: object, key: str) -> int | None:
    return count(at(raw, key), "avg")


def _seconds(raw: object, key: str) -> float | None:
    value, unit = _mean(raw, key), text(at(raw, key), "unit")
    if value is None:
        return None
    if unit not in _TO_SECONDS:
        raise ValueError(f"{key}: unit: wanted one of {', '.join(_TO_SECONDS)}, found {unit!r:.60}")
    return value * _TO_SECONDS[unit]
