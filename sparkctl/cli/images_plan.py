"""`sparkctl images build --plan` and `sync --plan`: every step, node and command, in order; nothing is touched."""

import shlex
from collections.abc import Iterator, Mapping

from bootcheck import redact
from launcher.images import building
from launcher.images.building import Job
from sparkctl.cli.session import Session
from sparkctl.errors import UsageFault
from sparkctl.line import Line, Network
from sparkctl.nearest import nearest

Step = tuple[str, str, tuple[str, ...], tuple[str, ...]]
"""Stage, what it is for, nodes, what each does."""


def show_build(session: Session, line: Line, job: Job) -> int:
    """Print what a build would do."""
    manifest, inputs, node = job.manifest, job.inputs, job.node
    argv = redact.argv(building.argv(manifest, inputs))
    context = ", ".join(f"{name} ({digest[:12]})" for name, digest in inputs.files.items())
    steps: tuple[Step, ...] = (
        (
            "look",
            "an image of the same inputs stays; the node must be of the image's machine and docker have room",
            (node,),
            (
                f"docker image inspect {manifest.image}",
                "docker info --format '{{json .}}'",
                f"df --block-size=1 --output=avail, wanted {manifest.space_gib:g} GiB in docker's folder",
            ),
        ),
        (
            "build",
            "the context comes over the wire as a tar archive; no file is left on the node",
            (node,),
            (f"context: {context}", shlex.join(argv)),
        ),
        (
            "verify",
            "the label must have the digest of the inputs",
            (node,),
            (f"docker image inspect {manifest.image}",),
        ),
    )
    told = {"image": manifest.image, "inputs": inputs.digest, "base": inputs.base, "argv": list(argv)}
    return _show(session, line, steps, told)


def show_sync(
    session: Session, line: Line, image: str, source: str | None, network: Network, port: int | None
) -> int:
    """Print what a sync would do; who has the image is found out on the nodes, and a plan touches none."""
    names = tuple(node.name for node in line.nodes)
    if source is not None and source not in names:
        raise UsageFault(
            f"--from {source}: not a node of the line: {', '.join(names)}{nearest(source, names)}",
            hint="name one of these",
        )
    at = f"port {port or 'drawn by chance from 20000 to 29999'}"
    sender = source or "the first node that has it, when all that have it have the same"
    steps: tuple[Step, ...] = (
        (
            "look",
            "layers and environment are the content; whoever has the sender's is left alone",
            names,
            (f"docker image inspect --format '{{{{json .}}}}' {image}", "docker info --format '{{json .}}'"),
        ),
        (
            "send",
            f"{sender}; only callers that prove this run's secret are answered",
            (source,) if source else names,
            tuple(_sends(line, image, source, network, at)),
        ),
        (
            "receive",
            "each node that lacks it, all at once; a stream that breaks is taken up where it broke",
            tuple(name for name in names if name != source),
            tuple(_receives(line, source, network, at)),
        ),
        (
            "verify",
            "the stream's SHA-256 on both ends, then the content on each receiver",
            tuple(name for name in names if name != source),
            (f"docker image inspect {image}",),
        ),
    )
    return _show(session, line, steps, {"image": image, "source": source, "over": network})


def _sends(line: Line, image: str, source: str | None, network: Network, at: str) -> Iterator[str]:
    for node in line.nodes:
        if source in {None, node.name}:
            yield f"{node.name}: docker save {image}, served at {node.address_on(network)} {at}"


def _receives(line: Line, source: str | None, network: Network, at: str) -> Iterator[str]:
    by_name = {node.name: node for node in line.nodes}
    there = by_name[source].address_on(network) if source else "the sender's address"
    for node in line.nodes:
        if node.name != source:
            yield f"{node.name}: from {node.address_on(network)} to {there} {at}, into docker load"


def _show(session: Session, line: Line, steps: tuple[Step, ...], told: Mapping[str, object]) -> int:
    for stage, about, nodes, does in steps:
        session.console.show(f"{stage}: {about} ({', '.join(nodes)})")
        for text in does:
            session.console.show(f"  {text}")
    rows = [
        {"stage": stage, "about": about, "nodes": list(nodes), "does": list(does)}
        for stage, about, nodes, does in steps
    ]
    session.console.answer({"line": line.name, **told, "steps": rows, "simulated": session.simulated})
    return 0
