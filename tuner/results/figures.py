"""Figures: what any bench result says in numbers, in one shape for all tools. Values only."""

from dataclasses import dataclass

COUNTING = "ceiling_count"
"""The category that published results keep out of their means: counting is guessed nearly always and shows the ceiling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One request: tokens, seconds from its sending, the rate that the result gives, characters of text; None is not told."""

    tokens: int
    prompt_tokens: int | None = None
    ttft_s: float | None = None
    total_s: float | None = None
    rate: float | None = None
    characters: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Streams that ran together; rates in tok/s as the result gives them, None where it does not."""

    streams: int
    category: str = ""
    per_stream: float | None = None
    aggregate: float | None = None
    ttft_s: float | None = None
    wall_s: float | None = None
    requests: tuple[Timed, ...] = ()

    @property
    def name(self) -> str:
        """What it is called in a table."""
        return f"C{self.streams} {self.category}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefill:
    """One prompt that was read, and how long that took."""

    tokens: int
    tok_s: float
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """How many requests ended how; a result that keeps only what succeeded is another result than it says."""

    done: int
    failed: int = 0
    unfinished: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All that a result says in numbers."""

    tool: str
    loads: tuple[Load, ...] = ()
    prefills: tuple[Prefill, ...] = ()
    totals: Totals | None = None


def means(figures: Figures) -> tuple[Load, ...]:
    """Return the plain means over the categories for each number of streams, counting left out, as published tables have them."""
    levels = sorted({one.streams for one in figures.loads})
    return tuple(_mean(level, [one for one in figures.loads if one.streams == level]) for level in levels)


def _mean(level: int, loads: list[Load]) -> Load:
    counted = [one for one in loads if one.category != COUNTING] or loads
    return Load(
        streams=level,
        per_stream=_average([one.per_stream for one in counted]),
        aggregate=_average([one.aggregate for one in counted]),
        ttft_s=_average([one.ttft_s for one in counted]),
    )


def _average(values: list[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return sum(told) / len(told) if told else None
