"""Results: what a bench brought home, ours or another's, as texts to audit and figures to doubt. Pure.

Takes parsed JSON or the text of an event stream; which tool wrote it is seen from its keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tuner.results import aiperf, others, ours, replies, v41bench
from tuner.results.doubts import Doubt, doubts
from tuner.results.figures import Figures
from tuner.results.replies import Answered

__all__ = ["Answered", "Doubt", "Figures", "Result", "doubts", "of_document", "of_stream"]

SHAPES = "sparkctl bench -o, v41bench, vllm bench serve, llama-benchy, guidellm, AIPerf, an OpenAI completion, a list of them, or an event stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One result: the replies that have texts, and the figures of a tool that gives any."""

    answered: tuple[Answered, ...] = ()
    figures: Figures = field(default_factory=lambda: Figures(tool=""))


def of_stream(body: str) -> Result:
    """Read one event stream, as a client saves it from a streamed completion.

    Raises:
        ValueError: it is none, or it tells of an error.

    """
    return Result(answered=replies.of_stream(body))


def of_document(raw: object) -> Result:
    """Read one JSON document of any shape that is known.

    Raises:
        ValueError: the shape is another, or a key of it is not what it should be.

    """
    match raw:
        case {"requests": [*_], "workload": {"prompts": [*_]}}:
            return Result(answered=replies.of_ours(raw), figures=ours.figures(raw))
        case {"generated_texts": [*_]} | {"output_throughput": _, "completed": _}:
            return Result(answered=replies.of_vllm(raw), figures=others.of_vllm(raw))
        case {"choices": [*_]}:
            return Result(answered=replies.of_completion(raw))
        case [_, *_]:
            return Result(answered=tuple(_of_list(raw)))
    return Result(figures=_figures(raw))


def _figures(raw: object) -> Figures:
    """Read a result that has figures and no texts."""
    match raw:
        case {"batches": [*_]}:
            return v41bench.read(raw)
        case {"benchmarks": [{"pp_throughput": _}, *_]} | {"benchmarks": [{"tg_throughput": _}, *_]}:
            return others.of_llama_benchy(raw)
        case {"benchmarks": [{"metrics": {"request_totals": _}}, *_]}:
            return others.of_guidellm(raw)
        case {"request_throughput": {"avg": _}} | {"request_latency": {"avg": _}}:
            return aiperf.of_aiperf(raw)
    keys = f"the keys {', '.join(map(str, raw))}"[:120] if isinstance(raw, Mapping) else type(raw).__name__
    raise ValueError(f"found {keys}, wanted {SHAPES}")


def _of_list(raw: Sequence[object]) -> list[Answered]:
    return [
        Answered(request=f"{number} {one.request}", reply=one.reply)
        for number, part in enumerate(map(of_document, raw), 1)
        for one in part.answered
    ]
