"""`sparkctl rehearse`: the practice cluster. The only place in the product that knows of it."""

from typing import Annotated

import typer

from rehearsal import cluster as practice_cluster
from rehearsal.cluster import Cluster
from sparkctl import edge, inventory
from sparkctl.cli.hold import holder
from sparkctl.cli.session import Session, verb
from sparkctl.console import Column
from sparkctl.errors import Refused, UsageFault

app = typer.Typer(rich_markup_mode=None)

DEFAULT_SCENARIO = "healthy"


def practice(session: Session, scenario: str | None, *, start: bool = True, restart: bool = True) -> Cluster:
    """Return the practice cluster of this state folder.

    One is started where `start` and none runs; one with another scenario is started anew where `restart`.
    """
    home = session.state / "rehearsal"
    running = practice_cluster.find(home)
    if running and (scenario in {None, running.scenario} or not restart):
        return running
    if not start:
        raise UsageFault(
            f"no practice cluster runs in {home}",
            hint="start one with sparkctl rehearse up, or boot --rehearsal",
        )
    practice_cluster.demand(scenario or DEFAULT_SCENARIO)
    _refuse_while_in_use(running)
    if running:
        session.console.say(f"restarting the practice cluster: {running.scenario} becomes {scenario}")
        practice_cluster.lower(home)
    with session.console.work("starting the practice cluster"):
        return practice_cluster.raise_cluster(home, scenario or DEFAULT_SCENARIO)


@app.command()
@verb
def up(
    session: Session,
    scenario: Annotated[str, typer.Option("--scenario", help="What the nodes show.")] = DEFAULT_SCENARIO,
    mended: Annotated[
        bool, typer.Option("--mended", help="Start anew, with the scenario's fault removed from the nodes.")
    ] = False,
) -> int:
    """Start practice nodes on this machine, four for each line of the scenario, or restart them with another."""
    practice_cluster.demand(scenario)
    if mended:
        home = session.state / "rehearsal"
        _refuse_while_in_use(practice_cluster.find(home))
        practice_cluster.lower(home)
        with session.console.work("starting the practice cluster"):
            found = practice_cluster.raise_cluster(home, scenario, mended=True)
    else:
        found = practice(session, scenario)
    session.console.show(
        f"practice cluster up: {', '.join(found.nodes)}; scenario {found.scenario}, pace {found.pace:g}x, simulated\n"
        f"inventory: {found.inventory}"
    )
    session.console.answer({"ok": True, "simulated": True, **edge.plain(_told(found))})
    return 0


@app.command()
@verb
def down(session: Session) -> int:
    """Stop the practice nodes and everything they started."""
    home = session.state / "rehearsal"
    _refuse_while_in_use(practice_cluster.find(home))
    practice_cluster.lower(home)
    session.console.show("practice cluster down: no process of it is left")
    session.console.answer({"ok": True, "simulated": True})
    return 0


@app.command()
@verb
def status(session: Session) -> int:
    """Say whether a practice cluster runs and what it shows."""
    found = practice_cluster.find(session.state / "rehearsal")
    if found is None:
        session.console.show("no practice cluster runs")
        session.console.answer({"ok": False, "simulated": True})
        return 1
    session.console.show(
        f"practice cluster up since {found.started}: scenario {found.scenario}, pace {found.pace:g}x, pid {found.pid}"
    )
    session.console.answer({"ok": True, "simulated": True, **edge.plain(_told(found))})
    return 0


@app.command()
@verb
def scenarios(session: Session) -> int:
    """List what the practice cluster can show."""
    known = practice_cluster.scenarios()
    session.console.table(
        (Column(title="scenario"), Column(title="what it shows", fold=True)),
        [(one.name, one.about) for one in known],
    )
    session.console.answer({"scenarios": [{"name": one.name, "about": one.about} for one in known]})
    return 0


def _refuse_while_in_use(running: Cluster | None) -> None:
    """Keep a cluster from being taken from under a boot, a bench or a climb."""
    lines = inventory.read(running.inventory).lines if running else ()
    if pid := next(filter(None, map(holder, lines)), ""):
        raise Refused(
            f"the practice line is in use by another sparkctl (pid {pid})",
            hint="wait until it is done, or stop it",
        )


def _told(found: Cluster) -> dict[str, object]:
    return {
        "scenario": found.scenario,
        "pace": found.pace,
        "seed": found.seed,
        "pid": found.pid,
        "nodes": list(found.nodes),
        "inventory": str(found.inventory),
        "started": found.started,
    }
