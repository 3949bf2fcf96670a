"""Needs: what a recipe asks of each node of a line, as values that probes look for and gates compare with. Pure.

`launcher/needs.py` makes them; this package never sees a recipe.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """One file that the model's folder must hold: its size in bytes and its SHA-256; None or empty where not known."""

    size: int | None = None
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What every node must offer.

    `mounts` maps each bind source on the node to `path[:ro]` inside; `model_folder` is the model on the node, empty when
    no mount holds it. `environments` and `arguments` are what each rank will get, by node. `fabric_options` are the
    docker options that give a container the RDMA devices. `memory_gib` is the least that the rank of a node is predicted to
    hold, by node; empty where nothing is predicted.
    """

    image: str
    model_path: str
    model_folder: str
    mounts: Mapping[str, str]
    environments: Mapping[str, Mapping[str, str]]
    arguments: Mapping[str, tuple[str, ...]]
    fabric_options: tuple[str, ...] = ()
    shared_gib: int = 0
    files: Mapping[str, ModelFile] = field(default_factory=dict)
    memory_gib: Mapping[str, float] = field(default_factory=dict)

    @property
    def written(self) -> tuple[str, ...]:
        """Bind sources that a rank may write to: caches."""
        return tuple(source for source, inside in self.mounts.items() if not inside.endswith(":ro"))


NOTHING = Needs(image="", model_path="", model_folder="", mounts={}, environments={}, arguments={})
"""What no recipe asks: for a look at what nodes hold."""
