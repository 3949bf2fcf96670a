"""What a replay brings home: one value for each call, one for each session, and a level of so many live sessions as a whole."""

from dataclasses import dataclass
from typing import Literal

from tuner.agents.session import Load
from tuner.counters import Counters

End = Literal["ended", "cut", "failed"]
"""Of a session: all its calls were made; the level's time was up, or another session failed; one of its own calls failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One call that was made.

    `due_s`, `sent_s` and `ended_s` count from the start of the level, `ttft_s` and `total_s` from the sending, all in the line's
    seconds. Token counts are the server's usage block and None where it gave none. `fault` is empty when all is well.
    """

    copy: int
    session: str
    i: int
    agent: str
    due_s: float
    sent_s: float
    ended_s: float
    ttft_s: float
    total_s: float
    max_tokens: int
    planned_tokens: int | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    finish_reason: str
    text: str
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRun:
    """One copy of a session: when it began and was over, from the start of the level, and how it ended."""

    copy: int
    session: str
    began_s: float
    ended_s: float
    end: End


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """All calls of `live` sessions at a time, in the order in which they were answered.

    `seconds` is the duration in the line's seconds; `client_cpu_share` is this process's CPU time over wall time (of one core).
    """

    load: Load
    live: int
    run_tag: str
    started: str
    seconds: float
    idle_cap_s: float
    most_s: float | None
    characters_a_token: float | None
    client_cpu_share: float
    exchanges: tuple[Exchange, ...]
    sessions: tuple[SessionRun, ...]
    before: Counters | None = None
    after: Counters | None = None
