"""Decode: the step of a served recipe on its binding rank, from sessions and drafted tokens to bytes, milliseconds and tokens a second. Pure.

How many distinct experts a batch touches depends on how alike its rows are, which nobody published. So every figure of several
sessions is a span: from all sessions choosing as one does, to every row choosing for itself.
"""

from dataclasses import dataclass

from launcher.capacity import weights
from launcher.capacity.preset import Experts, Model, Span
from tuner.roofline import routing, step
from tuner.roofline.expert import Roof
from tuner.roofline.step import Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """How a line cuts the experts: over so many ranks, each expert in slices or, `whole`, each rank its own experts; and the depth read."""

    ranks: int
    whole: bool = False
    depth: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What is decoded at once: sessions, each with one token and its drafted ones."""

    sessions: int
    drafted: int

    @property
    def rows(self) -> int:
        """Tokens that a step verifies."""
        return self.sessions * (self.drafted + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decode:
    """A predicted step: distinct experts a layer, bytes of weights on the binding rank, seconds of the experts."""

    batch: Batch
    distinct: Span
    moved: Span
    seconds: Span


def decode(model: Model, line: Line, batch: Batch, roof: Roof) -> Decode:
    """Predict the experts' part of a step; the drafter's experts are in it where the model has one and tokens are drafted."""
    ends = [_stacks(model, line, batch, one) for one in (Batch(sessions=1, drafted=batch.drafted), batch)]
    low, high = ends
    # Low: as many distinct experts as one session has, and the arithmetic of all.
    return Decode(
        batch=batch,
        distinct=Span(
            low=routing.touched(model.experts, batch.drafted + 1),
            high=routing.touched(model.experts, batch.rows),
        ),
        moved=Span(low=step.weights(low), high=step.weights(high)),
        seconds=Span(low=step.seconds(low, roof), high=step.seconds(high, roof)),
    )


def static_s(model: Model, ranks: int, hardware: str, roof: Roof) -> float | None:
    """Return the part of a step that is not the experts', fitted to the model's reported step; None where none is like this line."""
    pace = model.reported.pace if model.reported else None
    if pace is None or (pace.hardware, pace.ranks) != (hardware, ranks):
        return None
    found = decode(model, Line(ranks=ranks), Batch(sessions=1, drafted=pace.drafted), roof)
    return max(0.0, pace.step_ms / 1e3 - found.seconds.high)


def _stacks(model: Model, line: Line, batch: Batch, alike: Batch) -> tuple[Stack, ...]:
    """Return the layers of a step whose distinct experts are those of `alike`."""
    found = [_stack(model, model.experts, line, batch.rows, alike.rows)]
    if model.drafter and batch.drafted:
        drafted = batch.sessions * batch.drafted
        found.append(_stack(model, model.drafter, line, drafted, alike.sessions * alike.drafted))
    return tuple(found)


def _stack(model: Model, experts: Experts, line: Line, rows: int, alike: int) -> Stack:
    distinct = routing.touched(experts, alike)
    if line.whole:
        # The busiest rank's distinct experts spread no wider than its visits do.
        share = (
            routing.busiest(experts, alike / line.ranks, line.ranks) / line.ranks if line.ranks > 1 else 1.0
        )
        distinct = min(distinct, experts.routed / line.ranks / share)
    else:
        share = _widest(model, experts, line.ranks)
    layer = step.sliced(experts, rows, distinct, share, line.depth)
    return Stack(layer=layer, count=experts.layers)


def _widest(model: Model, experts: Experts, ranks: int) -> float:
    """Return the share of an expert that the widest rank reads: its padding too, which lies in memory like the rest."""
    if model.exl3 and experts is model.experts:
        return max(weights.widths(experts.intermediate, ranks)) / experts.intermediate
    if experts.bits >= 8:
        return 1 / ranks
    share = weights.even(experts.intermediate, experts.intermediate, ranks)[0]
    return (share.size + share.padding) / experts.intermediate
