"""From the requests of a bench to its figures, and to the reasons why it is void.

Tokens are the server's usage counts, never chunks: with speculative decoding a chunk holds several tokens.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import assert_never

from tuner import counters
from tuner.audit import Reply, audit
from tuner.request import Bench, Request
from tuner.workload import WARM_UP, Cell, Prompt, Quantity

MOST_CACHED_SHARE = 0.01
"""Of a prefill prompt; ours. A cached prefix is not computed: benches on a warm engine read 8,000 to 194,000 tok/s
at 47K (reported, tsw2k/Deepseek-4.1-Flash-Quad-DGX-Sparks), a cold one 1,323 to 1,480 (reported, public ladder of
bot-lab-21/DeepSeek-V4.1-Flash-EXL3-DGX-Spark).
"""

PROMPT_SIZE = (0.5, 2.0)
"""Server's count over planned tokens of a prefill prompt; outside, it was cut or is another cell than its name says.

Ours: wide enough for another tokenizer's count of the same words.
"""

LEAST_ANSWERED = 0.5
"""Tokens of a decode reply over its max_tokens; below, it ended early and the bench is void, not slow.

A slot that idles moves the aggregate of six streams although the line is no slower. Ours, chosen and not fitted: such
a stream would idle longer than it worked. Every prompt asks for more than its max_tokens, so none should come near.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure of one bench; `n` is the number of requests (or of rounds, for an aggregate) it is the mean of."""

    name: str
    value: float
    unit: str
    n: int


def measure(bench: Bench) -> tuple[Metric, ...]:
    """Return the metrics of every cell whose requests are all sound; a cell that is not gives none."""
    return tuple(
        metric
        for cell in bench.workload.cells
        if not any(True for _ in _cell_voids(bench, cell))
        for metric in _metrics(cell, _requests(bench, cell.name))
    )


def voids(bench: Bench) -> tuple[str, ...]:
    """Return the reasons for which nothing of this bench may be used, each naming its request; none if it is sound."""
    warm_up = (f"{_name(one)}: {one.fault}" for one in _requests(bench, WARM_UP) if one.fault)
    found = [*warm_up, *(void for cell in bench.workload.cells for void in _cell_voids(bench, cell))]
    if not any(one.fault for one in bench.requests):  # what a broken stream was charged for nobody knows
        found += counters.voids(
            bench.before,
            bench.after,
            prompt=sum(one.prompt_tokens or 0 for one in bench.requests),
            made=sum(one.completion_tokens or 0 for one in bench.requests),
        )
    return tuple(found)


def decode_rate(request: Request) -> float:
    """Return tokens per second of one stream after its first token: (n - 1) / (total - ttft)."""
    tokens = request.completion_tokens or 0
    return (tokens - 1) / (request.total_s - request.ttft_s)


def prefill_rate(request: Request) -> float:
    """Return prompt tokens per second up to the only token that was asked for: prompt_tokens / total."""
    return (request.prompt_tokens or 0) / request.total_s


def aggregate_rate(requests: tuple[Request, ...]) -> float:
    """Return all tokens of one round over its wall time, from the first sending to the last token."""
    tokens = sum(request.completion_tokens or 0 for request in requests)
    end_s = max(request.sent_s + request.total_s for request in requests)
    return tokens / (end_s - min(request.sent_s for request in requests))


def _metrics(cell: Cell, requests: tuple[Request, ...]) -> Iterator[Metric]:
    for name, quantity in cell.metrics.items():
        values, unit = _values(quantity, cell, requests)
        yield Metric(name=name, value=fmean(values), unit=unit, n=len(values))


def _values(quantity: Quantity, cell: Cell, requests: tuple[Request, ...]) -> tuple[list[float], str]:
    match quantity:
        case "per_stream":
            return [decode_rate(one) for one in requests], "tok/s"
        case "prefill":
            return [prefill_rate(one) for one in requests], "tok/s"
        case "ttft":
            return [one.ttft_s for one in requests], "s"
        case "aggregate":
            by_round = [
                tuple(one for one in requests if one.round == number) for number in range(cell.rounds)
            ]
            return [aggregate_rate(one) for one in by_round], "tok/s"
        case _:
            assert_never(quantity)


def _cell_voids(bench: Bench, cell: Cell) -> Iterator[str]:
    requests = _requests(bench, cell.name)
    wanted = cell.rounds * cell.concurrency
    if len(requests) < wanted:
        yield f"{cell.name}: {len(requests)} of {wanted} requests were sent"
    asked = {prompt.id: prompt for prompt in bench.workload.prompts}
    for request in requests:
        if reason := request.fault or _uncounted(request) or _misfit(cell, request, asked):
            yield f"{_name(request)}: {reason}"


def _uncounted(request: Request) -> str:
    if request.prompt_tokens is None or request.completion_tokens is None:
        return "the server sent no usage block, so its tokens cannot be counted"
    return "" if request.total_s > 0 else "no token arrived"


def _misfit(cell: Cell, request: Request, asked: Mapping[str, Prompt]) -> str:
    if cell.kind == "prefill":
        return _prefill_void(cell, request)
    return _decode_void(asked[request.prompt], request)


def _decode_void(prompt: Prompt, request: Request) -> str:
    tokens, asked = request.completion_tokens or 0, prompt.max_tokens
    if tokens < 2:
        return f"{tokens} completion tokens, wanted at least 2 for a rate"
    if tokens < LEAST_ANSWERED * asked:
        ended = request.finish_reason or "without a reason"
        return (
            f"it ended ({ended}) after {tokens} of {asked} tokens, wanted at least {LEAST_ANSWERED * asked:g}"
        )
    if request.total_s <= request.ttft_s:
        return "all tokens arrived at once, so there is no rate"
    return _damage(prompt, request)


def _damage(prompt: Prompt, request: Request) -> str:
    """Return what is wrong with the reply itself: a loop is cheap to decode, so its rate is no speed."""
    reply = Reply(
        text=request.text,
        completion_tokens=request.completion_tokens,
        finish_reason=request.finish_reason,
        prompt=prompt.text,
    )
    return next((f"its reply is damaged, {damage.said}" for damage in audit(reply)), "")


def _prefill_void(cell: Cell, request: Request) -> str:
    tokens, planned = request.prompt_tokens or 0, cell.prompt_tokens or 0
    low, high = PROMPT_SIZE
    if not low <= tokens / planned <= high:
        return (
            f"{tokens} prompt tokens counted, wanted about {planned}: the prompt was cut or counted otherwise"
        )
    cached = request.cached_tokens or 0
    if cached >= MOST_CACHED_SHARE * tokens:
        return f"{cached} of {tokens} prompt tokens came from the cache, wanted a cold prompt"
    return "" if request.completion_tokens else "no completion token"


def _requests(bench: Bench, cell: str) -> tuple[Request, ...]:
    return tuple(request for request in bench.requests if request.cell == cell)


def _name(request: Request) -> str:
    return f"{request.cell} round {request.round + 1} stream {request.stream + 1}"
