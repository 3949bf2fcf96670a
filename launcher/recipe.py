"""Recipe: how one model is served by one engine over a line, as values. Pure; docs/formats.md describes the file."""

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from launcher import counts, evidence, experts
from launcher.engram import VARIABLES, Engram
from launcher.experts import Budget, Exl3
from launcher.progress import Stage
from launcher.watermark import Mode
from sparkctl.line import Network

Argument = str | int | float | bool | list[Any] | dict[str, Any]

MOST_SEQUENCES = 4096
"""Sequences in a batch: vLLM's own default on the largest GPUs is 1024. Keeps a slip of the finger a message."""

MOST_DRAFTED = 64
"""Tokens that a drafter may propose a step: public recipes use 1 to 10."""

_IMAGE = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._/:@-]*$")

# Flags that command.py derives from other sections or from the inventory: a recipe that gives them too would give
# one thing in two places.
DERIVED_FLAGS = frozenset(
    {
        "tensor-parallel-size",
        "pipeline-parallel-size",
        "data-parallel-size",
        "data-parallel-backend",
        "distributed-executor-backend",
        "nnodes",
        "node-rank",
        "master-addr",
        "master-port",
        "headless",
        "host",
        "port",
        "served-model-name",
        "gpu-memory-utilization",
        "kv-cache-memory-bytes",
        "speculative-config",
        "compilation-config",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What is served: the folder inside the container (the same on every rank) and the name clients use."""

    path: str
    served_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Which engine, and the image it runs from. The image must hold the same layers on every rank."""

    kind: Literal["vllm"]
    version: str
    image: str
    patches: str | None = None
    """Folder of a patch set, relative to the recipe; what it binds joins `container.mounts` and `inside` when the recipe is read."""

    def __post_init__(self) -> None:
        if not _IMAGE.match(self.image):
            raise ValueError(f"image: wanted the name of a container image, found {self.image!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """How the model is cut and copied over the nodes; `tensor` times `pipeline` times `data` must be the number of nodes."""

    tensor: int
    pipeline: int = 1
    data: int = 1
    """Copies of the model that share the requests; over nodes that takes Ray (vLLM's mp wants each copy told its place)."""
    backend: Literal["mp", "ray"] = "mp"
    meet: Network = "fabric"
    """By which of the head's addresses the ranks meet; in a ring the node opposite has no way to its fabric address."""

    def __post_init__(self) -> None:
        if min(self.tensor, self.pipeline, self.data) < 1:
            found = f"{self.tensor}, {self.pipeline} and {self.data}"
            raise ValueError(f"tensor, pipeline and data: wanted at least 1, found {found}")
        if self.data > 1 and self.backend != "ray":
            raise ValueError(
                f"data: {self.data} copies of the model over nodes want backend ray, found {self.backend}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory plan of a rank, in GiB; `kv_cache_gib` pins the KV cache to the same size on every rank."""

    utilisation: float
    free_floor_gib: float
    kv_cache_gib: float | None = None
    container_gib: int = 112
    shared_gib: int = 16
    guard: Mode = "enforce"
    """Whether the guard stops every rank at its floor, or only tells, so that an owner can learn a floor."""

    def __post_init__(self) -> None:
        if not 0 < self.utilisation <= 1:
            raise ValueError(f"utilisation: wanted a share above 0 and at most 1, found {self.utilisation}")
        if self.kv_cache_gib is not None and self.kv_cache_gib <= 0:
            raise ValueError(f"kv_cache_gib: wanted more than 0, found {self.kv_cache_gib}")
        if self.container_gib < 1 or self.shared_gib < 1:
            found = f"{self.container_gib} and {self.shared_gib}"
            raise ValueError(f"container_gib and shared_gib: wanted at least 1, found {found}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculative:
    """Speculative decoding: the drafter and how many tokens it proposes a step."""

    method: str
    tokens: int
    draft_sample_method: Literal["greedy", "probabilistic"] = "greedy"
    rejection_sample_method: Literal["standard", "block"] = "standard"
    enable_adaptive_verification: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.tokens <= MOST_DRAFTED:
            raise ValueError(f"tokens: wanted 1 to {MOST_DRAFTED}, found {self.tokens}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphs:
    """CUDA graphs; the sizes to capture follow from the sequences and the drafted tokens."""

    mode: Literal["NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What the container of a rank may use; `mounts` maps a path on the node to `path[:ro]` inside."""

    mounts: Mapping[str, str]
    devices: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    ulimits: Mapping[str, str] = field(default_factory=dict)
    oom_score_adj: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """How often to look whether the line is ready, and how long a rank may be silent in a stage, in the line's seconds.

    `silence_s` replaces single limits of `launcher/progress.py`; there is no limit on a whole boot.
    """

    poll_s: float = 10.0
    silence_s: Mapping[Stage, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.poll_s <= 0:
            raise ValueError(f"poll_s: wanted more than 0, found {self.poll_s}")
        for stage, seconds in self.silence_s.items():
            if not 0 < seconds < float("inf"):
                raise ValueError(f"silence_s.{stage}: wanted a number above 0, found {seconds}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """What only a fork of the engine knows: the released engine ignores these variables and refuses these flags.

    `of` names the fork. They stand apart so that a reader sees what a recipe needs beyond the engine's release.
    """

    of: str
    args: Mapping[str, Argument] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to serve one model; `overlay` is the only way in which anything changes it."""

    schema: Literal[1]
    name: str
    about: str
    sources: tuple[str, ...]
    model: Model
    engine: Engine
    parallel: Parallel
    memory: Memory
    container: Container
    args: Mapping[str, Argument]
    env: Mapping[str, str]
    speculative: Speculative | None = None
    graphs: Graphs | None = None
    budget: Budget = field(default_factory=Budget)
    engram: Engram = field(default_factory=Engram)
    exl3: Exl3 = field(default_factory=Exl3)
    fork: Fork | None = None
    ready: Ready = field(default_factory=Ready)
    expects: Mapping[str, str] = field(default_factory=dict)
    """What every rank's log must prove before the line counts as ready: by the name of a proof (launcher/evidence.py) a text in it."""
    inside: Mapping[str, str] = field(default_factory=dict)
    """Files of the container that must have this SHA-256 on every rank, by path; read there after the start."""
    known_to_fail: tuple[str, ...] = ()
    """What is known to go wrong with it, each with where that was reported."""

    def __post_init__(self) -> None:
        doubled = sorted(DERIVED_FLAGS & self.flags.keys())
        if doubled:
            raise ValueError(f"args: {', '.join(doubled)} follow from other sections; take them out of args")
        if no_count := counts.wrong(self.args):
            raise ValueError(f"args: {no_count}")
        if self.graphs and self.max_num_seqs is None:
            wanted = f"a whole number from 1 to {MOST_SEQUENCES}"
            raise ValueError(f"args: max-num-seqs must be {wanted}: the graph sizes follow from it")
        told = sorted(self.env.keys() & (experts.VARIABLES | VARIABLES))
        if told:
            raise ValueError(
                f"env: {', '.join(told)} follow from budget, engram and exl3; take them out of env"
            )
        twice = (
            sorted(self.fork.args.keys() & self.args.keys() | self.fork.env.keys() & self.env.keys())
            if self.fork
            else []
        )
        if twice:
            raise ValueError(f"fork: {', '.join(twice)} stands outside of fork too; give it once")
        strange = sorted(self.expects.keys() - evidence.NAMES)
        if strange:
            wanted = ", ".join(sorted(evidence.NAMES))
            raise ValueError(f"expects: no log proves {', '.join(strange)}; wanted some of {wanted}")
        nul = [name for name, text in self.environment.items() if "\0" in text]
        if nul:
            raise ValueError(f"env: {', '.join(nul)} holds a NUL character, which no environment can")

    @property
    def flags(self) -> dict[str, Argument]:
        """Every flag that the recipe gives by name, those of a fork and those that budget reads want among them."""
        return {**self.budget.flags, **self.args, **(self.fork.args if self.fork else {})}

    @property
    def environment(self) -> dict[str, str]:
        """Every variable of a rank's environment, those of a fork among them; placeholders are not filled in."""
        fork = self.fork.env if self.fork else {}
        plugged = {**self.budget.environment, **self.engram.environment, **self.exl3.environment}
        return {**self.env, **fork, **plugged}

    @property
    def proofs(self) -> dict[str, str]:
        """What every rank's log must prove: what the recipe expects, and what of the plug-in it asks for: that is never a fork's wording."""
        budget = {"budget": "on, plan"} if self.budget.plan else {}
        return {**budget, **self.expects, **self.engram.proofs, **self.exl3.proofs}

    @property
    def max_num_seqs(self) -> int | None:
        """Most sequences in one batch."""
        value = self.args.get("max-num-seqs")
        return value if type(value) is int and 1 <= value <= MOST_SEQUENCES else None

    @property
    def nodes(self) -> int:
        """How many nodes this recipe wants."""
        return self.parallel.tensor * self.parallel.pipeline * self.parallel.data


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What an engine of one version accepts, read from its wheel: recipes/engines/<kind>-<version>.yml."""

    schema: Literal[1]
    engine: str
    version: str
    source: str
    flags: tuple[str, ...]


def digest(recipe: Recipe) -> str:
    """Return the SHA-256 of the recipe's canonical JSON, as 64 hex digits."""
    text = json.dumps(dataclasses.asdict(recipe), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def unknown_flags(recipe: Recipe, facts: EngineFacts) -> tuple[str, ...]:
    """Return the flags of `args` that this version of the engine does not know; those of a fork are not its business."""
    return tuple(sorted(recipe.args.keys() - set(facts.flags)))


def released_flags(recipe: Recipe, facts: EngineFacts) -> tuple[str, ...]:
    """Return the flags that the recipe calls a fork's although this version of the engine knows them."""
    return tuple(sorted(recipe.fork.args.keys() & set(facts.flags))) if recipe.fork else ()
