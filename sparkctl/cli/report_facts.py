"""Report facts: what the presets say of the recipe that a line's best configuration serves, and where its loads stand on the roofline."""

import re
from collections.abc import Iterator, Sequence
from statistics import median

from launcher.capacity import asked, config, kv
from launcher.capacity.config import Attention
from launcher.capacity.preset import Hardware, Model
from launcher.overlay import overlay
from launcher.recipe import Recipe
from ledger import bodies
from ledger.best import Best, best
from ledger.entry import Row
from ledger.fields import get, mapping, number_or_null
from ledger.page.facts import Ceiling, Facts, Part, Standing
from ledger.retractions import live
from sparkctl import content
from sparkctl.cli import presets
from sparkctl.cli.served import read_recipe
from sparkctl.errors import SparkctlError
from tuner.lever import Setting
from tuner.predicted import drafted, line_of
from tuner.roofline import expert
from tuner.roofline.decode import Batch, decode

_ALONE = re.compile(r"^c(?P<streams>[0-9]+)_per_stream_tok_s$")
HARDWARE = "gb10"


def facts(rows: Sequence[Row]) -> dict[str, Facts]:
    """Return the facts of every line's best configuration, by its climb; none of a recipe or model that is not known here."""
    found = ((one, _of_line(one, rows)) for one in best(rows))
    return {one.climb.id: told for one, told in found if told is not None}


def _of_line(one: Best, rows: Sequence[Row]) -> Facts | None:
    try:
        plain, engine = read_recipe(one.climb.plan.recipe)
        recipe = overlay(plain, _settings(one), engine)
        model, gpu = presets.served(recipe), presets.hardware(HARDWARE)
    except SparkctlError:
        # A ledger outlives the recipes that it names: a line whose recipe is gone is shown without what follows from it.
        return None
    if model is None:
        return None
    attention = config.attention(model.config, str(content.model(model.name))) if model.config else None
    pool = _pool(recipe, attention)
    return Facts(
        model=model.name,
        hardware=gpu.name,
        ceilings=tuple(_ceilings(gpu, model)),
        standings=tuple(_standings(one, rows, recipe, model, gpu)),
        parts=tuple(_parts(pool)) if pool else (),
        predicted_tokens=pool.tokens if pool else None,
    )


def _settings(one: Best) -> dict[str, Setting]:
    return {
        key: value for lever in one.stack for key, value in one.climb.plan.settings.get(lever, {}).items()
    }


def _ceilings(gpu: Hardware, model: Model) -> Iterator[Ceiling]:
    for name in gpu.bandwidth_gb_s:
        roof = expert.roof(gpu, model.experts, name)
        yield Ceiling(name=name, flop_s=roof.flop_s, bytes_s=roof.bytes_s)


def _standings(
    one: Best, rows: Sequence[Row], recipe: Recipe, model: Model, gpu: Hardware
) -> Iterator[Standing]:
    """Yield where each measured load of decoding stands: all routed FLOPs of its step over the step's measured seconds, on one rank."""
    accepted = _accepted(one, rows)
    if accepted is None:
        return
    roof = expert.roof(gpu, model.experts, tuple(gpu.bandwidth_gb_s)[-1])
    for figure in one.figures:
        if found := _ALONE.match(figure.metric):
            batch = Batch(sessions=int(found["streams"]), drafted=drafted(recipe))
            step = decode(model, line_of(recipe), batch, roof)
            flop = batch.rows * model.experts.layers * model.experts.top_k * expert.flop(model.experts)
            of_rank = flop / recipe.parallel.tensor
            yield Standing(
                metric=figure.metric,
                sessions=batch.sessions,
                tok_s=figure.mean,
                accepted=accepted,
                low=of_rank / step.moved.high,
                high=of_rank / step.moved.low,
                flop_s=of_rank * figure.mean / accepted,
            )


def _accepted(one: Best, rows: Sequence[Row]) -> float | None:
    """Return the tokens that a step yielded, the median over the boots behind the figures; None where the server did not tell."""
    own = {trial.boot for trial in one.climb.trials if frozenset(trial.arm) == frozenset(one.stack)}
    benches = [row.body for row in live(rows) if row.kind == "bench" and bodies.bench(row.body).boot in own]
    counted = [get(body, "counters", mapping) for body in benches if body.get("counters")]
    told = [get(one, "acceptance", number_or_null) for one in counted if "acceptance" in one]
    return median([value for value in told if value]) if any(told) else None


def _pool(recipe: Recipe, attention: Attention | None) -> kv.Pool | None:
    size = asked.pinned(recipe)
    if size is None or attention is None:
        return None
    return kv.pool(size, asked.cache_groups(recipe, attention), asked.demand(recipe, attention))


def _parts(pool: kv.Pool) -> Iterator[Part]:
    """Yield the groups of one full-length request: what its own tokens take, what stands by, and what the widest block wastes."""
    stands_by = wasted = 0
    for share in pool.shares:
        blocks = share.count * share.blocks
        kept = share.count * (share.blocks - share.reserved)
        stands_by += share.count * share.reserved * share.group.block_bytes
        wasted += blocks * (pool.block_bytes - share.group.block_bytes)
        yield Part(name=f"{share.count} x {share.group.cache.name}", n_bytes=kept * share.group.block_bytes)
    yield Part(name="for tokens in flight", n_bytes=stands_by)
    yield Part(name="narrower than a block", n_bytes=wasted)
