"""Which line and how it is served: the inventory's line, its recipe with `--set` on top, and the floors."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bootcheck import floors as floors_module
from bootcheck.floors import Floors
from launcher import inherit
from launcher.command import placeholder_faults
from launcher.overlay import Settings, overlay
from launcher.recipe import EngineFacts, Recipe, released_flags, unknown_flags
from sparkctl import content, edge
from sparkctl.cli import patch_files
from sparkctl.cli.session import Session, settings
from sparkctl.errors import FileFault, Refused, UsageFault
from sparkctl.line import Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A line with the recipe it is to serve and the floors it is judged by."""

    line: Line
    recipe: Recipe
    engine: EngineFacts
    floors: Floors

    def with_settings(self, chosen: Settings) -> "Served":
        """Return the same with some recipe keys changed."""
        recipe = overlay(self.recipe, chosen, self.engine)
        return replace(self, recipe=recipe, floors=_floors(self.line, recipe))


def choose(
    session: Session, line_name: str | None, recipe_name: str | None, pairs: list[str] | None
) -> Served:
    """Read inventory and recipe and join them.

    Raises:
        FileFault, UsageFault: something is written wrongly.
        Refused: the recipe is well formed and cannot be served on this line.

    """
    line = session.line(line_name)
    name = recipe_name or line.recipe
    if name is None:
        raise UsageFault(
            f"line {line.name} names no recipe in {line.source}, and none was given",
            hint="add `recipe: v41-flash-exl3-tp4` to the line's vars, or use --recipe",
        )
    recipe, engine = read_recipe(name)
    changed = overlay(recipe, settings(pairs), engine)
    demand_nodes(changed, line)
    return Served(line=line, recipe=changed, engine=engine, floors=_floors(line, changed))


def demand_nodes(recipe: Recipe, line: Line) -> None:
    """Refuse a recipe that wants another number of nodes than the line has.

    Raises:
        Refused: as above.

    """
    if recipe.nodes != len(line.nodes):
        parallel = recipe.parallel
        raise Refused(
            f"{recipe.name} wants {recipe.nodes} nodes (tensor {parallel.tensor} x pipeline {parallel.pipeline}); "
            f"line {line.name} has {len(line.nodes)}",
            hint="choose a recipe for this number of nodes (sparkctl recipes list), or set parallel.tensor",
        )


def accepted(line: Line, given: list[str] | None) -> frozenset[str]:
    """Return the gates that do not keep the line from booting: the inventory's and those of this call.

    Raises:
        UsageFault: there is no such gate.

    """
    from bootcheck import gates  # noqa: PLC0415  # a tenth of a second that a look at a recipe need not pay

    known = [gate.name for gate in gates.GATES]
    for names, where in (
        (line.accepted, f"{line.source}: accept of line {line.name}"),
        (given or (), "--accept"),
    ):
        for name in names:
            if name not in known:
                raise UsageFault(
                    f"{where}: {name!r} is not a gate; wanted one of {', '.join(known)}",
                    hint="docs/ritual.md lists the gates",
                )
    return frozenset((*line.accepted, *(given or ())))


def read_recipe(name: str) -> tuple[Recipe, EngineFacts]:
    """Read a recipe and the facts of its engine, and check the one against the other."""
    path = content.recipe(name)
    recipe = edge.structure(whole(path), Recipe, source=str(path))
    recipe = patch_files.bound(recipe, path)
    wanted, known = f"{recipe.engine.kind}-{recipe.engine.version}", content.engines()
    if wanted not in known:
        raise FileFault(
            f"{path}: $.engine.version: {wanted} is not an engine that sparkctl knows: {', '.join(known)}",
            hint="name a version that is known; what each accepts lies in recipes/engines/",
        )
    engine = edge.read(known[wanted], EngineFacts)
    faults = [
        f"$.args.{flag}: unknown key; {engine.engine} {engine.version} has no such flag"
        for flag in unknown_flags(recipe, engine)
    ]
    faults.extend(
        f"$.env.{name}: {fault}"
        for name, text in recipe.environment.items()
        for fault in placeholder_faults(text)
    )
    faults.extend(
        f"$.fork.args.{flag}: {engine.engine} {engine.version} has this flag; it belongs into args"
        for flag in released_flags(recipe, engine)
    )
    if faults:
        raise FileFault(
            "\n".join(f"{path}: {fault}" for fault in faults),
            hint="compare with a recipe that ships with sparkctl; docs/formats.md describes every key",
        )
    return recipe, engine


def whole(path: Path, above: tuple[Path, ...] = ()) -> object:
    """Return the recipe of a file as plain data; of one that differs from another (`base`), the whole that it means.

    Raises:
        FileFault: a file is missing or no YAML, or a recipe is its own base in the end.

    """
    own = edge.read_raw(path)
    if not isinstance(own, Mapping) or "base" not in own:
        return own
    if path.resolve() in above:
        raise FileFault(
            f"{path}: $.base: this recipe is its own base", hint="name the recipe that it differs from"
        )
    named = str(own["base"])
    is_path = "/" in named or named.endswith((".yml", ".yaml"))
    base = whole(path.parent / named if is_path else content.recipe(named), (*above, path.resolve()))
    return inherit.merged(base, own) if isinstance(base, Mapping) else base


def _floors(line: Line, recipe: Recipe) -> Floors:
    from_recipe = {"utilisation": recipe.memory.utilisation, "memory_free_gib": recipe.memory.free_floor_gib}
    judged = floors_module.override(Floors(), from_recipe, f"recipe {recipe.name}")
    return floors_module.override(judged, line.floors, f"inventory, line {line.name}")
