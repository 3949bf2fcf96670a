"""The roofline of the routed experts, with the measured loads on it: how far from the roof this line is."""

from ledger.page.chart import WIDTH, bottom, dot, left, line, mark, path, plain, scale, svg, words
from ledger.page.facts import Facts

_LEFT, _TOP, _BOTTOM = 52.0, 30.0, 240.0
_POINTS = 60


def roofline_plot(facts: Facts, name: str) -> str:
    """Return the plot, or nothing where the model is not known or nothing stands on it."""
    if not facts.ceilings or not facts.standings:
        return ""
    ridges = [one.flop_s / one.bytes_s for one in facts.ceilings]
    across = scale(
        [*(end for one in facts.standings for end in (one.low, one.high)), *ridges],
        _LEFT,
        WIDTH - 12,
        log=True,
    )
    grid = [across.low * (across.high / across.low) ** (at / _POINTS) for at in range(_POINTS + 1)]
    roofs = [[min(one.flop_s, at * one.bytes_s) / 1e12 for at in grid] for one in facts.ceilings]
    heights = [one.flop_s / 1e12 for one in facts.standings]
    up = scale([*(value for roof in roofs for value in roof), *heights], _BOTTOM, _TOP, log=True)
    parts = [
        bottom(across, _BOTTOM, "FLOPs a byte of the routed experts", plain, _TOP),
        left(up, _LEFT, f"TFLOP/s a GPU, {facts.model} on {facts.hardware}", plain, WIDTH - 12),
    ]
    for at, (ceiling, roof) in enumerate(zip(facts.ceilings, roofs, strict=True)):
        places = [(across.at(x), up.at(y)) for x, y in zip(grid, roof, strict=True)]
        parts.append(path(places, f"roof roof-{at}"))
        parts.append(
            words(
                places[0][0] + 6,
                _TOP + 14 + 15 * at,
                f"{ceiling.bytes_s / 1e9:,.0f} GB/s ({ceiling.name})",
                style=f"name roof-{at}",
            )
        )
    for one, height in zip(facts.standings, heights, strict=True):
        x1, x2, y = across.at(one.low), across.at(one.high), up.at(height)
        streams = f"{one.sessions} stream{'s' if one.sessions > 1 else ''}"
        parts.append(
            mark(
                "standing",
                line(x1, y, x2, y, "interval")
                + dot(x1, y)
                + dot(x2, y)
                + words(x2 + 8, y + 4, streams, style="tick"),
                metric=one.metric,
                low=one.low,
                high=one.high,
                y=height,
                tok_s=one.tok_s,
                accepted=one.accepted,
            )
        )
    return svg(name, _BOTTOM + 38, "roofline with measured loads", "".join(parts))
