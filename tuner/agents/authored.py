"""Our own agentic workload: sessions written by hand, read from `recipes/agents/<name>.yml`, with the model's real answers between.

A session is a list of turns; each brings what the user or a tool says next, after a pause. Its digest stands in every result, so that
figures of two workloads are never compared.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from tuner.workload import OWN_FIELDS, Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What is said to the model next, `wait_s` after its last answer; a tool's result names the tool."""

    who: Literal["user", "tool"]
    text: str
    max_tokens: int
    wait_s: float = 0.0
    tool: str = ""

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ValueError("the text is empty")
        if self.max_tokens < 2:
            raise ValueError(f"max_tokens is {self.max_tokens}, wanted at least 2 for a rate")
        if not 0 <= self.wait_s < math.inf:
            raise ValueError(f"wait_s is {self.wait_s}, wanted seconds of 0 or more")
        if (self.who == "tool") != bool(self.tool):
            raise ValueError("a tool's result names its tool, and nobody else does")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthoredSession:
    """One task from its first words to its end."""

    id: str
    about: str
    turns: tuple[Turn, ...]

    def __post_init__(self) -> None:
        if not self.turns or self.turns[0].who != "user" or self.turns[0].wait_s:
            raise ValueError(f"session {self.id}: begins with the user's task, without a wait")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentWorkload:
    """A whole file. `system` stands before every session; `shares_system` says whether sessions share its place in the cache.

    `body` joins every request's JSON, short of what a bench sets itself; `limit_s` bounds one request, in the line's seconds.
    """

    schema: Literal[1]
    name: str
    source: str
    limit_s: float
    system: str
    shares_system: bool
    sessions: tuple[AuthoredSession, ...]
    body: Mapping[str, Plain]

    def __post_init__(self) -> None:
        if not self.sessions or not self.system.strip():
            raise ValueError("wanted a system prompt and at least one session")
        if not 0 < self.limit_s < math.inf:
            raise ValueError(f"limit_s is {self.limit_s}, wanted seconds above 0")
        if own := OWN_FIELDS.intersection(self.body):
            raise ValueError(f"body: {', '.join(sorted(own))} is set by the bench itself")
        if len({one.id for one in self.sessions}) < len(self.sessions):
            raise ValueError("two sessions have the same id")


def digest(workload: AgentWorkload) -> str:
    """Return the SHA-256 (hex) of the workload's canonical JSON: sorted keys, no spaces, UTF-8."""
    text = json.dumps(asdict(workload), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
