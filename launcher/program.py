"""Program: what the container of a rank runs, as an engine's module says it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The container's entry point and the arguments it gets; no shell parses them.

    `env` are variables that follow from how it is run. `drawn` are those that hold one secret, drawn anew for each launch and the same
    on every rank, by which the ranks know each other. `speaks` says whether its log tells what the rank does, or the head's does.
    """

    entrypoint: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    drawn: tuple[str, ...] = ()
    speaks: bool = True
