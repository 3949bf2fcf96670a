"""Others: the results of vllm bench serve, llama-benchy and guidellm, as figures. Pure; each reader takes parsed JSON.

What a tool leaves out stays out: no figure is made up from another. A ValueError names the key that is not what it should be.
"""

from collections.abc import Iterator, Sequence

from tuner.results.fields import at, count, items, needed_count, number, text
from tuner.results.figures import Figures, Load, Prefill, Timed, Totals


def of_vllm(raw: object) -> Figures:
    """Read `vllm bench serve --save-result`; with --save-detailed it has every request.

    Its inter-token times are those of chunks; with speculative decoding several tokens come in one, so only counts and the sum of the
    times are used. Without its requests the totals stand for one, so that the aggregate can still be reckoned.
    """
    requests = tuple(_vllm_requests(raw))
    tokens = count(raw, "total_output_tokens")
    if not requests and tokens:
        requests = (Timed(tokens=tokens),)
    load = Load(
        streams=count(raw, "max_concurrency") or count(raw, "max_concurrent_requests") or 1,
        aggregate=number(raw, "output_throughput"),
        ttft_s=_seconds(number(raw, "mean_ttft_ms")),
        wall_s=number(raw, "duration"),
        requests=requests,
    )
    done = count(raw, "completed")
    totals = None if done is None else Totals(done=done, failed=count(raw, "failed") or 0)
    return Figures(tool="vllm bench serve", loads=(load,), totals=totals)


def _vllm_requests(raw: object) -> Iterator[Timed]:
    lengths = items(raw, "output_lens")
    columns = ("ttfts", "itls", "generated_texts", "errors", "input_lens")
    of_request = zip(lengths, *(_column(raw, name, len(lengths)) for name in columns), strict=True)
    for length, first, gaps, said, error, prompt in of_request:
        row: dict[str, object] = {"length": length, "first": first, "gaps": gaps, "said": said}
        row |= {"error": error, "prompt": prompt}
        ttft_s, between = number(row, "first"), items(row, "gaps")
        yield Timed(
            tokens=needed_count(row, "length"),
            prompt_tokens=count(row, "prompt"),
            ttft_s=ttft_s,
            total_s=None if ttft_s is None or not between else ttft_s + _sum(between),
            characters=None if said is None else len(text(row, "said")),
            error=text(row, "error"),
        )


def _column(raw: object, name: str, length: int) -> Sequence[object]:
    found = items(raw, name)
    if found and len(found) != length:
        raise ValueError(f"{name}: {len(found)} of {length} requests, wanted one for each of output_lens")
    return found or (None,) * length


def _sum(gaps: Sequence[object]) -> float:
    return sum(number({"itls": gap}, "itls") or 0.0 for gap in gaps)


def of_llama_benchy(raw: object) -> Figures:
    """Read `llama-benchy --format json`: means over its runs, by context, prompt and answer length."""
    runs = items(raw, "benchmarks")
    return Figures(
        tool="llama-benchy",
        loads=tuple(_benchy_load(run) for run in runs if _mean(run, "tg_throughput") is not None),
        prefills=tuple(
            Prefill(tokens=needed_count(run, "prompt_size") + needed_count(run, "context_size"), tok_s=rate)
            for run in runs
            if needed_count(run, "concurrency") == 1 and (rate := _mean(run, "pp_throughput")) is not None
        ),
    )


def _benchy_load(run: object) -> Load:
    before = needed_count(run, "context_size") + needed_count(run, "prompt_size")
    return Load(
        streams=needed_count(run, "concurrency"),
        category=f"tg{needed_count(run, 'response_size')} after {before}",
        per_stream=_mean(run, "tg_req_throughput"),
        aggregate=_mean(run, "tg_throughput"),
        ttft_s=_seconds(_mean(run, "e2e_ttft")),
    )


def of_guidellm(raw: object) -> Figures:
    """Read guidellm's JSON as far as its totals and its rate of tokens: what did not end is kept beside what did."""
    found = [at(one, "metrics") for one in items(raw, "benchmarks")]
    totals = [at(one, "request_totals") for one in found]
    rates = [number(at(at(one, "output_tokens_per_second"), "total"), "mean") for one in found]
    return Figures(
        tool="guidellm",
        loads=tuple(
            Load(streams=1, category=f"benchmark {place}", aggregate=rate)
            for place, rate in enumerate(rates, 1)
            if rate is not None
        ),
        totals=Totals(
            done=sum(needed_count(one, "successful") for one in totals),
            failed=sum(needed_count(one, "errored") for one in totals),
            unfinished=sum(needed_count(one, "incomplete") for one in totals),
        ),
    )


def _mean(run: object, key: str) -> float | None:
    return number(at(run, key), "mean")


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
