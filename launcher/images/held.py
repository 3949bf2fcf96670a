"""Held: what each node of a line has of one image, by content. Pure.

The content of an image is what the gate `image-parity` compares, its layers in order and its own environment, and beside it the label
with the digest of its inputs: two builds of the same layers from other inputs are told apart. Its Id is none of it:
containerd's image store and the classic one name the same content differently, and save and load may change it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bootcheck import redact
from bootcheck.facts import NodeFacts, Unread
from bootcheck.probes.container import Image
from bootcheck.probes.software import Docker
from launcher.images.inputs import DIGEST

PROBES = frozenset({"image", "docker"})
"""Names of the probes that are read here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One image on one node; `fault` says why nothing is known of it, and an absent image has an empty content."""

    node: str
    content: str = ""
    n_bytes: int = 0
    layers: int = 0
    architecture: str = ""
    store: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    withheld: tuple[str, ...] = ()
    """Variables of the image whose values are withheld from us; of these the digest counts the name alone."""
    fault: str = ""
    hint: str = ""

    @property
    def is_present(self) -> bool:
        """Whether the node has an image of that name."""
        return bool(self.content)


def digest(layers: Sequence[str], env: Sequence[str], inputs: str) -> str:
    """Return the content digest: SHA-256 of the canonical JSON of layers in order, environment by name, and inputs label."""
    content = {"env": sorted(env), "inputs": inputs, "layers": list(layers)}
    told = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(told.encode()).hexdigest()}"


def read(facts: NodeFacts) -> Held:
    """Return what one node's facts say of the image that was asked for."""
    if not facts.is_known:
        return Held(node=facts.node, fault=facts.unreachable or facts.failed, hint=facts.hint)
    image, docker = facts.one(Image), facts.one(Docker)
    if isinstance(image, Unread):
        return Held(
            node=facts.node,
            fault=f"docker image inspect: {image.why}",
            hint="see whether docker runs on the node and whether this login may use it",
        )
    withheld = tuple(one.partition("=")[0] for one in image.env if redact.WITHHELD in one)
    env = [f"{one.partition('=')[0]}=" if redact.WITHHELD in one else one for one in image.env]
    store = "" if isinstance(docker, Unread) else docker.store
    if not image.is_present:
        return Held(node=facts.node, store=store)
    return Held(
        node=facts.node,
        content=digest(image.layers, env, image.labels.get(DIGEST, "")),
        n_bytes=image.n_bytes,
        layers=len(image.layers),
        architecture=image.architecture,
        store=store,
        labels=image.labels,
        withheld=withheld,
    )


def contents(held: Sequence[Held]) -> dict[str, tuple[str, ...]]:
    """Return which nodes hold which content, in the order of the nodes."""
    found: dict[str, tuple[str, ...]] = {}
    for one in held:
        if one.is_present:
            found[one.content] = (*found.get(one.content, ()), one.node)
    return found
