"""Proving: the whole log of every rank of a line that answers, and whether it is what the recipe expects. I/O joined with pure judges."""

from collections.abc import Mapping
from dataclasses import replace

from launcher import ending, evidence, tails
from launcher.command import RankCommand
from launcher.outcome import Outcome
from launcher.recipe import Recipe
from sparkctl import unreachable
from sparkctl.line import Line
from sparkctl.shell import Shell


def prove(
    shell: Shell, line: Line, recipe: Recipe, commands: tuple[RankCommand, ...], sought: tuple[str, ...]
) -> Outcome:
    """Return what the ranks' logs prove; `unclear` when one could not be read, a fault when it is not what the recipe expects."""
    logs = dict[str, tuple[str, ...]]()
    for said in tails.ask_whole(shell, {one.node: one.name for one in commands}):
        if said.rc != 0:
            text, hint = unreachable.say(said.stderr, answered=said.rc is not None)
            fault = f"its rank's log cannot be read: {text}"
            return Outcome(fault=fault, node=said.node, hint=hint, unclear=True)
        logs[said.node] = tuple((said.stdout + said.stderr).splitlines())
    own = frozenset(one.node for one in commands if one.speaks)
    return _inside(shell, recipe, commands) or judge(line, recipe, logs, own, sought)


def _inside(shell: Shell, recipe: Recipe, commands: tuple[RankCommand, ...]) -> Outcome | None:
    """Ask every rank from inside its container for the files that the recipe wants there; None when all have them."""
    if not recipe.inside:
        return None
    paths = sorted(recipe.inside)
    for said in shell.run_each(
        {one.node: ("docker", "exec", one.name, "sha256sum", "--", *paths) for one in commands}
    ):
        if said.rc is None:
            text, hint = unreachable.say(said.stderr)
            return Outcome(fault=f"its rank cannot be asked: {text}", node=said.node, hint=hint, unclear=True)
        wrong = evidence.wrong_files(said.stdout, recipe.inside)
        if wrong:
            seen = said.stderr.strip().splitlines()[-1:] if said.rc else []
            return Outcome(
                fault=f"inside its container {'; '.join((wrong[0], *seen))}",
                node=said.node,
                hint="the mount did not take, or the image has another file there: compare container.mounts, the patch set "
                "(sparkctl patches sync) and the image of the ranks (sparkctl check)",
            )
    return None


def judge(
    line: Line,
    recipe: Recipe,
    logs: Mapping[str, tuple[str, ...]],
    own: frozenset[str],
    sought: tuple[str, ...],
) -> Outcome:
    """Judge the logs: not what the recipe expects, or what makes the line serve slowly or wrongly, is a fault.

    What the recipe expects is asked of the nodes in `own`, whose logs tell what their rank does.
    """
    found = {node: evidence.read(log) for node, log in logs.items()}
    remarks = ending.remarks(logs)
    proven = Outcome(
        evidence=found,
        found=evidence.seen(logs, sought),
        remarks=tuple(f"{one.said}: {one.hint}" for one in remarks),
    )
    asked = {node: values for node, values in found.items() if node in own}
    unmet = evidence.unmet(asked, recipe.proofs, recipe.engine.version, line.head.name)
    if unmet:
        return replace(proven, fault=unmet.said, node=unmet.node, hint=unmet.hint, remarks=())
    spoils = next((one for one in remarks if one.is_fault), None)
    if spoils:
        node = next(node for node, log in logs.items() if spoils in ending.remarks({node: log}))
        return replace(proven, fault=spoils.said, node=node, hint=spoils.hint, remarks=())
    return proven
