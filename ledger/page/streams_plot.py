"""Throughput against streams: what one stream gets and what all get together, with the interval between boots."""

import re
from collections.abc import Sequence

from ledger.best import Figure
from ledger.page.chart import WIDTH, bottom, dot, left, line, mark, path, plain, scale, svg, words

_NAME = re.compile(r"^c(?P<streams>[0-9]+)_(?P<what>per_stream|agg)_tok_s$")
_TITLES = {"agg": "together", "per_stream": "each"}
_LEFT, _TOP, _BOTTOM = 52.0, 30.0, 230.0


def streams_plot(figures: Sequence[Figure], name: str) -> str:
    """Return the plot, or nothing where no load of streams was measured."""
    points = sorted(
        (found["what"], int(found["streams"]), one) for one in figures if (found := _NAME.match(one.metric))
    )
    if not points:
        return ""
    across = scale([float(streams) for _, streams, _ in points], _LEFT, WIDTH - 66, zero=True)
    ends = [value for _, _, one in points for value in (one.mean, one.low, one.high) if value is not None]
    up = scale(ends, _BOTTOM, _TOP, zero=True)
    parts = [
        bottom(across, _BOTTOM, "streams at once", plain, _TOP),
        left(up, _LEFT, "tok/s", plain, WIDTH - 66),
    ]
    for what in dict.fromkeys(what for what, _, _ in points):
        own = [(streams, one) for kind, streams, one in points if kind == what]
        places = [(across.at(streams), up.at(one.mean)) for streams, one in own]
        parts.append(path(places, what))
        parts.append(words(places[-1][0] + 8, places[-1][1] + 4, _TITLES[what], style=f"name {what}"))
        for (x, y), (streams, one) in zip(places, own, strict=True):
            bounds = line(x, up.at(one.low), x, up.at(one.high), "interval") if one.low and one.high else ""
            parts.append(
                mark(
                    "stream",
                    bounds + dot(x, y, what),
                    metric=one.metric,
                    x=float(streams),
                    y=one.mean,
                    low=one.low,
                    high=one.high,
                    n=str(one.n),
                )
            )
    return svg(name, _BOTTOM + 38, "throughput against streams", "".join(parts))
