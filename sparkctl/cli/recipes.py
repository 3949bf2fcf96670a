"""`sparkctl recipes`: which recipes ship, what one says in whole, and whether one of your own would be taken."""

from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from bootcheck import redact
from launcher import foreign
from launcher.recipe import EngineFacts, Recipe, digest
from sparkctl import content, edge
from sparkctl.cli.served import demand_nodes, read_recipe
from sparkctl.cli.session import LineOption, Session, verb
from sparkctl.console import Column
from sparkctl.errors import FileFault, UsageFault

app = typer.Typer(rich_markup_mode=None)

NEWEST = "vllm-0.33.0"
"""The engine that an imported recipe is written for."""

RecipeArgument = Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe that ships, or a path.")]


@app.command("list")
@verb
def list_recipes(session: Session) -> int:
    """List the recipes that ship with sparkctl."""
    found = [read_recipe(name)[0] for name in content.recipes()]
    session.console.table(
        (*(Column(title=one) for one in ("recipe", "nodes", "engine")), Column(title="about", fold=True)),
        [(one.name, str(one.nodes), f"{one.engine.kind} {one.engine.version}", one.about) for one in found],
    )
    session.console.answer({"recipes": [_row(one) for one in found]})
    return 0


def _row(recipe: Recipe) -> dict[str, Any]:
    return {
        "name": recipe.name,
        "about": recipe.about,
        "nodes": recipe.nodes,
        "engine": edge.plain(recipe.engine),
        "fork": recipe.fork.of if recipe.fork else None,
        "sources": list(recipe.sources),
        "known_to_fail": list(recipe.known_to_fail),
        "digest": digest(recipe),
    }


@app.command()
@verb
def show(session: Session, recipe: RecipeArgument) -> int:
    """Print a recipe in whole: also what it takes over from another, and every default."""
    found, _ = read_recipe(recipe)
    told = redact.document(edge.plain(found))
    session.console.show(yaml.safe_dump(told, sort_keys=False, allow_unicode=True, width=110).rstrip())
    session.console.answer({"recipe": told, "digest": digest(found)})
    return 0


@app.command()
@verb
def check(session: Session, recipe: RecipeArgument, line: LineOption = None) -> int:
    """Say whether a recipe is well formed; with --line also whether it fits that line."""
    found, engine = read_recipe(recipe)
    if line is not None:
        demand_nodes(found, session.line(line))
    fits = f", fits line {line}" if line else ""
    session.console.show(
        f"{found.name}: well formed for {engine.engine} {engine.version}, {found.nodes} nodes{fits}"
    )
    if found.fork:
        session.console.say(f"it needs a fork of the engine: {found.fork.of.strip()}")
    for text in found.known_to_fail:
        session.console.say(f"known to fail: {text.strip()}")
    session.console.answer({**_row(found), "ok": True})
    return 0


@app.command("import")
@verb
def import_recipe(
    session: Session,
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="A recipe of spark-vllm-docker or sparkrun (vLLM).")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write it there; without this it goes to stdout.")
    ] = None,
) -> int:
    """Read a foreign recipe into one of ours, and say what could not be carried over."""
    document = edge.read_raw(path)
    if not isinstance(document, dict):
        raise UsageFault(
            f"{path}: wanted a mapping of keys", hint="wanted a recipe of spark-vllm-docker or sparkrun"
        )
    engine = edge.read(content.engines()[NEWEST], EngineFacts)
    made = foreign.read(document, engine, path.name)
    text = yaml.safe_dump(made.recipe, sort_keys=False, allow_unicode=True, width=110)
    if output is None:
        session.console.show(text.rstrip())
    else:
        _write(output, text)
        read_recipe(str(output))
        session.console.show(f"{output}: {made.recipe['name']}; read it before you boot it")
    for one in made.left:
        session.console.say(f"left out: {one}")
    session.console.answer({"recipe": made.recipe, "left_out": list(made.left)})
    return 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise FileFault(
            f"{path}: cannot be written: {fault.strerror}", hint="name another file with -o"
        ) from fault
