"""`sparkctl images`: build the serving image on one node, stream it to the others, and say who has which."""

from typing import Annotated

import typer

from launcher.images import inputs as inputs_module
from launcher.images import ship, spread
from launcher.images.building import Job
from launcher.images.ship import Shipped
from sparkctl import ansible, edge
from sparkctl.cli import images_plan, images_shown, served
from sparkctl.cli.hold import hold
from sparkctl.cli.image_files import ImageFiles, find_files, read_files
from sparkctl.cli.session import LineOption, RecipeOption, RehearsalOption, Session, practise, verb
from sparkctl.errors import UsageFault
from sparkctl.line import Line, Network
from sparkctl.nearest import nearest
from sparkctl.units import duration, gib, times

app = typer.Typer(rich_markup_mode=None)

PlanOption = Annotated[
    bool, typer.Option("--plan", help="Print every step, node and command; touch nothing.")
]
ReferenceOption = Annotated[
    str | None, typer.Option("--image", help="Another image than the recipe's, as NAME:TAG.")
]
NetworkOption = Annotated[
    str | None,
    typer.Option("--over", help="fabric or management; default: where the recipe's ranks meet."),
]


@app.command()
@verb
def build(
    session: Session,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="IMAGE", help="An image that ships, or a path to an image.yml; default: the recipe's."
        ),
    ] = None,
    line: LineOption = None,
    recipe: RecipeOption = None,
    node: Annotated[str | None, typer.Option("--node", help="Where to build; default: the head.")] = None,
    base: Annotated[
        str | None, typer.Option("--base", metavar="NAME@sha256:...", help="The base image, by its digest.")
    ] = None,
    rehearsal: RehearsalOption = False,
    plan: PlanOption = False,
) -> int:
    """Build the serving image on one node, from inputs that its label names."""
    practise(session, rehearsal, None, restart=not plan)
    chosen = session.line(line)
    files = read_files(name) if name else _files_of(session, line, recipe)
    job = Job(
        manifest=files.manifest,
        inputs=inputs_module.gather(files.manifest, files.texts, base),
        texts=files.texts,
        node=_node(chosen, node),
    )
    if plan:
        return images_plan.show_build(session, chosen, job)
    with hold(chosen), session.console.work(f"building {files.manifest.image} on {job.node}"):
        ansible.end_orphans(chosen)
        ended = ship.build(chosen, job, session.console.progress)
    return _show_build(session, chosen, job, ended)


def _files_of(session: Session, line: str | None, recipe: str | None) -> ImageFiles:
    reference = served.choose(session, line, recipe, None).recipe.engine.image
    found = find_files(reference)
    if found is None:
        raise UsageFault(
            f"the recipe's image {reference} is none that sparkctl can build",
            hint="name one that ships, or a path to an image.yml of your own whose `image` is this name",
        )
    return found


def _node(line: Line, name: str | None) -> str:
    known = [one.name for one in line.nodes]
    if name is not None and name not in known:
        raise UsageFault(
            f"--node {name}: not a node of line {line.name}: {', '.join(known)}{nearest(name, known)}",
            hint="name one of these",
        )
    return name or line.head.name


def _show_build(session: Session, line: Line, job: Job, ended: Shipped) -> int:
    console, image, digest = session.console, job.manifest.image, job.inputs.digest
    if ended.fault:
        for text in ended.log:
            console.say(f"  | {text}")
        console.show(f"{image} was not built on {ended.node}: {ended.fault}")
        _hint(session, ended)
    elif ended.changed:
        console.show(
            f"{image} is built on {ended.node} in {duration(ended.seconds)}: {gib(ended.n_bytes)}, inputs {digest[:12]}"
        )
        console.say("sparkctl images sync brings it to the other nodes")
    else:
        console.show(f"{image} is on {ended.node} already, built from the same inputs {digest[:12]}")
    told = {"line": line.name, "image": image, "inputs": digest, "ok": not ended.fault}
    console.answer({**told, **edge.plain(ended), "simulated": session.simulated})
    return _code((ended,))


def _hint(session: Session, ended: Shipped) -> None:
    if ended.hint:
        session.console.say(f"\nhint: {ended.hint}")


def _code(ended: tuple[Shipped, ...]) -> int:
    faulty = [one for one in ended if one.fault]
    if not faulty:
        return 0
    return 3 if all(one.is_unclear for one in faulty) else 1


@app.command()
@verb
def sync(
    session: Session,
    line: LineOption = None,
    recipe: RecipeOption = None,
    image: ReferenceOption = None,
    source: Annotated[
        str | None, typer.Option("--from", metavar="NODE", help="Which node sends; needed when nodes differ.")
    ] = None,
    over: NetworkOption = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=1024, max=65535, help="Where the sender listens; default: drawn by chance."
        ),
    ] = None,
    rehearsal: RehearsalOption = False,
    plan: PlanOption = False,
) -> int:
    """Stream the image to the nodes that lack it, resumable and verified, without a file in between."""
    practise(session, rehearsal, None, restart=not plan)
    chosen = served.choose(session, line, recipe, None)
    network = _network(over, chosen.recipe.parallel.meet)
    reference = image or chosen.recipe.engine.image
    if plan:
        return images_plan.show_sync(session, chosen.line, reference, source, network, port)
    console = session.console
    with hold(chosen.line), console.work(f"looking for {reference}"):
        ansible.end_orphans(chosen.line)
        held = ship.look(chosen.line, reference, session.clock.today(), console.progress)
        decided = spread.spread(reference, held, source)
        ended: tuple[Shipped, ...] = ()
        if decided.receivers:
            console.say(
                f"{decided.source} sends {reference} ({gib(decided.n_bytes)}) to {', '.join(decided.receivers)} over the {network} network"
            )
            ended = ship.sync(chosen.line, decided, network, port or ship.port(), console.progress)
    return _show_sync(session, chosen.line, decided, ended)


def _network(over: str | None, meet: Network) -> Network:
    match over:
        case None:
            return meet
        case "fabric" | "management":
            return over
        case _:
            raise UsageFault(
                f"--over {over}: wanted fabric or management", hint="leave it out for the recipe's own"
            )


def _show_sync(session: Session, line: Line, plan: spread.Spread, ended: tuple[Shipped, ...]) -> int:
    console = session.console
    for one in ended:
        if one.fault:
            console.show(f"{one.node}: {one.fault}")
            _hint(session, one)
        elif one.node != plan.source:
            console.show(f"{one.node}: {_how(one)}")
    ok = not any(one.fault for one in ended)
    console.show(
        f"{plan.image} {spread.short(plan.content)} is on every node of line {line.name}"
        if ok
        else f"{plan.image} is not on every node of line {line.name}"
    )
    console.answer(
        {
            "line": line.name,
            "ok": ok,
            "image": plan.image,
            "content": plan.content,
            "source": plan.source,
            "equal": list(plan.equal),
            "nodes": [edge.plain(one) for one in ended],
            "simulated": session.simulated,
        }
    )
    return _code(ended)


def _how(one: Shipped) -> str:
    if not one.changed:
        return "had it already"
    rate = one.n_bytes / one.seconds / 1e9 if one.seconds else 0.0
    again = f", taken up again {times(one.breaks)}" if one.breaks else ""
    return f"{one.n_bytes / 1e9:.3f} GB in {duration(one.seconds)}, {rate:.2f} GB/s with docker's unpacking{again}"


@app.command()
@verb
def show(
    session: Session,
    line: LineOption = None,
    recipe: RecipeOption = None,
    image: ReferenceOption = None,
    manifest: Annotated[
        str | None,
        typer.Option(
            "--manifest",
            help="An image.yml of your own to compare the label with; default: the one that ships.",
        ),
    ] = None,
    rehearsal: RehearsalOption = False,
) -> int:
    """Say which nodes have the image, by content, and whether its label says what the manifest says."""
    practise(session, rehearsal, None, restart=False)
    chosen = served.choose(session, line, recipe, None)
    reference = image or chosen.recipe.engine.image
    files = read_files(manifest) if manifest else find_files(reference)
    with session.console.work(f"looking for {reference}"):
        found = ship.look(chosen.line, reference, session.clock.today(), session.console.progress)
    return images_shown.show_held(session, chosen.line, reference, files, found)
