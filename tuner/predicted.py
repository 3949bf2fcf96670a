"""Predicted: what arithmetic says of a lever before it costs a boot, metric by metric, and how far off that was. Pure.

Covered are levers that change how many tokens the cache takes, how many rows a step verifies, or how experts are cut. Of anything
else nothing is said: no effect here is not an effect of nothing.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from launcher.capacity import asked, kv
from launcher.capacity.config import Attention
from launcher.capacity.preset import Hardware, Model, Span
from launcher.recipe import Recipe
from tuner.roofline import expert
from tuner.roofline.decode import Batch, Line, decode, static_s

KV_TOKENS = "kv_tokens"
"""The tokens that the engine prints for its cache, beside the metrics of a bench."""

_DECODE = re.compile(r"^c(?P<sessions>[0-9]+)_(?:per_stream|agg)_tok_s$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A metric with a lever over the metric without it: from `low` to `high`, and what that rests on."""

    metric: str
    low: float
    high: float
    why: str

    def miss(self, measured: float) -> float:
        """Return how far a measured ratio lies beyond the nearer end, as a share of it; 0 within the range."""
        near = min(max(measured, self.low), self.high)
        return measured / near - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of what is served and of what serves it."""

    model: Model
    attention: Attention
    hardware: Hardware


def predicted(before: Recipe, after: Recipe, known: Known, metrics: Sequence[str]) -> tuple[Effect, ...]:
    """Return the predicted effects of going from one recipe to another, on those of `metrics` that the models cover."""
    return (*_cache(before, after, known), *_speeds(before, after, known, metrics))


def shown(effect: Effect) -> str:
    """Return an effect as text, in percent."""
    low, high = (f"{(end - 1) * 100:+.1f}" for end in (effect.low, effect.high))
    return f"{effect.metric} {low} %" if low == high else f"{effect.metric} {low} to {high} %"


def line_of(recipe: Recipe, depth: float = 1.0) -> Line:
    """Return how a recipe cuts the experts."""
    whole = recipe.flags.get("enable-expert-parallel") is True
    return Line(ranks=recipe.parallel.tensor, whole=whole, depth=depth)


def drafted(recipe: Recipe) -> int:
    """Return the tokens that a recipe's drafter proposes a step."""
    return recipe.speculative.tokens if recipe.speculative else 0


def _cache(before: Recipe, after: Recipe, known: Known) -> Iterator[Effect]:
    sizes = (asked.pinned(before), asked.pinned(after))
    if sizes[0] is None or sizes[1] is None:
        return  # What utilisation leaves is a span, and the span of a ratio of spans says nothing.
    pools = [
        kv.pool(size or 0, asked.cache_groups(one, known.attention), asked.demand(one, known.attention))
        for one, size in zip((before, after), sizes, strict=True)
    ]
    ratio = pools[1].tokens / pools[0].tokens
    if ratio != 1:
        yield Effect(metric=KV_TOKENS, low=ratio, high=ratio, why="the allocator's arithmetic")


def _speeds(before: Recipe, after: Recipe, known: Known, metrics: Sequence[str]) -> Iterator[Effect]:
    lines, rows = (line_of(before), line_of(after)), (drafted(before), drafted(after))
    if lines[0] == lines[1] and rows[0] == rows[1]:
        return
    name = tuple(known.hardware.bandwidth_gb_s)[-1]
    roof = expert.roof(known.hardware, known.model.experts, name)
    rest = static_s(known.model, lines[0].ranks, known.hardware.name, roof)
    if rest is None:
        return
    for metric in metrics:
        if found := _DECODE.match(metric):
            steps = [
                decode(known.model, line, Batch(sessions=int(found["sessions"]), drafted=count), roof).seconds
                for line, count in zip(lines, rows, strict=True)
            ]
            span = _ratio(steps[0], steps[1], rest, (rows[1] + 1) / (rows[0] + 1))
            yield Effect(metric=metric, low=span.low, high=span.high, why=_why(lines, rows))


def _ratio(before: Span, after: Span, rest: float, yielded: float) -> Span:
    """Return the ratio of rates: of steps at either end of their spans, and of tokens a step from unchanged to all that is drafted."""
    steps = [(before.low + rest) / (after.low + rest), (before.high + rest) / (after.high + rest)]
    accepted = (1.0, yielded)
    return Span(low=min(steps) * min(accepted), high=max(steps) * max(accepted))


def _why(lines: tuple[Line, Line], rows: tuple[int, int]) -> str:
    said = ["bytes of experts a step; the rest of a step as reported, unchanged"]
    if rows[0] != rows[1]:
        said.append("accepted tokens from unchanged to as many more as are drafted")
    if lines[0] != lines[1]:
        said.append("exchanges not priced")
    return "; ".join(said)
