"""Voids: the reasons for which a bench, or one of its cells, says nothing. Pure; none of them is a speed, however slow.

What is judged: faults and counts of each request, the reply itself, the cache, the server's own counters, the line before and
after each cell, whether the engine was warm, and whether the client kept up.
"""

from collections.abc import Iterator, Mapping

from tuner import bracket, counters, rates, warming
from tuner.audit import Reply, audit
from tuner.request import Bench, Request
from tuner.workload import BURST, SENTINEL, WARM_UP, Cell, Prompt, asked

MOST_CACHED_SHARE = 0.01
"""Of a prefill prompt; ours. A cached prefix is not computed: benches on a warm engine read 8,000 to 194,000 tok/s
at 47K (reported, tsw2k/Deepseek-4.1-Flash-Quad-DGX-Sparks), a cold one 1,323 to 1,480 (reported, public ladder of
bot-lab-21/DeepSeek-V4.1-Flash-EXL3-DGX-Spark).
"""

PROMPT_SIZE = (0.5, 2.0)
"""Server's count over planned tokens of a prefill prompt; outside, it was cut or is another cell than its name says.

Ours: wide enough for another tokenizer's count of the same words.
"""

MOST_CLIENT_SHARE = 0.5
"""Of one core, while requests are in flight. Ours: a client that works for half of the time delays what it stamps; 64 streams of 60
tok/s take a tenth of that (benchmarks/bench_client.py)."""


def of_bench(bench: Bench) -> tuple[str, ...]:
    """Return the reasons for which nothing of this bench may be used, each naming its request; none if it is sound."""
    found = [*_around(bench), *(void for cell in bench.workload.cells for void in of_cell(bench, cell))]
    if not any(one.fault for one in bench.requests):  # what a broken stream was charged for nobody knows
        found += _cold(bench)
        found += bracket.changes(bench.brackets, tuple(cell.name for cell in bench.workload.cells))
        found += counters.voids(
            bench.before,
            bench.after,
            prompt=sum(one.prompt_tokens or 0 for one in bench.requests),
            made=sum(one.completion_tokens or 0 for one in bench.requests),
        )
    if bench.client_cpu_share > MOST_CLIENT_SHARE:
        found.append(
            f"the client used {bench.client_cpu_share:.2f} of a core, wanted at most {MOST_CLIENT_SHARE:g}: its times are its own"
        )
    return tuple(found)


def of_cell(bench: Bench, cell: Cell) -> Iterator[str]:
    """Yield why this cell gives no figure, whatever the others do."""
    requests = bench.of(cell.name)
    wanted = cell.rounds * cell.concurrency
    if len(requests) < wanted:
        yield f"{cell.name}: {len(requests)} of {wanted} requests were sent"
    prompts = asked(bench.workload)
    for request in requests:
        if reason := request.fault or _uncounted(request) or _misfit(cell, request, prompts):
            yield f"{name_of(request)}: {reason}"
    if cell.kind == "prefill" and not any(one.cached_tokens for one in requests):
        yield from _cached_by_counters(bench, cell)


def name_of(request: Request) -> str:
    """Return what a request is called on the screen."""
    return f"{request.cell} round {request.round + 1} stream {request.stream + 1}"


def _around(bench: Bench) -> Iterator[str]:
    """Yield the faults of warm-up, burst and sentinels."""
    for request in bench.requests:
        if request.cell in {WARM_UP, BURST, SENTINEL} and request.fault:
            yield f"{name_of(request)}: {request.fault}"


def _cold(bench: Bench) -> Iterator[str]:
    """Yield that the warm-up ended without agreement."""
    rule, sent = bench.workload.warm_up, bench.of(WARM_UP)
    if rule is None or not sent:
        return
    seen = [rate for one in sent if (rate := rates.decoded(one)) is not None]
    if len(seen) < len(sent):
        yield f"{name_of(sent[-1])}: {_uncounted(sent[-1]) or 'its tokens arrived at once, so it has no rate'}"
    elif not warming.is_warm(seen, rule):
        apart = f"{warming.spread(seen, rule):.1%}" if len(seen) >= rule.agree else "unknown"
        yield (
            f"{WARM_UP}: the last {rule.agree} of {len(seen)} replies differ by {apart}, wanted within {rule.within:.0%}: the "
            "engine was not warm, or is not steady"
        )


def _uncounted(request: Request) -> str:
    if request.prompt_tokens is None or request.completion_tokens is None:
        return "the server sent no usage block, so its tokens cannot be counted"
    return "" if request.total_s > 0 else "no token arrived"


def _misfit(cell: Cell, request: Request, prompts: Mapping[str, Prompt]) -> str:
    if cell.kind == "prefill":
        return _of_prefill(cell, request)
    return _of_decode(prompts[request.prompt], request)


def _of_decode(prompt: Prompt, request: Request) -> str:
    tokens, wanted = request.completion_tokens or 0, prompt.max_tokens
    if tokens < 2:
        return f"{tokens} completion tokens, wanted at least 2 for a rate"
    if tokens < prompt.least_answered * wanted:
        ended = request.finish_reason or "without a reason"
        least = prompt.least_answered * wanted
        return f"it ended ({ended}) after {tokens} of {wanted} tokens, wanted at least {least:g}"
    if rates.decoded(request) is None:
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


def _of_prefill(cell: Cell, request: Request) -> str:
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


def _cached_by_counters(bench: Bench, cell: Cell) -> Iterator[str]:
    """Yield what only the server's counters tell where replies do not say how many tokens were cached."""
    grown = bracket.grown(bench.brackets, bench.workload.cells.index(cell))
    if grown is None or grown.cached is None or not grown.prompt:
        return
    if grown.cached >= MOST_CACHED_SHARE * grown.prompt:
        yield (
            f"{cell.name}: the server took {grown.cached:,.0f} of {grown.prompt:,.0f} prompt tokens from its cache, wanted cold "
            "prompts"
        )
