"""Rows to the whole page, by the same folds as the README's block: what a table there says, a plot here shows. Text in, text out.

Nothing depends on when it is made. All text from outside is escaped, and the page forbids itself scripts and anything from elsewhere.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from types import MappingProxyType

from ledger.best import Best, best
from ledger.entry import Row, head
from ledger.graded import graded, said
from ledger.misses import error, measured, misses, span, unmodelled
from ledger.page.cache_plot import cache_plot
from ledger.page.facts import Facts
from ledger.page.ladder_plot import ladder_plot
from ledger.page.noise_plot import noise_plot
from ledger.page.roofline_plot import roofline_plot
from ledger.page.streams_plot import streams_plot
from ledger.page.style import STYLE
from ledger.page.timeline_plot import stretches, timeline_plot
from ledger.render import Credits, label, number
from ledger.reported import Import
from ledger.table import grid, ladder, reported

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(rows: Sequence[Row], facts: Mapping[str, Facts], credits_: Credits = MappingProxyType({})) -> str:
    """Return the page; `facts` are by the id of the climb that they belong to, `credits_` as the block takes them."""
    found = best(rows)
    body = [
        part
        for at, one in enumerate(found)
        for part in _line(one, rows, facts.get(one.climb.id), at, credits_)
    ]
    body += [] if found else ["<p>No line of ours has been measured yet.</p>"]
    body += [part for one in reported(rows) for part in _reported(one)]
    made_of = (
        f"{len(rows)} rows, the last of {rows[-1].at}, head <code>{head(rows)}</code>" if rows else "no rows"
    )
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f"<title>sparkctl report</title><style>{STYLE}</style></head><body><h1>sparkctl report</h1>",
            *body,
            f'<p class="soft">Made by <code>sparkctl report --html</code> from the ledger: {made_of}.</p></body></html>\n',
        )
    )


def _line(one: Best, rows: Sequence[Row], facts: Facts | None, at: int, credits_: Credits) -> Iterator[str]:
    climb, plan = one.climb, one.climb.plan
    yield f"<section><h2>Line {escape(climb.line)}</h2>"
    if climb.simulated:
        pace = f" at {plan.pace:g} times real pace" if plan.pace is not None else ""
        yield f'<p><span class="label">simulated</span> Measured on a practice line{pace}; no figure here is one of a GB10.</p>'
    state = "climbed to its end" if climb.ended else "still open"
    yield (
        f"<p>Recipe <code>{escape(plan.recipe)}</code>, ladder <code>{escape(plan.ladder)}</code>, climb "
        f"<code>{escape(climb.id)}</code> ({state}), {climb.began[:10]} to {climb.last[:10]}.</p>"
    )
    yield from _configuration(one)
    yield f"<p>{escape(said(graded(one, rows)))}</p>"
    yield '<div class="plots">'
    yield from _plots(one, rows, facts, at)
    yield "</div>"
    yield from _ladder(one, credits_.get(plan.ladder_digest, {}))
    yield from _predicted(one)
    yield "</section>"


def _configuration(one: Best) -> Iterator[str]:
    yield "<h3>Best configuration</h3>"
    if one.stack:
        sets = [pair for lever in one.stack for pair in one.climb.plan.settings.get(lever, {}).items()]
        given = " ".join(f"--set '{key}={json.dumps(value)}'" for key, value in sets)
        yield f"<pre>sparkctl boot --line {escape(one.climb.line)} {escape(given)}</pre>"
    else:
        yield "<p>The recipe as it is; no lever was accepted.</p>"
    rows = [
        (
            label(f.metric),
            number(f.mean),
            "none" if f.low is None or f.high is None else f"{number(f.low)} to {number(f.high)}",
            str(f.n),
        )
        for f in one.figures
    ]
    yield _table(("metric", "geometric mean", "95 % interval", "boots (n)"), rows)


def _plots(one: Best, rows: Sequence[Row], facts: Facts | None, at: int) -> Iterator[str]:
    last = next((trial.boot for trial in reversed(one.climb.trials) if trial.outcome == "measured"), "")
    own = [row for row in rows if row.line == one.climb.line]
    for name, title, drawn, missing in (
        ("ladder", "Ladder", ladder_plot(one.climb, f"ladder-{at}"), "no verdict has an effect yet"),
        (
            "streams",
            "Throughput against streams",
            streams_plot(one.figures, f"streams-{at}"),
            "no load of streams was measured",
        ),
        (
            "noise",
            "Noise of the line",
            noise_plot(one.climb, f"noise-{at}"),
            "no configuration was booted twice",
        ),
        (
            "timeline",
            f"Timeline of {last}",
            timeline_plot(stretches(own, last), f"timeline-{at}"),
            "the rows of this boot keep no times",
        ),
        (
            "roofline",
            "Roofline",
            roofline_plot(facts, f"roofline-{at}") if facts else "",
            "nothing is known of the model's experts",
        ),
        (
            "cache",
            "KV cache by component",
            cache_plot(facts, f"cache-{at}") if facts else "",
            "nothing is known of the model's cache",
        ),
    ):
        shown = drawn or f'<p class="soft">Not drawn: {missing}.</p>'
        yield f'<figure class="{name}"><h3>{escape(title)}</h3>{shown}<figcaption>{_caption(name, one, facts) if drawn else ""}</figcaption></figure>'


def _caption(name: str, one: Best, facts: Facts | None) -> str:
    match name:
        case "ladder":
            return "A line is the interval by which the lever was judged; one cut off at the edge reaches further."
        case "streams":
            return f"Geometric mean of {one.boots} boots of the best configuration, with the 95 % interval between boots."
        case "noise":
            return "Each dot is one boot beside the mean of its own configuration."
        case "timeline":
            return "Ranks are shown from the moment at which the line waits for them."
        case "roofline":
            return (
                "A mark is the arithmetic of the routed experts over the whole measured step: what it stays below the roof, attention, "
                "exchanges and all else take. It reaches from sessions that all choose experts for themselves to such that choose alike, "
                "which nobody published. Roofs are predicted, see docs/predictions.md."
            )
    tokens = [cache.tokens for cache in one.climb.caches if frozenset(cache.on) == frozenset(one.stack)]
    logged = f" A boot of the best configuration logged {tokens[-1]:,} tokens." if tokens else ""
    predicted = (
        f" {facts.predicted_tokens:,} tokens are predicted." if facts and facts.predicted_tokens else ""
    )
    return f"The allocator's arithmetic.{predicted}{logged}"


def _ladder(one: Best, credits_: Mapping[str, str]) -> Iterator[str]:
    metrics, titles, rows = grid(ladder(one.climb, credits_))
    columns = ("lever", *map(label, metrics), *titles)
    yield f'<h3>Verdicts</h3><div class="verdicts">{_table(columns, rows)}</div>'


def _predicted(one: Best) -> Iterator[str]:
    rows = [
        (
            miss.lever,
            label(miss.predicted.metric),
            span(miss.predicted),
            measured(miss),
            error(miss),
            miss.predicted.why,
        )
        for miss in misses(one.climb)
    ]
    if rows:
        yield "<h3>Predicted and measured</h3>" + _table(
            ("lever", "metric", "predicted", "measured", "error", "the prediction rests on"), rows
        )
    if left := unmodelled(one.climb):
        yield f'<p class="soft">Of {escape(", ".join(left))} nothing was predicted.</p>'


def _reported(one: Import) -> Iterator[str]:
    metrics = tuple(sorted({metric for row in one.rows for metric, _ in row.figures}))
    rows = [
        (
            row.line,
            row.row,
            row.lever,
            *(
                next((f"{value:g}" for name, value in row.figures if name == metric), "")
                for metric in metrics
            ),
            row.their_verdict,
        )
        for row in one.rows
    ]
    yield f'<section><h2>Reported by others</h2><p><span class="label">reported</span> {escape(one.source)}</p>'
    yield "<p>Others' figures and others' verdicts, one boot a row; nothing here is a verdict of ours.</p>"
    yield _table(("line", "row", "lever", *map(label, metrics), "their verdict"), rows) + "</section>"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    heads = "".join(f"<th>{escape(one)}</th>" for one in columns)
    lines = "".join(
        "<tr>"
        + "".join(
            f'<td class="{escape(cell)}">{escape(cell)}</td>'
            if cell in _VERDICTS
            else f"<td>{escape(cell)}</td>"
            for cell in row
        )
        + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>'


_VERDICTS = frozenset({"accept", "reject", "inconclusive", "open"})
