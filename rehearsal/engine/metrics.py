"""The /metrics page of a practice line, with vLLM 0.33's names."""

from rehearsal.engine.scheduler import Scheduler

_DRAFTS = 5


def page(scheduler: Scheduler, served_name: str) -> str:
    """Return the page in Prometheus text format."""
    tally = scheduler.tally
    accepted = tally.accepted_by_position
    gauges: dict[str, tuple[str, float]] = {
        "num_requests_running": ("Number of requests in model execution batches.", len(scheduler.running)),
        "num_requests_waiting": ("Number of requests waiting to be processed.", len(scheduler.waiting)),
        "kv_cache_usage_perc": ("KV-cache usage. 1 means 100 percent usage.", scheduler.kv_usage),
    }
    counters: dict[str, tuple[str, float]] = {
        "prompt_tokens": ("Number of prefill tokens processed.", tally.prompt_tokens),
        "generation_tokens": ("Number of generation tokens processed.", tally.generated_tokens),
        "prompt_tokens_cached": ("Number of cached prompt tokens.", tally.cached_tokens),
        "prefix_cache_queries": (
            "Prefix cache queries, in terms of number of queried tokens.",
            tally.prefix_queries,
        ),
        "prefix_cache_hits": ("Prefix cache hits, in terms of number of cached tokens.", tally.prefix_hits),
        "num_preemptions": ("Cumulative number of preemption from the engine.", 0),
    }
    if scheduler.boot.speculates:
        counters |= {
            "spec_decode_num_drafts": ("Number of spec decoding drafts.", tally.drafts),
            "spec_decode_num_draft_tokens": ("Number of draft tokens.", tally.drafts * _DRAFTS),
            "spec_decode_num_accepted_tokens": ("Number of accepted tokens.", sum(accepted)),
        }
    label = f'engine="0",model_name="{served_name}"'
    lines: list[str] = []
    for name, (about, value) in gauges.items():
        lines += _family(name, "gauge", about, {f"{{{label}}}": value})
    for name, (about, value) in counters.items():
        lines += _family(f"{name}_total", "counter", about, {f"{{{label}}}": value})
    if scheduler.boot.speculates:
        places = {f'{{{label},position="{place}"}}': float(value) for place, value in enumerate(accepted)}
        about = "Accepted tokens per draft position."
        lines += _family("spec_decode_num_accepted_tokens_per_pos_total", "counter", about, places)
    ends = {
        f'{{{label},finished_reason="{reason}"}}': float(value) for reason, value in tally.finished.items()
    }
    lines += _family("request_success_total", "counter", "Count of successfully processed requests.", ends)
    return "\n".join(lines) + "\n"


def _family(name: str, kind: str, about: str, samples: dict[str, float]) -> list[str]:
    head = [f"# HELP vllm:{name} {about}", f"# TYPE vllm:{name} {kind}"]
    return head + [f"vllm:{name}{labels} {float(value)}" for labels, value in samples.items()]
