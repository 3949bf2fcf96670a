"""Asking: the questions that a line must answer sensibly before it counts as ready: one after the other, then as many as it takes. I/O."""

from launcher import api
from launcher.outcome import Outcome
from launcher.recipe import Recipe
from launcher.smoke import BURST, MOST_AT_ONCE, SMOKES, TOOL, Smoke, Smoked, burst
from sparkctl.clock import Clock
from sparkctl.line import Line

_BISECT = "bisect: first without speculation, then with graphs.mode NONE"


def smokes(recipe: Recipe) -> tuple[Smoke, ...]:
    """Return the questions that this recipe's line is asked; a tool only where the engine reads tool calls."""
    calls_tools = recipe.flags.get("enable-auto-tool-choice") is True and "tool-call-parser" in recipe.flags
    return (*SMOKES, TOOL) if calls_tools else SMOKES


def at_once(recipe: Recipe) -> int:
    """Return how many requests the burst sends: as many as one batch holds."""
    return min(recipe.max_num_seqs or MOST_AT_ONCE, MOST_AT_ONCE)


def ask(line: Line, recipe: Recipe, clock: Clock) -> Outcome:
    """Ask the smokes one by one, then the first of them as often at once as a batch holds."""
    name = recipe.model.served_name
    smoked = tuple(api.ask(line, name, (one,), clock)[0] for one in smokes(recipe))
    failed = next((one for one in smoked if one.fault), None)
    if failed:
        return Outcome(
            fault=f"smoke {failed.name}: {failed.fault}; it said {failed.reply[:40]!r}",
            node=line.head.name,
            hint="the line serves but does not answer sensibly: undo the last change, and compare image and patches; then "
            f"{_BISECT}",
            smokes=smoked,
        )
    asked = api.ask(line, name, burst(BURST, at_once(recipe)), clock)
    return _crowded(line, smoked, asked)


def _crowded(line: Line, smoked: tuple[Smoked, ...], asked: tuple[Smoked, ...]) -> Outcome:
    wrong = [one for one in asked if one.fault]
    if not wrong:
        return Outcome(smokes=(*smoked, Smoked(name=asked[0].name, fault="", reply=asked[0].reply)))
    first = wrong[0]
    return Outcome(
        fault=f"{len(wrong)} of {len(asked)} requests at once were answered wrongly, alone it was right; the first: {first.fault}; "
        f"it said {first.reply[:40]!r}",
        node=line.head.name,
        hint=f"kernels or graphs of larger batches are wrong: {_BISECT}; args.max-num-seqs is how many it takes at once",
        smokes=(*smoked, first),
    )
