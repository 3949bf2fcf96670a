"""Progress: what a rank is doing, from its log lines, and whether it has been silent for too long for that. Pure.

There is no limit on a whole boot: compiling is not hanging, and how long loading takes depends on where the files are. A rank is
named when it says nothing new and its node's memory does not move for longer than its stage's limit, unless it only waits for a
rank in an earlier stage. Times are the line's monotonic seconds; wordings are those of vLLM 0.33.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from bootcheck import redact
from launcher.troubles.fabric import TRANSFER_FAILED
from launcher.troubles.meeting import JOINING_S

Stage = Literal[
    "starting", "joining", "loading", "compiling", "profiling", "capturing", "serving", "attached"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """How long a stage may be silent (seconds), where the number comes from, and the remedy. Stages of one level wait for each other.

    `blind_s` holds where no memory samples say whether something moves; 0 means that `limit_s` holds there too.
    """

    level: int
    limit_s: float
    origin: str
    hint: str
    blind_s: float = 0.0


_COMPILES_S = 2700.0
_COMPILES = (
    "above the 36 minutes of compilation that followed a change of NCCL (tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-"
    "DGX-Spark PR#40, reported)"
)
_LOOK_INSIDE = "py-spy dump on the rank's processes shows where it stands"

SILENCES: Mapping[Stage, Silence] = {
    "starting": Silence(
        level=0,
        limit_s=600.0,
        origin="ours, chosen: an engine imports within a minute or two, from a cold disk too",
        hint=f"look at the container's log (sparkctl logs); {_LOOK_INSIDE}",
    ),
    "joining": Silence(
        level=1,
        limit_s=JOINING_S,
        origin="torch gives up by itself after 601 s (eugr/spark-vllm-docker#335, reported); a minute more is no waiting",
        hint="a rank that does not join waits for another or for a wrong address: compare VLLM_HOST_IP, NCCL_SOCKET_IFNAME and master port "
        "(sparkctl boot --plan), and look for a leftover /etc/nccl.conf in the image",
    ),
    "loading": Silence(
        level=2,
        limit_s=600.0,
        origin="ours, chosen: while files are read memory moves all the time",
        hint=f"check that the model's file system answers on that node (sparkctl check); {_LOOK_INSIDE}",
        # Ranks above 0 draw no bar of shards and load over NFS for 10 to 18 minutes (tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark,
        # reported).
        blind_s=1500.0,
    ),
    "compiling": Silence(
        level=3,
        limit_s=_COMPILES_S,
        origin=_COMPILES,
        hint=f"no compiler may be running any more (ps -ef on the node); {_LOOK_INSIDE}",
    ),
    "profiling": Silence(
        level=3,
        limit_s=_COMPILES_S,
        origin=f"{_COMPILES}; kernels are compiled in the profile run without a word",
        hint=_LOOK_INSIDE,
    ),
    "capturing": Silence(
        level=4,
        limit_s=900.0,
        origin="ours, chosen: capture takes seconds to a minute, and compiling what a new shape needs about 100 s "
        "(tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark, reported)",
        hint=f"a padded batch hangs (FlashInfer#5015, open): compare the sizes captured with sparkctl boot --plan; {_LOOK_INSIDE}",
    ),
    "serving": Silence(
        level=5,
        limit_s=300.0,
        origin="ours, chosen: the API answers within seconds of its last start-up line",
        hint="check api_host and api_port in the inventory and what filters that port between here and the head",
    ),
    "attached": Silence(
        # Above all others: it waits for whoever speaks.
        level=6,
        limit_s=600.0,
        origin="ours, chosen; a node of Ray has nothing to say, what its rank does stands in the head's log",
        hint=_LOOK_INSIDE,
    ),
}

BROKEN_S = 60.0
"""Silence after which a failed NCCL transfer means a dead link; the waiting engine repeats itself at that pace
(eugr/spark-vllm-docker#169, reported: both nodes span for hours). Ours."""

_MARKS: tuple[tuple[Stage, str], ...] = (
    # What each of these lines says the rank does from now on; the first that matches counts.
    ("attached", r"This command will now block"),  # ray start --block, on every node but the head's
    ("serving", r"Graph capturing finished|init engine .* took|Starting vLLM (API )?server on|Application startup complete"),
    ("profiling", r"Autotuning process ends|torch\.compile (took|takes)|Initial profiling/warmup run"),
    ("capturing", r"Capturing CUDA graph|Available KV cache memory|GPU KV cache size"),
    ("profiling", r"Model loading took|[Mm]emory profiling|Encoder cache will be initialized"),
    ("compiling", r"Dynamo bytecode|Compiling a graph|Autotuning process starts|DeepGEMM warm"),
    ("loading", r"Starting to load model|Loading .*checkpoint shards|Loading weights|Loading drafter"),
    ("joining", r"distributed_init_method=|headless multiproc executor|vLLM is using nccl|spans across nodes"),
)  # fmt: skip

_PATTERNS = tuple((stage, re.compile(pattern)) for stage, pattern in _MARKS)

_COMPILER = re.compile(r"torch\.compile|\b[Jj][Ii][Tt]\b|\bnvcc\b|\bninja\b")
"""Names of compilers: work once the model is loaded, a mere remark (`FlashInfer is available, JIT ...`) before."""

_STEPS: Mapping[Stage, int] = {
    "starting": 0,
    "joining": 1,
    "loading": 2,
    # vLLM goes back and forth between these: it profiles, sizes the KV cache, tunes kernels, and only then captures.
    "compiling": 3,
    "profiling": 3,
    "capturing": 3,
    "serving": 4,
    "attached": 5,
}
"""A boot never goes back a step: a later line that sounds like an earlier one is a remark."""

_SAYS_NOTHING = re.compile(
    r"No available shared memory broadcast block"  # of ranks that compile and of ranks that hang alike
    r"|Waiting for \d+ local, \d+ remote core engine"
    r'|"(GET|HEAD) /(health|ping|metrics|v1/models)\b'  # our own looks
)
_SHARE = re.compile(r"\b(\d{1,3})%(?:\|| Completed)")
_SHOWN = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class RankProgress:
    """One rank: its stage and since when, the share of it that is done, when it last said something new, and what.

    `broken` is the line with which NCCL told of a failed transfer since then; `passed` are the stages before, each with its beginning.
    """

    node: str
    name: str
    since_s: float
    spoke_s: float
    stage: Stage = "starting"
    share: float | None = None
    last: str = ""
    broken: str = ""
    passed: tuple[tuple[Stage, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """A rank that does not get on: what was measured and wanted, and the remedy."""

    node: str
    name: str
    said: str
    hint: str


def take(rank: RankProgress, line: str, now_s: float) -> RankProgress:
    """Return the rank after one more line of its log."""
    if _SAYS_NOTHING.search(line):
        return rank
    if TRANSFER_FAILED.search(line):
        return replace(rank, spoke_s=now_s, last=line, broken=line)
    rank = replace(rank, spoke_s=now_s, last=line, broken="")
    stage = _stage(rank.stage, line)
    if stage != rank.stage:
        passed = (*rank.passed, (rank.stage, rank.since_s))
        rank = replace(rank, stage=stage, since_s=now_s, share=None, passed=passed)
    found = _SHARE.search(line) if stage in {"loading", "capturing"} else None
    return replace(rank, share=min(int(found[1]), 100) / 100) if found else rank


def _stage(now: Stage, line: str) -> Stage:
    """Return the stage after a line; one that names an earlier step changes nothing."""
    told = next((stage for stage, pattern in _PATTERNS if pattern.search(line)), None)
    if told is None and _STEPS[now] == _STEPS["compiling"] and _COMPILER.search(line):
        told = "compiling"
    return told if told and _STEPS[told] >= _STEPS[now] else now


def stuck(
    ranks: tuple[RankProgress, ...],
    now_s: float,
    moved: Mapping[str, float],
    silence_s: Mapping[Stage, float],
) -> Stuck | None:
    """Return the rank that has been silent too long for its stage, the longest silent first.

    `moved` says when each node's memory last moved, `silence_s` which limits the recipe sets itself.
    """
    late = [
        (silent_s - limit_s, rank, silent_s, limit_s)
        for rank, silent_s, limit_s in _silences(ranks, now_s, moved, silence_s)
        if silent_s > limit_s
    ]
    if not late:
        return None
    _, rank, silent_s, limit_s = max(late, key=lambda one: one[0])
    return _stuck(rank, silent_s, limit_s)


def _silences(
    ranks: tuple[RankProgress, ...],
    now_s: float,
    moved: Mapping[str, float],
    silence_s: Mapping[Stage, float],
) -> list[tuple[RankProgress, float, float]]:
    """Return each rank that waits for nobody, with its silence and the limit of that."""
    behind = min(SILENCES[rank.stage].level for rank in ranks)
    # Whoever was there first has waited for the last of them and had nothing to say.
    together_s = max(rank.since_s for rank in ranks if SILENCES[rank.stage].level == behind)
    found = []
    for rank in ranks:
        rule = SILENCES[rank.stage]
        if rank.broken:
            found.append((rank, now_s - rank.spoke_s, BROKEN_S))
        elif rule.level == behind:
            limit_s = rule.limit_s if rank.node in moved else max(rule.limit_s, rule.blind_s)
            spoke_s = max(rank.spoke_s, moved.get(rank.node, rank.spoke_s))
            # Whoever serves has nothing to say either: that is counted from when all were ready.
            heard_s = together_s if rank.stage == "serving" else max(spoke_s, together_s)
            found.append((rank, now_s - heard_s, silence_s.get(rank.stage, limit_s)))
    return found


def _stuck(rank: RankProgress, silent_s: float, limit_s: float) -> Stuck:
    last = (
        f"; its last line: {redact.text(rank.last.strip())[:_SHOWN]}" if rank.last else "; its log is empty"
    )
    if rank.broken:
        said = f"{rank.name} lost a transfer of NCCL {silent_s:.0f} s ago and has said nothing since, wanted a line within {limit_s:g} s"
        hint = "a link is dead or an MTU differs: sparkctl check, and look at both nodes' kernel logs for the network card"
        return Stuck(node=rank.node, name=rank.name, said=f"{said}{last}", hint=hint)
    if rank.stage == "serving":
        said = (
            f"{rank.name} has been up for {silent_s:.0f} s, wanted an answer of the API within {limit_s:g} s"
        )
    else:
        said = (
            f"{rank.name} has said nothing new for {silent_s:.0f} s while {_doing(rank)}, wanted a line or a move of memory within "
            f"{limit_s:g} s"
        )
    hint = f"{SILENCES[rank.stage].hint}; a longer limit is ready.silence_s.{rank.stage}"
    return Stuck(node=rank.node, name=rank.name, said=f"{said}{last}", hint=hint)


def describe(ranks: tuple[RankProgress, ...]) -> str:
    """Say in a few words what every rank does: `all loading`, or each node with its stage."""
    doing = [_doing(rank) for rank in ranks]
    if len(set(doing)) == 1:
        return f"all {doing[0]}"
    return ", ".join(f"{rank.node} {text}" for rank, text in zip(ranks, doing, strict=True))


def by_node(ranks: tuple[RankProgress, ...]) -> dict[str, str]:
    """Say it for each node, as `describe` does for all."""
    return {rank.node: _doing(rank) for rank in ranks}


def _doing(rank: RankProgress) -> str:
    return rank.stage if rank.share is None else f"{rank.stage} ({rank.share:.0%})"
