"""Rows to the Markdown block of a README. Values in, text out.

Nothing in the block depends on when it is made, so the same ledger gives the same text, byte for byte. Text that came
from outside (reasons, names, sources) is escaped: it can neither break a table nor end the block.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from ledger.best import Best, Figure, best
from ledger.entry import Row, head
from ledger.graded import graded, said
from ledger.markers import MarkerFault
from ledger.misses import error, measured, misses, span, unmodelled
from ledger.reported import Import
from ledger.table import Rung, effect, grid, ladder, reported

REPORTED = "reported"

LABELS = {
    "c1_per_stream_tok_s": "one stream (tok/s)",
    "c1_ttft_s": "one stream, first token after (s)",
    "c6_per_stream_tok_s": "six streams, each (tok/s)",
    "c6_agg_tok_s": "six streams together (tok/s)",
    "prefill_47k_tok_s": "prefill at 47K (tok/s)",
    "kv_tokens": "tokens of the KV cache",
}


Credits: TypeAlias = Mapping[str, Mapping[str, str]]
"""By the digest of a ladder who is to be thanked for each lever: for climbs whose plan row does not say so itself."""


def render(rows: Sequence[Row], what: str = "", credits_: Credits = MappingProxyType({})) -> str:
    """Return a block without its markers, lines parted by a line feed, no line feed at the end.

    Args:
        rows: the ledger.
        what: as a start marker says it: '' for all, `line A` for one line, `reported` for others' figures.
        credits_: see `Credits`.

    Raises:
        MarkerFault: nothing of the ledger is called that.

    """
    parts = ["<!-- Made by `sparkctl report` from the ledger; what is written here by hand is lost. -->"]
    found = [one for one in best(rows) if what in {"", f"line {one.climb.line}"}]
    parts += [_best(one, rows, credits_) for one in found]
    if what not in {"", REPORTED} and not found:
        lines = ", ".join(f"'line {one.climb.line}'" for one in best(rows)) or "none"
        raise MarkerFault(
            f"a start marker wants {what!r}; wanted nothing, '{REPORTED}' or a line with figures: {lines}"
        )
    parts += [] if found or what else ["No line of ours has been measured yet."]
    tables = reported(rows) if what in {"", REPORTED} else ()
    if tables:
        parts.append("### Reported by others")
        parts += [_reported(one) for one in tables]
    parts.append(_footer(rows))
    return "\n\n".join(parts)


def _best(one: Best, rows: Sequence[Row], credits_: Credits) -> str:
    climb, plan = one.climb, one.climb.plan
    state = "climbed to its end" if climb.ended else "still open"
    parts = [f"### Line {_cell(climb.line)}{' (simulated)' if climb.simulated else ''}"]
    if climb.simulated:
        pace = f" at {plan.pace:g} times real pace" if plan.pace is not None else ""
        parts.append(f"**Simulated**: measured on a practice line{pace}; no figure here is one of a GB10.")
    parts.append(
        f"Recipe {_code(plan.recipe)}, ladder {_code(plan.ladder)}, climb {_code(plan.climb)} ({state}), "
        f"{climb.began[:10]} to {climb.last[:10]}.\nRecipe digest {_code(plan.recipe_digest[:12])}, "
        f"workload digest {_code(plan.workload_digest[:12])}."
    )
    parts.append(_settings(one))
    parts.append(_figures(one.figures, _labelled("metric", one)))
    parts.append(
        " ".join(filter(None, (_confirmed(one) if one.stack else "", _flat(said(graded(one, rows))))))
    )
    rungs = ladder(climb, credits_.get(plan.ladder_digest, {}))
    if rungs:
        parts.append(
            "Ladder (effect against the stack without the lever, with its bounds; `~` no difference shown):"
        )
        parts.append(_ladder(rungs, _labelled("lever", one)))
    parts += _predictions(one)
    return "\n\n".join(parts)


def _confirmed(one: Best) -> str:
    ended = one.climb.ended
    if ended is None or not ended.gain:
        return "The boots behind these figures also decided about the levers; no fresh ones confirmed them."
    told = ", ".join(f"{label(gain.metric)} {effect(gain)}" for gain in ended.gain)
    return f"Confirmed on fresh boots, against as many of the base: {told}."


def _settings(one: Best) -> str:
    if not one.stack:
        return "Best configuration so far: the recipe as it is; no lever was accepted."
    sets = one.climb.plan.settings
    lines = [
        f"- {_cell(lever)}" + "".join(f", {_code(f'{key} = {_plain(value)}')}" for key, value in pairs)
        for lever, pairs in ((lever, sets[lever].items() if lever in sets else ()) for lever in one.stack)
    ]
    pairs = (pair for lever in one.stack if lever in sets for pair in sets[lever].items())
    asked = " ".join(shlex.join(("--set", f"{key}={json.dumps(value)}")) for key, value in pairs)
    overlay = f" ({_code(f'sparkctl boot --recipe {one.climb.plan.recipe} {asked}')})" if asked else ""
    return f"Best configuration so far, settings on top of the recipe{overlay}:\n\n" + "\n".join(lines)


def _plain(value: bool | float | str) -> str:  # noqa: FBT001 - a setting is a scalar of any of these
    return str(value).lower() if isinstance(value, bool) else str(value)


def _labelled(column: str, one: Best) -> str:
    """Name a table's first column; a practice line's label goes along when the table is copied elsewhere."""
    return f"{column} (simulated)" if one.climb.simulated else column


def _figures(figures: Sequence[Figure], first: str) -> str:
    rows = [(label(one.metric), number(one.mean), _interval(one), str(one.n)) for one in figures]
    return _table((first, "geometric mean", "95 % interval", "boots (n)"), rows)


def _interval(one: Figure) -> str:
    if one.low is None or one.high is None:
        return "none"
    return f"[{number(one.low)}, {number(one.high)}]"


def _ladder(rungs: Sequence[Rung], first: str) -> str:
    metrics, titles, rows = grid(rungs)
    return _table((first, *map(label, metrics), *titles), rows)


def _predictions(one: Best) -> list[str]:
    found, unsaid = misses(one.climb), unmodelled(one.climb)
    if not found and not unsaid:
        return []
    unsaid_text = f" Of {', '.join(map(_cell, unsaid))} nothing was predicted." if unsaid else ""
    said = (
        "Predicted before the climb for each lever alone, and measured since; the error is how far the measured effect "
        f"lies beyond the predicted range.{unsaid_text}"
    )
    columns = (_labelled("lever", one), "metric", "predicted", "measured", "error", "the prediction rests on")
    rows = [
        (
            miss.lever,
            label(miss.predicted.metric),
            span(miss.predicted),
            measured(miss),
            error(miss),
            miss.predicted.why,
        )
        for miss in found
    ]
    return [said, _table(columns, rows)] if rows else [said]


def _reported(one: Import) -> str:
    metrics = tuple(sorted({metric for row in one.rows for metric, _ in row.figures}))
    rows = [
        (
            row.line,
            row.row,
            row.lever,
            *(_given(row.figures, metric) for metric in metrics),
            "1",
            "reported",
            row.their_verdict,
        )
        for row in one.rows
    ]
    columns = ("line", "row", "lever", *map(label, metrics), "n", "label", "their verdict")
    return (
        "*Reported*: others' figures and others' verdicts, one boot a row (n = 1); nothing here is a verdict of ours.\n"
        f"Source: {_cell(one.source)}\n\n{_table(columns, rows)}"
    )


def _given(figures: Sequence[tuple[str, float]], metric: str) -> str:
    return next((f"{value:g}" for name, value in figures if name == metric), "")


def _footer(rows: Sequence[Row]) -> str:
    if not rows:
        return "Ledger: no rows."
    count = "1 row" if len(rows) == 1 else f"{len(rows)} rows"
    return f"Ledger: {count}, the last of {rows[-1].at}, head {_code(head(rows))}."


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def label(metric: str) -> str:
    """Return what a metric is called in a table."""
    return LABELS.get(metric, metric)


def number(value: float) -> str:
    """Format a figure with about four digits, whole from a thousand on."""
    if round(abs(value), 1) >= 1000:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _cell(text: str) -> str:
    return _flat(text).replace("|", "\\|")


def _flat(text: str) -> str:
    """Return words from outside as one line that ends no block and begins no tag."""
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")


def _code(text: str) -> str:
    flat = " ".join(text.split())
    return "`" + flat.replace("`", "'").replace("<!--", "< !--") + "`"
