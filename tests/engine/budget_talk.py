"""What real vLLM answers in this process: `budget_talk.py MODEL REQUESTS`, run by the engine's own Python, one JSON document on stdout.

REQUESTS is JSON: prompts, tokens, and the engine's own arguments. The plug-in is on or off by the environment, as for any owner.
"""

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from vllm import LLM, SamplingParams

from sparkctl_vllm.serving.budget import Budget
from sparkctl_vllm.serving.layer import serving
from sparkctl_vllm.serving.roster import Batch, Work

BLOCK = 32
"""Tokens of a block of the prefix cache: the least that the CPU takes."""


def watched(budget: Budget) -> list[dict[str, Any]]:
    """Return a list that every charge of a step is written into: by request its rows, how many gave a token, their costs, what it owes."""
    steps: list[dict[str, Any]] = []
    own = budget.charge

    def charge(batch: Batch, accepted: dict[str, int]) -> None:
        cost = budget.running.cost.tolist()
        own(batch, accepted)
        ends = (*batch.starts[1:], batch.rows)
        spans = zip(batch.requests, batch.slots, batch.starts, ends, strict=True)
        steps.append(
            {
                name: {
                    "cost": cost[start:end],
                    "accepted": accepted.get(name, 0),
                    "owed": int(budget.ledger.owed[slot]),
                }
                for name, slot, start, end in spans
            }
        )

    budget.charge = charge  # type: ignore[method-assign,assignment]
    return steps


def returns(budget: Budget) -> list[str]:
    """Return a list that every request is written into that had decoded before and is computed again: it was preempted."""
    decoded: set[str] = set()
    back: list[str] = []
    own = budget.begin

    def begin(work: Sequence[Work]) -> None:
        own(work)
        back.extend(one.request for one in work if not one.decoding and one.request in decoded)
        decoded.update(one.request for one in work if one.decoding)

    budget.begin = begin  # type: ignore[method-assign]
    return back


def _reply(one: Any) -> dict[str, Any]:
    made = one.outputs[0]
    steps = [place[token].logprob for place, token in zip(made.logprobs, made.token_ids, strict=True)]
    return {
        "tokens": list(made.token_ids),
        "logprobs": steps,
        "cached": one.num_cached_tokens,
        "asked": len(one.prompt_token_ids),
    }


def main(model: str, requests: str) -> None:
    """Serve the prompts in one batch and print tokens, their log-probabilities, and the budget's state where there is one."""
    asked = json.loads(requests)
    engine = LLM(
        model=model,
        dtype=asked.get("dtype", "bfloat16"),
        max_model_len=512,
        max_num_seqs=8,
        block_size=BLOCK,
        enforce_eager=asked.pop("eager", True),
        kv_cache_memory_bytes=1 << 28,
        **asked.get("engine", {}),
    )
    extra = asked.get("extra") or [None] * len(asked["prompts"])
    sampling = [
        SamplingParams(temperature=0, max_tokens=asked["tokens"], logprobs=0, ignore_eos=True, extra_args=one)
        for one in extra
    ]
    answer: dict[str, Any] = {"replies": []}
    # Over several ranks the budget stands in processes of their own, where nobody watches it.
    plugged = bool(os.environ.get("SPARKCTL_BUDGET_PLAN")) and "tensor_parallel_size" not in asked.get(
        "engine", {}
    )
    if plugged:
        answer["ledger"] = watched(serving())
        answer["back"] = returns(serving())
    prompts = asked["prompts"]
    for _ in range(2 if asked.get("again") else 1):
        told = engine.generate(prompts, sampling, use_tqdm=False)
        answer["replies"] += [_reply(one) for one in told]
        # Once more as the next turn of the same talk: what was asked and what was replied.
        prompts = [{"prompt_token_ids": [*one.prompt_token_ids, *one.outputs[0].token_ids]} for one in told]
    if plugged:
        budget = serving()
        answer["read"], answer["whole"] = budget.figures.read.tolist(), budget.figures.whole.tolist()
        answer["steps"] = budget.figures.steps.tolist()
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
