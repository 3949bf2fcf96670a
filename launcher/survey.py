"""Survey: what a look at the nodes of a line rests on, and the scene that the gates judge afterwards."""

from bootcheck import collect
from bootcheck.facts import Bundle, Context
from bootcheck.floors import Floors
from bootcheck.gates.gate import Scene
from launcher.capacity.memory import Table
from launcher.needs import needs
from launcher.recipe import Recipe
from sparkctl import __version__
from sparkctl.line import Line


def context(  # noqa: PLR0913, PLR0917 - what a look rests on
    line: Line,
    recipe: Recipe,
    floors: Floors,
    at: str,
    left_out: frozenset[str] = frozenset(),
    memory: Table | None = None,
) -> Context:
    """Return what a look at the nodes rests on; probes that cost minutes are left out unless asked for."""
    return Context(
        at=at,
        version=__version__,
        line=line,
        needs=needs(recipe, line, memory),
        floors=floors,
        left_out=tuple(sorted(left_out)),
    )


def scene(bundle: Bundle) -> Scene:
    """Return what the gates judge."""
    known = bundle.context
    return Scene(line=known.line, needs=known.needs, facts=collect.facts(bundle), floors=known.floors)
