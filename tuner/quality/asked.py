"""What a quality run brings home: scores, answers with their marks, and what the server counted and said of itself."""

from dataclasses import dataclass

from tuner.counters import Counters
from tuner.quality.answers import Said
from tuner.quality.budget import Reply
from tuner.quality.logprobs import Scored
from tuner.quality.tasks import Marked, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What a server says of itself; '' or None where it does not."""

    version: str = ""
    started: str = ""
    """When its process started (ISO 8601, UTC): another time is another boot."""
    longest: int | None = None
    """Tokens of the longest request it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Tokens by the replies' usage blocks, and the server's own counters around them (None where it shows none)."""

    prompt: int
    made: int
    before: Counters | None
    after: Counters | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a run brought home. Tasks, answers and marks stand in the same order."""

    server: Server
    scored: tuple[Scored, ...]
    unscored: str
    """Why texts were not scored although it was asked for; '' otherwise."""
    tasks: tuple[Task, ...]
    said: tuple[Said, ...]
    marked: tuple[Marked, ...]
    skipped: tuple[str, ...]
    """Questions longer than what is served."""
    held: tuple[str, ...]
    """What kept answered programs in, see `sandbox`; () where none ran."""
    counted: Counted
    decoded: tuple[Reply, ...] = ()
    """Replies of both arms, where the battery has any made."""
    undecoded: str = ""
    """Why they were not made although it was asked for; '' otherwise."""
