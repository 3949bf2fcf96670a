"""Timeline of a boot: its stages one after the other, and below them what each rank went through while the line got ready."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ledger import bodies
from ledger.entry import Body, Json, Row
from ledger.fields import each, get, mapping, number, number_or_null, text
from ledger.page.chart import WIDTH, bar, bottom, mark, plain, scale, svg, words
from ledger.steps import CLEARED

_LEFT, _ROW, _TOP = 92.0, 24.0, 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A stage of the whole line, or of one rank, from and to so many of the line's seconds after the boot began."""

    who: str
    stage: str
    start_s: float
    end_s: float


def stretches(rows: Sequence[Row], boot: str) -> tuple[Stretch, ...]:
    """Return the stretches of a boot; nothing for one that was recorded before times were kept."""
    steps = [row.body for row in rows if row.kind == "step" and row.body.get("boot") == boot]
    line = tuple(_line(steps))
    ready = next((one for one in line if one.stage == "ready"), None)
    ended = [row.body for row in rows if row.kind == "boot" and row.body.get("boot") == boot]
    if ready is None or not ended or "stages" not in ended[-1]:
        return line
    return (*line, *_ranks(ended[-1], ready))


def timeline_plot(found: Sequence[Stretch], name: str) -> str:
    """Return the plot, or nothing where there are no times."""
    if not found:
        return ""
    who = tuple(dict.fromkeys(one.who for one in found))
    axis = scale([one.end_s for one in found], _LEFT, WIDTH - 12, zero=True)
    height = _TOP + _ROW * len(who)
    parts = [bottom(axis, height, "the line's seconds since the boot began", plain, _TOP)]
    for at, one in enumerate(who):
        y = _TOP + _ROW * at
        parts.append(words(2, y + 16, one, style="name"))
        parts += [
            _bar(stretch, axis.at(stretch.start_s), axis.at(stretch.end_s), y)
            for stretch in found
            if stretch.who == one
        ]
    return svg(name, height + 38, "timeline of a boot by stage and rank", "".join(parts))


def _bar(one: Stretch, start: float, end: float, y: float) -> str:
    """Return one bar, with its name where that fits in."""
    inside = (
        words(start + 4, y + 16, one.stage, style="inside") if end - start > 7.2 * len(one.stage) + 6 else ""
    )
    return mark(
        "stretch",
        bar(start, y + 3, end - start, _ROW - 6, f"stage-{one.stage}") + inside,
        who=one.who,
        stage=one.stage,
        low=one.start_s,
        high=one.end_s,
    )


def _line(steps: Sequence[Body]) -> Iterator[Stretch]:
    began: dict[str, float] = {}
    for body in steps:
        step, at = bodies.step(body), get(body, "seconds", number_or_null) if "seconds" in body else None
        if at is None or step.stage == CLEARED:
            continue
        if step.state == "began":
            began[step.stage] = at
        elif step.stage in began:
            yield Stretch(who="line", stage=step.stage, start_s=began[step.stage], end_s=at)


def _ranks(boot: Body, ready: Stretch) -> Iterator[Stretch]:
    nodes: Mapping[str, Json] = get(boot, "stages", mapping)
    for node in nodes:
        passed = get(nodes, node, lambda found: each(found, _passed))
        ends = [*(at_s for _, at_s in passed[1:]), ready.end_s - ready.start_s]
        for (stage, at_s), end_s in zip(passed, ends, strict=True):
            yield Stretch(who=node, stage=stage, start_s=ready.start_s + at_s, end_s=ready.start_s + end_s)


def _passed(found: Json) -> tuple[str, float]:
    stage, at_s = each(found, lambda one: one)
    return text(stage), number(at_s)
