"""The step-time model of DeepSeek-V4.1-Flash (EXL3, tensor parallel over four GB10) that a practice line serves by.

Pure: figures in, seconds out. All seconds are the line's own, before any pace. Every constant is other people's
figure, named beside it; nothing here was measured by us. The model is made to be plausible, not to predict.
"""

import math
from dataclasses import dataclass
from random import Random

STEP_FAST_MS = 63.0
"""Decode step of one stream, fast GPU state (issue 1 of tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark)."""

STEP_SLOW_MS = 94.0
"""The same in the hidden slow state (same issue)."""

GEMV_FAST_GB_S = 230.0
"""Decode-shaped GEMV in the fast state (same issue, gpuflip.py)."""

GEMV_SLOW_GB_S = 70.0
"""The same in the hidden slow state."""

STEP_PER_STREAM_MS = 8.5
"""What each added stream adds to a step (same repository, boot notes)."""

ACCEPTED_PER_STEP = 3.57
"""Mean tokens a step yields with five drafts, bonus token counted (same repository)."""

ACCEPTED_COUNTING = 4.8
"""The same when the answer is counting, 4.8 to 5.0 published (same repository)."""

MOST_PER_STEP = 6
"""Five drafts and the bonus token."""

PREFILL_TOK_S = 1410.0
"""Cold prefill rate once it runs; fits 1142/1326/1385/1406 tok/s at 3K/12K/47K/93K (bot-lab-21's model card)."""

PREFILL_SHORT_S = 0.14
"""Fixed cost of a step in which prompts begin; a prompt of about 80 tokens then has the published TTFT of 0.2 to 0.26 s."""

PREFILL_LONG_S = 0.36
"""Further fixed cost that has set in fully at `PREFILL_KNEE` tokens; from the same fit as `PREFILL_TOK_S`."""

PREFILL_KNEE = 2950

# A step is a part that streams weights through GEMV and a part that does not: the two published states fix both.
_GEMV_MS = (STEP_SLOW_MS - STEP_FAST_MS) / (GEMV_FAST_GB_S / GEMV_SLOW_GB_S - 1.0)
_OTHER_MS = STEP_FAST_MS - _GEMV_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """Standard deviations of the log of each metric between boots of one configuration."""

    c1: float
    c6: float
    prefill: float
    correlation: float
    """Between the c1 and the c6 part."""
    walk: float = 0.0
    """Step from boot to boot of a random walk that all three share: a line that wanders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """Standard deviations of the log rate between requests of one boot."""

    decode: float
    prefill: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """How much a practice line varies."""

    between: Between
    within: Within


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Factors on the rates: 1.05 is five per cent faster at one stream, at six, and in prefill."""

    c1: float = 1.0
    c6: float = 1.0
    prefill: float = 1.0

    def times(self, other: "Speed") -> "Speed":
        """Return both factors applied."""
        return Speed(c1=self.c1 * other.c1, c6=self.c6 * other.c6, prefill=self.prefill * other.prefill)

    def at(self, streams: int) -> float:
        """Return the decode factor at that many streams: log-linear from one to six, level beyond."""
        share = (min(max(streams, 1), 6) - 1) / 5
        return math.exp((1 - share) * math.log(self.c1) + share * math.log(self.c6))


def slowdown(gemv_gb_s: float) -> float:
    """Return how many times longer a step takes on a node with that GEMV figure: 1 at 230 GB/s, 1.49 at 70."""
    return (_OTHER_MS + _GEMV_MS * GEMV_FAST_GB_S / gemv_gb_s) / STEP_FAST_MS


def step_s(streams: int, gemv_gb_s: float, speed: Speed) -> float:
    """Return the seconds of one decode step; `gemv_gb_s` is the slowest rank's, which binds the line."""
    plain_ms = STEP_FAST_MS + STEP_PER_STREAM_MS * (streams - 1)
    return plain_ms * slowdown(gemv_gb_s) / speed.at(streams) / 1000


def prefill_s(tokens: int, speed: Speed) -> float:
    """Return the seconds to compute a prompt of that many tokens, alone on the line, cached tokens not counted."""
    return PREFILL_SHORT_S / speed.prefill + chunk_s(0, tokens, speed)


def chunk_s(done: int, upto: int, speed: Speed) -> float:
    """Return what a request's prompt tokens `done` to `upto` add to a step; `PREFILL_SHORT_S` comes once a step."""
    return (_growing_s(upto) - _growing_s(done)) / speed.prefill


def _growing_s(tokens: int) -> float:
    return PREFILL_LONG_S * min(1.0, tokens / PREFILL_KNEE) + tokens / PREFILL_TOK_S


def draw(seed: int, boot: int, purpose: str) -> Random:
    """Return the generator of one purpose of one boot: the same key gives the same draws on every run."""
    return Random(f"{seed}/{boot}/{purpose}")  # noqa: S311 - simulation noise, not a secret


def boot_speed(noise: Noise, seed: int, boot: int) -> Speed:
    """Return the speed that this boot happens to have, before any lever."""
    between = noise.between
    chance = draw(seed, boot, "between boots")
    first, second, third = (chance.gauss(0, 1) for _ in range(3))
    six = between.correlation * first + math.sqrt(1 - between.correlation**2) * second
    steps = range(1, boot + 1) if between.walk else ()
    wandered = between.walk * sum(draw(seed, one, "drift").gauss(0, 1) for one in steps)
    return Speed(
        c1=math.exp(between.c1 * first + wandered),
        c6=math.exp(between.c6 * six + wandered),
        prefill=math.exp(between.prefill * third + wandered),
    )


def accepted(mean: float, step: int, emitted: int, chance: Random) -> int:
    """Return how many tokens decode step `step` (from 1) yields when `emitted` were yielded before it.

    One to six, varying from step to step but held near the mean in sum: the spread between requests is the noise's
    to say, not an accident of short answers.
    """
    wanted = mean * step - emitted + chance.uniform(-1.4, 1.4)
    return min(max(round(wanted), 1), MOST_PER_STEP)
