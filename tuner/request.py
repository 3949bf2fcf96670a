"""What a bench brings home: one value for each request, and the bench as a whole."""

from dataclasses import dataclass

from tuner.bracket import Bracket
from tuner.counters import Counters
from tuner.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One finished request.

    `sent_s` counts from the start of the bench; `ttft_s` and `total_s` count from the sending to the arrival of the
    first and of the last token, all in the line's seconds. Token counts are the server's usage block and None where
    it gave none. `fault` is empty when all is well.
    """

    cell: str
    round: int
    stream: int
    prompt: str
    tag: str
    sent_s: float
    ttft_s: float
    total_s: float
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    finish_reason: str
    text: str
    fault: str = ""
    first_tokens: int = 1
    """How many tokens had come at `ttft_s`, see `tuner.stream`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """All requests of one run of a workload, in the order of sending.

    `seconds` is the duration in the line's seconds; `client_cpu_share` is this process's CPU time over wall time (of
    one core): near 1 the client was the bottleneck and its figures are its own.
    """

    workload: Workload
    workload_digest: str
    run_tag: str
    started: str
    seconds: float
    client_cpu_share: float
    requests: tuple[Request, ...]
    before: Counters | None = None
    """The server's own counters when it began, None where it shows none."""
    after: Counters | None = None
    """The same when every request had ended."""
    brackets: tuple[Bracket, ...] = ()
    """The line before the first cell and after each; shorter where the bench broke off."""

    def of(self, cell: str) -> tuple[Request, ...]:
        """Return the requests of one cell, in the order of sending."""
        return tuple(request for request in self.requests if request.cell == cell)
