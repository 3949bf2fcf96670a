"""The memory table of a recipe: its model, its GPU and the tensors of its checkpoint, read and handed to the arithmetic."""

from collections.abc import Sequence
from pathlib import Path

from bootcheck.floors import Floors
from launcher.capacity import asked, config, memory, weights
from launcher.capacity.config import Attention
from launcher.capacity.memory import Line, Table
from launcher.capacity.preset import Hardware, Model
from launcher.capacity.weights import Share
from launcher.recipe import Recipe
from sparkctl import content
from sparkctl.cli import presets, weight_headers
from sparkctl.errors import Refused, Unclear, UsageFault
from sparkctl.units import GIB


def table(
    recipe: Recipe,
    attention: Attention,
    model: Model | None,
    hardware: Hardware,
    *,
    files: Path | None = None,
    guard_gib: float = Floors().guard_available_gib.value,
) -> Table:
    """Return what each rank of a recipe will hold; with `files` the weights are those of that folder's headers."""
    inventory = presets.inventory(model) if model and files is None else None
    found = weights.tensors(inventory) if inventory else weight_headers.tensors(files or Path())
    added = inventory.added if inventory else ()
    totals = weights.totals(found)
    lines = memory.weight_lines(
        totals,
        _experts(recipe, model, totals.experts, measured=files is not None),
        _drafter(recipe, model, totals.drafter_experts),
        sum(one.bytes for one in added if one.split),
        sum(one.bytes for one in added if not one.split),
    )
    return memory.table(
        hardware,
        model.reported if model else None,
        lines,
        totals.tables / GIB,
        asked.setup(recipe, attention, guard_gib),
    )


def foreseen(recipe: Recipe, floors: Floors) -> Table | None:
    """Return the table of a recipe on GB10s before a boot; None where its model or its layout is not one that is known.

    A boot must not fail since arithmetic could not follow its recipe, so what is not modelled is no error here.
    """
    model = presets.served(recipe)
    if model is None or model.tensors is None:
        return None
    attention = config.attention(model.config, str(content.model(model.name)))
    try:
        return table(
            recipe, attention, model, presets.hardware("gb10"), guard_gib=floors.guard_available_gib.value
        )
    except (Refused, Unclear, UsageFault):
        return None


def weights_of(found: Table) -> Sequence[Line]:
    """Return the lines that are weights: those before the cache."""
    return found.lines[: found.cache]


def _experts(recipe: Recipe, model: Model | None, size: int, *, measured: bool) -> tuple[Share, ...]:
    """Cut routed experts; `measured` says that their bytes are those of the files, and not of the release that was re-quantised."""
    ranks = recipe.parallel.tensor
    if model is None or not size:
        return weights.whole(size, ranks)
    if model.exl3 and measured:
        return weights.in_blocks(size, model.experts.intermediate, ranks)
    if model.exl3:
        return weights.uneven(model.experts, model.exl3, ranks)
    return weights.even(size, model.experts.intermediate, ranks)


def _drafter(recipe: Recipe, model: Model | None, size: int) -> tuple[Share, ...]:
    ranks = recipe.parallel.tensor
    if recipe.speculative is None:
        return weights.whole(0, ranks)
    if model is None or model.drafter is None:
        return weights.whole(size, ranks)
    return weights.even(size, model.drafter.intermediate, ranks)
