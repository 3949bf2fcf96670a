"""What benchmarks/bench_client.py found, as values, held against its bars, as a JSON document and as a table."""

import os
import platform
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench_clients import Cost, Load, Said

BAR_SHARE, BAR_CORES = 0.005, 0.5
JUDGED = "sparkctl bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One client against one load: shares by which it is off the truth (0.01 is 1 % too high), and what it took."""

    client: str
    streams: int
    chunk: str
    worst_stream: float
    """Of the stream that is furthest off."""
    mean_stream: float
    aggregate: float
    by_gaps: float | None
    tokens: int
    true_tokens: int
    true_rate: float
    """Tokens/s of a stream that the server really sent, the mean of all."""
    cores: float
    """CPU time over wall time from the first request's receipt to the last token."""
    whole_cpu_s: float
    """CPU seconds of the whole process: its start, this load, its end."""
    busy: float
    """The machine's load average before."""

    @property
    def told(self) -> str:
        """In a few words."""
        return (
            f"worst stream {self.worst_stream:+.3%}, aggregate {self.aggregate:+.3%}, {self.cores:.3f} cores"
        )


def judged(  # noqa: PLR0913, PLR0917 - what came together in one turn
    client: str, load: Load, said: Said, noted: Sequence[Mapping[str, Any]], cost: Cost, busy: float
) -> Turn:
    """Hold what a client said against what the server noted."""
    true = {one["tag"] if one["tag"] in said.rates else one["request_id"]: one for one in noted}
    if set(true) != set(said.rates):
        raise SystemExit(f"{client}: {len(said.rates)} streams told, {len(true)} served: {sorted(true)[:2]}")
    rates = {
        name: (one["completion_tokens"] - one["first_tokens"]) / (one["last_s"] - one["first_s"])
        for name, one in true.items()
    }
    off = [said.rates[name] / rate - 1 for name, rate in rates.items()]
    begin_s, end_s = min(one["received_s"] for one in noted), max(one["last_s"] for one in noted)
    tokens, true_rate = sum(one["completion_tokens"] for one in noted), statistics.fmean(rates.values())
    return Turn(
        client=client,
        streams=load.streams,
        chunk=load.chunk,
        worst_stream=max(off, key=abs),
        mean_stream=statistics.fmean(off),
        aggregate=said.aggregate / (tokens / (end_s - begin_s)) - 1,
        by_gaps=said.by_gaps / true_rate - 1 if said.by_gaps else None,
        tokens=said.tokens,
        true_tokens=tokens,
        true_rate=true_rate,
        cores=cost.cores(begin_s, end_s),
        whole_cpu_s=cost.whole_s,
        busy=busy,
    )


def medians(turns: Sequence[Turn]) -> Iterator[tuple[Turn, ...]]:
    """Yield the turns of one client and load, the median of its worst stream's error in the middle."""
    groups: dict[tuple[str, int, str], list[Turn]] = {}
    for turn in turns:
        groups.setdefault((turn.chunk, turn.streams, turn.client), []).append(turn)
    for group in groups.values():
        yield tuple(sorted(group, key=lambda turn: abs(turn.worst_stream)))


def middle(group: Sequence[Turn]) -> Turn:
    """Return the turn that counts."""
    return group[(len(group) - 1) // 2]


def faults(turns: Sequence[Turn]) -> list[str]:
    """Say which bars are not held."""
    told = []
    for turn in map(middle, medians(turns)):
        if turn.client != JUDGED:
            continue
        at = f"{turn.streams} streams of {turn.chunk} tokens a chunk"
        for what, off in (("a stream", turn.worst_stream), ("the aggregate", turn.aggregate)):
            if abs(off) > BAR_SHARE:
                told.append(f"{at}: {what} is off by {off:+.2%}; wanted at most {BAR_SHARE:.1%}")
        if turn.tokens != turn.true_tokens:
            told.append(f"{at}: {turn.tokens} tokens counted; wanted {turn.true_tokens}")
        if turn.cores > BAR_CORES:
            told.append(f"{at}: {turn.cores:.2f} cores; wanted at most {BAR_CORES:g}")
    return told


def document(turns: Sequence[Turn], broken: list[str]) -> dict[str, Any]:
    """Return the JSON document."""
    return {
        "machine": {
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "python": platform.python_version(),
        },
        "wanted": {"share": BAR_SHARE, "cores": BAR_CORES},
        "broken": broken,
        "turns": [asdict(turn) for turn in turns],
    }


def table(turns: Sequence[Turn], broken: list[str]) -> str:
    """Return the table for a reader."""
    head = "tokens  streams  client             true tok/s    worst      mean    aggregate   by gaps    counted of true"
    rows = [f"{head}   cores  CPU s in all   load"]
    for turn in map(middle, medians(turns)):
        gaps = f"{turn.by_gaps:+9.2%}" if turn.by_gaps is not None else "        -"
        rows.append(
            f"{turn.chunk:>6}  {turn.streams:7}  {turn.client:17}  {turn.true_rate:10.3f}  {turn.worst_stream:+8.3%}"
            f"  {turn.mean_stream:+8.3%}  {turn.aggregate:+9.3%}  {gaps}  {turn.tokens:9} {turn.true_tokens:8}"
            f"  {turn.cores:6.3f}  {turn.whole_cpu_s:12.1f}  {turn.busy:5.1f}"
        )
    repeats = max(len(group) for group in medians(turns))
    rows += [
        "",
        "worst, mean: a stream's decode rate against what the server noted. Ours is (n - first) / (last - first token), with the",
        "  server's counts; vllm's is 1 / TPOT, (n - 1) / (latency - TTFT), with the same counts of the server's usage block.",
        "aggregate: all tokens over the time from the first request to the last token; vllm's is its output_throughput, whose time",
        "  ends with the last stream. by gaps: 1 / mean ITL, which counts chunks as tokens.",
        "cores: CPU over wall time of the client while tokens flowed; CPU s in all: with its start and end, by getrusage.",
        f"each row is the middle of {repeats} turn(s) by its worst stream; {os.cpu_count()} cores carry server and client.",
        f"wanted of {JUDGED}: within {BAR_SHARE:.1%}, every token, at most {BAR_CORES:g} cores: "
        + ("; ".join(broken) or "held"),
    ]
    return "\n".join(rows)
