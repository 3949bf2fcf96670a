"""What real vLLM says in this process, and how long its forward takes: `plugin_gpu_talk.py ASKED.json ANSWER.json`, run by vLLM's own Python.

ASKED: model, dtype, engine (vLLM's own arguments), prompts (token ids), tokens (of a reply), forced (replies that must be given, or null), clamp
(of the experts, or null), and steps (timed decode steps for each of `rows` requests at once; 0 times nothing). The plug-in is on or off by
the environment, as for any owner. A forced reply is compared token by token: log-probabilities are those before anything is forced.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from vllm import LLM, SamplingParams
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

PLAN = "SPARKCTL_BUDGET_PLAN"
BLOCK = 32
"""Tokens of a block of the cache: the least that the CPU takes too."""
PROMPT = 16
"""Tokens of a prompt of a timed request."""
WARM = 4
"""Steps at the begin of a timed round that are not counted, the prefill among them."""


class Forced(AdapterLogitsProcessor):  # type: ignore[misc]
    """Makes a request say what `extra_args` tells it to."""

    def is_argmax_invariant(self) -> bool:
        """Say that it changes what greedy sampling picks."""
        return False

    def new_req_logits_processor(
        self, params: SamplingParams
    ) -> Callable[[list[int], torch.Tensor], torch.Tensor] | None:
        """Return what forces the request's next token, None for one that speaks freely."""
        reply = (params.extra_args or {}).get("forced")
        if reply is None:
            return None

        def force(said: list[int], logits: torch.Tensor) -> torch.Tensor:
            answer = torch.full_like(logits, -float("inf"))
            answer[reply[len(said)]] = 0
            return answer

        return force


class Clock:
    """Times vLLM's own forward of each step: between two events on the GPU's stream, or by the host's clock where there is no GPU."""

    def __init__(self) -> None:
        self.spans: list[Callable[[], float]] | None = None
        own = GPUModelRunner._model_forward  # noqa: SLF001 - what is timed

        def timed(runner: Any, *more: Any, **named: Any) -> Any:
            if self.spans is None:
                return own(runner, *more, **named)
            begin = self._now()
            answer = own(runner, *more, **named)
            self.spans.append(self._span(begin, self._now()))
            return answer

        GPUModelRunner._model_forward = timed  # noqa: SLF001

    @staticmethod
    def _now() -> Any:
        if not torch.cuda.is_available():
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    @staticmethod
    def _span(begin: Any, end: Any) -> Callable[[], float]:
        if isinstance(begin, float):
            return lambda: (end - begin) * 1e6
        return lambda: float(begin.elapsed_time(end)) * 1e3

    def round(self, rows: int, steps: int, engine: LLM) -> dict[str, float]:
        """Return microseconds of a forward of so many decoding requests, median over steps, and of a whole step of the engine, on the mean."""
        prompts = [{"prompt_token_ids": [(7 * row + place) % 500 for place in range(PROMPT)]} for row in range(rows)]  # fmt: skip
        params = SamplingParams(temperature=0, max_tokens=steps + WARM, ignore_eos=True, detokenize=False)
        self.spans = []
        begin = time.perf_counter()
        engine.generate(prompts, params, use_tqdm=False)
        whole = time.perf_counter() - begin
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        spans, self.spans = [one() for one in self.spans], None
        each = spans[WARM:]
        return {
            "rows": rows,
            "steps": len(each),
            "forward_us": statistics.median(each),
            "quickest_us": min(each),
            "step_us": whole / len(spans) * 1e6,
        }


def served(asked: dict[str, Any]) -> LLM:
    """Return the engine; on the GPU attention is Triton's, which needs no library of its own."""
    gpu = {"attention_config": {"backend": "TRITON_ATTN"}, "gpu_memory_utilization": 0.08} if torch.cuda.is_available() else {}  # fmt: skip
    return LLM(
        model=asked["model"],
        dtype=asked["dtype"],
        skip_tokenizer_init=True,
        generation_config="vllm",
        max_model_len=512,
        max_num_seqs=8,
        block_size=BLOCK,
        kv_cache_memory_bytes=1 << 28,
        async_scheduling=False,
        logits_processors=[Forced],
        **gpu,
        **asked["engine"],
    )


def reply(one: Any) -> dict[str, Any]:
    """Return tokens, the log-probability and place of each, and those of the prompt's tokens from its second on."""
    made = one.outputs[0]
    pairs = [place[token] for place, token in zip(made.logprobs, made.token_ids, strict=True)]
    asked = zip(one.prompt_logprobs[1:], one.prompt_token_ids[1:], strict=True)
    return {
        "tokens": list(made.token_ids),
        "logprobs": [pair.logprob for pair in pairs],
        "first": [pair.rank == 1 for pair in pairs],
        "prompt": [place[token].logprob for place, token in asked],
    }


def params(asked: dict[str, Any]) -> Sequence[SamplingParams]:
    """Return what each prompt is asked with."""
    forced = asked["forced"] or [None] * len(asked["prompts"])
    return [
        SamplingParams(
            temperature=0,
            max_tokens=asked["tokens"],
            logprobs=0,
            prompt_logprobs=0,
            ignore_eos=True,
            detokenize=False,
            extra_args=None if one is None else {"forced": one},
        )
        for one in forced
    ]


def clamped(limit: float) -> None:
    """Let the plug-in take it that this model clamps its experts there, as V4.1 does and this one does not."""
    from sparkctl_vllm.serving import kernel_reader  # noqa: PLC0415 - only with a plan, and on a GPU

    kernel_reader.limit = lambda _: limit


def accounts() -> dict[str, Any]:
    """Return what the plug-in counted in this process, and whose kernels read."""
    from sparkctl_vllm.serving import operator  # noqa: PLC0415 - imports vLLM's layers, and only with a plan
    from sparkctl_vllm.serving.layer import serving  # noqa: PLC0415 - likewise

    budget = serving()
    readers = [one.__self__.reader for one in operator.LAYERS.values()]
    kernels = {
        type(kernel) for one in readers if hasattr(one, "loaded") for kernel in one.loaded.kernels.values()
    }
    figures = budget.figures
    return {
        "checksum": f"{budget.checksum:08x}",
        "read": figures.read.tolist(),
        "whole": figures.whole.tolist(),
        "steps": figures.steps.tolist(),
        "prefills": figures.single("steps_whole_prefill"),
        "nats": figures.single("nats"),
        "kernels": sorted(f"{one.__module__}.{one.__name__}" for one in kernels),
    }


def main(asking: str, answering: str) -> None:
    """Serve the prompts in one batch, then time decode steps."""
    asked = json.loads(Path(asking).read_text(encoding="utf-8"))
    clock, begin = Clock(), time.monotonic()
    if asked["clamp"]:
        clamped(asked["clamp"])
    engine = served(asked)
    answer: dict[str, Any] = {"start_s": time.monotonic() - begin}
    prompts = [{"prompt_token_ids": one} for one in asked["prompts"]]
    told = engine.generate(prompts, params(asked), use_tqdm=False)
    answer["replies"] = [reply(one) for one in told]
    config = engine.llm_engine.vllm_config.compilation_config
    answer["compilation"] = {"mode": str(config.mode), "graphs": str(config.cudagraph_mode), "sizes": list(config.cudagraph_capture_sizes or ())}  # fmt: skip
    if os.environ.get(PLAN):
        answer["accounts"] = accounts()
    if asked["steps"]:
        answer["times"] = [clock.round(rows, asked["steps"], engine) for rows in asked["rows"]]
    Path(answering).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
