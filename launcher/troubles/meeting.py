"""Meeting: how ranks find each other, wait for each other, and end because another one ended."""

from launcher.troubles.fabric import TRANSFER_FAILED
from launcher.troubles.trouble import (
    NUMBER,
    Lines,
    Told,
    Trouble,
    compiled,
    every,
    has,
    listed,
    worded,
)

JOINING_S = 660.0
"""Seconds without a line after which a rank that joins its group is given up.

torch gives up by itself after 601 s (eugr/spark-vllm-docker#335, reported); a minute more is no waiting.
"""

_WAITS = compiled(r"No available shared memory broadcast block found in (?P<waited_s>[0-9]{1,6}) seconds\.")
# What an engine says while it compiles, tunes, captures or loads; the waiting line itself speaks of compilation too.
_WORK = compiled(
    r"(?i)autotun|torch\.compile|\bcompiling\b|\bjit\b|captur\w+ cuda ?graphs|checkpoint shards:"
)
_WORK_ENDS = compiled(r"(?i)\bends\b|\bfinished\b|\bcomplete\b|\btook\b|100%")
_READY = compiled(r"Application startup complete\.")

_JOINS = compiled(r"[Cc]ustom ?[Aa]ll-?[Rr]educe is disabled because this process group spans across nodes")

_MISSING = (
    r"Timed out after (?P<waited_s>[0-9]{1,6}) seconds waiting for clients\. (?P<joined>[0-9]{1,4})/(?P<world>[0-9]{1,4}) "
    r"clients joined\."
)
_UNREACHABLE = (
    r"timed out after (?P<waited_ms>[0-9]{1,9})ms while trying to connect to \((?P<address>[0-9A-Fa-f.:]+), "
    r"(?P<port>[0-9]{1,5})\)"
)

_DUMPED = compiled(r"^rank\s?(?P<rank>[0-9]{1,4}) py-spy: (?P<where>[\w.]+)")
_RUNNING = compiled(rf"^vllm:num_requests_running(?:\{{[^}}]*\}})? (?P<running>{NUMBER})$")
_MADE = compiled(rf"^vllm:generation_tokens_total(?:\{{[^}}]*\}})? (?P<made>{NUMBER})$")


def _compiling(lines: Lines) -> Told | None:
    waits, works = _waits(lines)
    if not waits or not works:
        return None
    last = "; the API started after it" if has(_READY, lines) else ""
    return Told(
        said=f"the engine waited for its workers {_times(waits)} while they compiled, tuned or loaded{last}: not a hang",
        hint="wait; a cache of kernels that outlives the container makes the next boot shorter",
        figures={"times": float(len(waits)), "waited_s": waits[0]},
    )


def _waiting(lines: Lines) -> Told | None:
    waits, works = _waits(lines)
    if not waits or works or has(TRANSFER_FAILED, lines):
        return None
    return Told(
        said=f"the engine waited for its workers {_times(waits)}, and this log says neither why nor that a link failed",
        hint="look at every rank's log: a rank that compiles or loads says so (wait), an NCCL WARN names a dead link (stop the line)",
        figures={"times": float(len(waits)), "waited_s": waits[0]},
    )


def _waits(lines: Lines) -> tuple[list[float], bool]:
    """Return the waits that were logged, and whether work was under way before the first or was logged after it."""
    at = [index for index, line in enumerate(lines) if _WAITS.search(line)]
    if not at:
        return [], False
    seconds = [float(found["waited_s"]) for found in every(_WAITS, lines)]
    before = [line for line in lines[: at[0]] if _WORK.search(line) and not _WAITS.search(line)]
    after = [
        line
        for line in lines[at[0] :]
        if (_WORK.search(line) or _READY.search(line)) and not _WAITS.search(line)
    ]
    return seconds, bool(after) or bool(before and not _WORK_ENDS.search(before[-1]))


def _times(waits: list[float]) -> str:
    return f"for {waits[0]:g} s" if len(waits) == 1 else f"{len(waits)} times for {waits[0]:g} s"


def _silent(lines: Lines) -> Told | None:
    if not lines or not _JOINS.search(lines[-1]):
        return None
    return Told(
        said="the log ends where the ranks join their group over several nodes",
        hint=f"it is no fault yet: if nothing follows for {JOINING_S:g} s, run py-spy dump on every rank to see which one waits, and "
        "look for a leftover /etc/nccl.conf in the image (sparkctl check)",
    )


def _wedged(lines: Lines) -> Told | None:
    dumped = {int(found["rank"]): found["where"] for found in every(_DUMPED, lines)}
    stuck = tuple(str(rank) for rank, where in sorted(dumped.items()) if where.endswith("cuda.synchronize"))
    idle = tuple(str(rank) for rank, where in sorted(dumped.items()) if where == "wait_command")
    if not stuck or not idle:
        return None
    said = f"rank {listed(stuck)} waits in cuda.synchronize and rank {listed(idle)} for a command"
    running, made = every(_RUNNING, lines), every(_MADE, lines)
    figures: dict[str, float] = {}
    if running and len(made) > 1 and len({found["made"] for found in made}) == 1:
        figures = {"running": float(running[-1]["running"]), "tokens": float(made[-1]["made"])}
        said += (
            f"; {figures['running']:g} requests run and the count of tokens stays at {figures['tokens']:.0f}"
        )
    return Told(
        said=said,
        hint="the line does not recover, whatever /health says: sparkctl down, then boot without the last change; a RoCE one-shot "
        "all-reduce (VLLM_ENABLE_ROCE_ALLREDUCE) did this",
        figures=figures,
    )


TROUBLES = (
    Trouble(
        name="port-taken",
        read=worded(
            r"server socket has failed to listen on any local network address",
            exact=(
                (
                    r"failed to listen on any local network address\. port: (?P<port>[0-9]{1,5}),",
                    "port {port}, where the ranks meet, is taken on this node: an old head still listens",
                ),
            ),
            plain="the port where the ranks meet could not be opened on this node: an old head may still listen",
            hint="workers that came first have joined the old head and hang: sparkctl down stops all ranks, the head first, and boot "
            "starts anew; if it is no rank of ours, set another master_port for the line",
        ),
        source="tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark, README fix 6 (reported)",
    ),
    Trouble(name="rank-wedged", read=_wedged, source="local-inference-lab/b12x#313 (reported)"),
)

CONSEQUENCES = (
    Trouble(
        name="worker-died",
        read=worded(
            r"Worker proc VllmWorker-[0-9]+ died unexpectedly",
            exact=(
                (
                    r"Worker proc VllmWorker-(?P<rank>[0-9]{1,4}) died unexpectedly",
                    "worker {rank} died, and the engine ended with it",
                ),
            ),
            plain="a worker died, and the engine ended with it",
            hint="that rank's own log says why (sparkctl logs); the kernel log of its node if it says nothing",
        ),
        source="eugr/spark-vllm-docker#335 (reported)",
    ),
    Trouble(
        name="ranks-missing",
        read=worded(
            r"seconds waiting for clients\. ",
            exact=(
                (
                    _MISSING,
                    "after {waited_s} s only {joined} of {world} ranks had joined the head",
                ),
            ),
            plain="not all ranks joined the head in time",
            hint="the rank that is missing ended or cannot reach the head's fabric address: its own log says which (sparkctl logs)",
        ),
        source="eugr/spark-vllm-docker#335; vllm-project/vllm#19670 (reported)",
    ),
    Trouble(
        name="head-unreachable",
        read=worded(
            r"The client socket has timed out after ",
            exact=(
                (
                    _UNREACHABLE,
                    "the head at {address}, port {port}, did not answer this rank for {waited_s} s",
                ),
            ),
            plain="the head did not answer this rank in time",
            hint="the head ended (its log says why) or does not listen on its fabric address; sparkctl check pings that from each rank",
        ),
        source="eugr/spark-vllm-docker#335; vllm-project/vllm#19670 (reported)",
    ),
    Trouble(
        name="engine-ended",
        read=worded(
            r"Engine core initialization failed|EngineCore failed to start|WorkerProc failed to start|WorkerProc initialization failed"
            r"|EngineCore encountered an issue",
            plain="the engine ended; the cause stands further up in this log or in another rank's",
            hint="read the first error of every rank (sparkctl logs --tail 400); if no log has one, the nodes' kernel logs",
        ),
        source="vllm-project/vllm#23176, #21882 (reported)",
    ),
)

WARNINGS = (
    Trouble(
        name="workers-silent",
        read=_waiting,
        source="eugr/spark-vllm-docker#367, #169 (reported)",
        kind="warning",
    ),
    Trouble(
        name="silent-while-joining",
        read=_silent,
        source="MiaAI-Lab/Qwen3.8-Flash-Next-Dual-DGX-Sparks#3 (reported)",
        kind="warning",
    ),
)

NOTES = (
    Trouble(
        name="compiling",
        read=_compiling,
        source="eugr/spark-vllm-docker#367; MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#117 (reported)",
        kind="information",
    ),
)
