"""What every verb shares: the options each takes, the console, the state folder, the inventory, the clock.

`--rehearsal` swaps inventory and clock for those of the practice cluster, and marks what is written as simulated;
nothing below this file knows about it.
"""

import functools
import inspect
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from sparkctl import edge, inventory
from sparkctl.clock import Clock, PacedClock, system_clock
from sparkctl.console import Console, current
from sparkctl.errors import FileFault, Interrupted, UsageFault
from sparkctl.inventory import Inventory
from sparkctl.line import Line


@dataclass(slots=True, kw_only=True)
class Session:
    """The shared options of one call, and what follows from them."""

    console: Console
    state: Path
    inventory_path: Path
    clock: Clock = field(default_factory=system_clock)
    simulated: bool = False
    scenario: str | None = None
    pace: float | None = None

    def inventory(self) -> Inventory:
        """Read the inventory."""
        if not self.inventory_path.exists():
            raise FileFault(
                f"{self.inventory_path}: there is no such file",
                hint="copy inventory.example.yml and put in your addresses, or name another with -i or "
                "SPARKCTL_INVENTORY; --rehearsal needs none",
            )
        return inventory.read(self.inventory_path)

    def line(self, name: str | None) -> Line:
        """Return the line called `name`, or the only one."""
        line = self.inventory().line(name)
        if line.is_practice and not self.simulated:
            raise UsageFault(
                f"{self.inventory_path} is the inventory of a practice cluster, whose figures hold at its own pace only",
                hint="leave -i out and add --rehearsal, with the --state of that cluster",
            )
        return line

    @property
    def ledger_path(self) -> Path:
        """Where the ledger of this state folder lies."""
        return self.state / "ledger.jsonl"

    def new_id(self, noun: str) -> str:
        """Return a new name such as `boot-20261129-143000-3f2a`: sortable, and unique without a counter."""
        stamp = re.sub(r"[-:Z]", "", self.clock.today()).replace("T", "-")
        return f"{noun}-{stamp}-{uuid.uuid4().hex[:4]}"

    def rehearse(self, scenario: str | None, *, start: bool = True, restart: bool = True) -> None:
        """Work on the practice cluster from here on; see `rehearse.practice` for `start` and `restart`."""
        from sparkctl.cli import rehearse  # noqa: PLC0415  # the practice cluster loads only when wanted

        cluster = rehearse.practice(self, scenario, start=start, restart=restart)
        self.inventory_path = cluster.inventory
        self.clock = PacedClock(pace=cluster.pace)
        self.scenario, self.pace = cluster.scenario, cluster.pace
        self.simulated = True
        self.console.say(
            f"practice cluster, scenario {cluster.scenario}, pace {cluster.pace:g}x: everything here is simulated"
        )


def _shared(
    inventory_path: Annotated[
        Path,
        typer.Option("--inventory", "-i", envvar="SPARKCTL_INVENTORY", help="The inventory of your lines."),
    ] = Path("inventory.yml"),
    state: Annotated[
        Path, typer.Option("--state", help="Where the ledger and the practice cluster live.")
    ] = Path(".sparkctl"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Tell more on stderr.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Tell only results and errors.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colour.")] = False,
) -> Session:
    console = Console(json=as_json, quiet=quiet, verbose=verbose, color=not no_color)
    return Session(console=console, state=state, inventory_path=inventory_path)


def verb(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command the shared options and hand it a Session in their place.

    The command takes the session first, then its own options, and returns the exit code.
    """
    shared = inspect.signature(_shared).parameters
    own = list(inspect.signature(function).parameters.values())[1:]

    @functools.wraps(function)
    def run(**given: Any) -> int:
        session = _shared(**{name: given.pop(name) for name in shared})
        current.console = session.console
        try:
            return function(session, **given)
        except KeyboardInterrupt:
            # Here, since typer would make an exit code of its own of it.
            hint = "sparkctl status says what runs; tune --resume goes on with a climb"
            raise Interrupted("interrupted; what was done until then is kept", hint=hint) from None

    run.__signature__ = inspect.Signature([*own, *shared.values()], return_annotation=int)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in (*own, *shared.values())}
    return run


LineOption = Annotated[
    str | None, typer.Option("--line", help="Which line; needed when the inventory has several.")
]
RecipeOption = Annotated[
    str | None,
    typer.Option("--recipe", help="A recipe that ships with sparkctl, or a path; default: the line's."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one recipe key, such as memory.utilisation=0.8."),
]
RehearsalOption = Annotated[
    bool, typer.Option("--rehearsal", help="Work on the practice cluster of this machine.")
]
ScenarioOption = Annotated[
    str | None, typer.Option("--scenario", help="The practice cluster's scenario; see rehearse scenarios.")
]


def practise(
    session: Session, rehearsal: bool, scenario: str | None, *, start: bool = True, restart: bool = True
) -> None:
    """Turn to the practice cluster if asked to; a scenario alone is a mistake worth naming."""
    if rehearsal:
        session.rehearse(scenario, start=start, restart=restart)
    elif scenario is not None:
        raise UsageFault(
            "--scenario says what the practice cluster shows, and this is not one", hint="add --rehearsal"
        )


def settings(pairs: list[str] | None) -> dict[str, Any]:
    """Read `--set KEY=VALUE` options; values are YAML, so 8 is a number and "8" is text."""
    found: dict[str, Any] = {}
    for pair in pairs or ():
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise UsageFault(
                f"--set {pair}: wanted KEY=VALUE", hint="for example --set memory.utilisation=0.8"
            )
        if key in found:
            raise UsageFault(f"--set {key} is given twice", hint="give it once")
        found[key] = edge.parse_value(text, source=f"--set {pair}")
    return found
