"""Canary: one token of a line that serves, asked for now and then. I/O, and the pure verdict on it.

A green /health and living containers do not prove that the engine behind them still answers: with a rank gone /health stayed 200 while
the next request failed (seen with vLLM 0.32, tests/engine; local-inference-lab/b12x#313, reported).
"""

from dataclasses import dataclass, replace

from launcher import api
from launcher.status import Verdict
from sparkctl.clock import Clock
from sparkctl.line import Line

EVERY_S = 120.0
"""Least time between two, in the line's seconds: at most two tokens in two minutes, so that nobody's figures suffer."""

LIMIT_S = 90.0
"""How long its answer may take, behind a long prefill of somebody else (the watchdog of tsw2k/Deepseek-4.1-Flash-Quad-DGX-Sparks,
reported)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """How it ended: `fault` is empty when a token came; `seconds` are the line's."""

    fault: str
    seconds: float


def ask(line: Line, model: str, clock: Clock) -> Canary:
    """Ask for one token."""
    began = clock.monotonic_s()
    fault = api.complete(line, model, clock, LIMIT_S)
    return Canary(fault=fault, seconds=clock.monotonic_s() - began)


def judge(verdict: Verdict, canary: Canary) -> Verdict:
    """Return the verdict on a line that serves, in the light of its canary."""
    if not canary.fault:
        return replace(verdict, note=f"{verdict.note}; a token came after {canary.seconds:.1f} s")
    return Verdict(
        state="broken",
        note=f"every rank runs and /health is green, and a request for one token failed: {canary.fault}",
        hint="sparkctl logs shows what the ranks said last; sparkctl boot starts all anew",
    )
