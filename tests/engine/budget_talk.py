"""What real vLLM answers in this process: `budget_talk.py MODEL REQUESTS`, run by the engine's own Python, one JSON document on stdout.

REQUESTS is JSON: prompts, tokens, and the engine's own arguments. The plug-in is on or off by the environment, as for any owner.
"""

import json
import os
import sys

from vllm import LLM, SamplingParams


def main(model: str, requests: str) -> None:
    """Serve the prompts in one batch and print tokens, their log-probabilities, and the budget's state where there is one."""
    asked = json.loads(requests)
    engine = LLM(
        model=model,
        dtype="bfloat16",
        max_model_len=512,
        max_num_seqs=8,
        enforce_eager=asked.pop("eager", True),
        kv_cache_memory_bytes=1 << 28,
        **asked.get("engine", {}),
    )
    extra = asked.get("extra") or [None] * len(asked["prompts"])
    sampling = [
        SamplingParams(temperature=0, max_tokens=asked["tokens"], logprobs=0, ignore_eos=True, extra_args=one)
        for one in extra
    ]
    answer = {"replies": []}
    for _ in range(asked.get("rounds", 1)):
        for one in engine.generate(asked["prompts"], sampling, use_tqdm=False):
            made = one.outputs[0]
            steps = [place[token].logprob for place, token in zip(made.logprobs, made.token_ids, strict=True)]
            reply = {"tokens": list(made.token_ids), "logprobs": steps, "cached": one.num_cached_tokens}
            answer["replies"].append(reply)
    if os.environ.get("SPARKCTL_BUDGET_PLAN"):
        from sparkctl_vllm.serving.layer import serving

        budget = serving()
        answer["owed"] = {name: int(budget.ledger.owed[slot]) for name, slot in budget.roster.slots.items()}
        answer["read"], answer["whole"] = budget.figures.read.tolist(), budget.figures.whole.tolist()
        answer["steps"] = budget.figures.steps.tolist()
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
