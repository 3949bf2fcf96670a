"""`sparkctl patches`: say what a patch set is, and bring its files to every node of a line."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bootcheck import redact
from launcher.patchset import PatchSet, digest
from sparkctl import ansible, content, edge
from sparkctl.ansible import Answer
from sparkctl.cli import patch_files, served
from sparkctl.cli.hold import hold
from sparkctl.cli.session import LineOption, RecipeOption, Session, practise, verb
from sparkctl.console import Column
from sparkctl.errors import UsageFault
from sparkctl.line import Line

app = typer.Typer(rich_markup_mode=None)


@app.command()
@verb
def show(
    session: Session,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="The folder with patch-set.yml.")],
) -> int:
    """Say what a patch set lays over the image and why, after holding its files against their hashes."""
    patches = patch_files.read(Path(folder))
    console = session.console
    console.table(
        (
            Column(title="file"),
            Column(title="target", fold=True),
            Column(title="why", fold=True),
            Column(title="upstream", fold=True),
        ),
        [(one.file, one.target, one.why, one.upstream) for one in patches.patches],
    )
    console.show(
        f"{patches.name}: {len(patches.patches)} files for {patches.engine} {', '.join(patches.versions)}, as {patches.place} on the nodes"
    )
    console.answer({"ok": True, "digest": digest(patches), "place": patches.place, **edge.plain(patches)})
    return 0


@app.command()
@verb
def sync(
    session: Session,
    line: LineOption = None,
    recipe: RecipeOption = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print every step, node and command; touch nothing.")
    ] = False,
) -> int:
    """Bring the recipe's patch set to every node; files that are there already are left alone."""
    practise(session, False, None, start=False)
    chosen = served.choose(session, line, recipe, None)
    path = content.recipe(recipe or chosen.line.recipe or "")
    folder = patch_files.folder_of(chosen.recipe, path)
    if folder is None:
        raise UsageFault(
            f"the recipe {chosen.recipe.name} names no patch set", hint="engine.patches names its folder"
        )
    patches = patch_files.read(folder)
    console = session.console
    if plan:
        for node in chosen.line.nodes:
            console.show(f"{node.name}: make {patches.place}")
            for one in patches.patches:
                console.show(
                    f"{node.name}: copy {folder / one.file} to {patches.place}/{one.file} (SHA-256 {one.sha256})"
                )
        return 0
    with hold(chosen.line), console.work(f"bringing {patches.name} to line {chosen.line.name}"):
        ansible.end_orphans(chosen.line)
        answers = ansible.run(
            "patch",
            chosen.line,
            variables(patches, folder),
            report=lambda one: console.progress(ansible.describe(one)),
        )
    return _show(session, chosen.line, patches, answers)


def variables(patches: PatchSet, folder: Path) -> dict[str, object]:
    """Return what patch.yml needs."""
    files = [
        {"source": str((folder / one.file).resolve()), "name": one.file, "sha256": one.sha256}
        for one in patches.patches
    ]
    return {"patch_folder": patches.place, "patch_files": files}


def _show(session: Session, line: Line, patches: PatchSet, answers: tuple[Answer, ...]) -> int:
    console = session.console
    # Nodes by rank, not as they answered.
    rows: dict[str, dict[str, Any]] = {
        node.name: {"node": node.name, "changed": False, "fault": "", "hint": ""} for node in line.nodes
    }
    for one in answers:
        row = rows[one.host]
        row["changed"] = row["changed"] or one.changed
        if one.status in {"failed", "unreachable"}:
            said, hint = ansible.explain(one)
            row |= {"fault": redact.text(said), "hint": hint, "unclear": one.status == "unreachable"}
    faulty = [row for row in rows.values() if row["fault"]]
    for row in rows.values():
        told = row["fault"] or ("brought there" if row["changed"] else "there already")
        console.show(f"{row['node']}: {told}")
    for hint in {row["hint"]: None for row in faulty if row["hint"]}:
        console.say(f"\nhint: {hint}")
    if not faulty:
        console.show(f"{patches.name} lies in {patches.place} on every node of line {line.name}")
    console.answer(
        {"line": line.name, "ok": not faulty, "place": patches.place, "nodes": list(rows.values())}
    )
    if not faulty:
        return 0
    return 3 if all(row.get("unclear") for row in faulty) else 1
