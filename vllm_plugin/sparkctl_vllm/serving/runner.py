"""Runner: where vLLM's model runner schedules, computes and samples a step, the budget is told. The only module that knows its inside.

Three of its methods are wrapped, once: what is scheduled and whose accounts end (`execute_model`), the rows in their order
(`_prepare_inputs`), and how many tokens each request got (`sample_tokens`).
"""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import torch

from sparkctl_vllm.refusal import demand
from sparkctl_vllm.serving import roster
from sparkctl_vllm.serving.budget import Budget
from sparkctl_vllm.serving.roster import Work

MARK = "_sparkctl_budget"


def device(config: Any, platform: Any) -> torch.device:
    """Return the device to serve on; refuse what was not tried."""
    demand(
        platform.is_cpu() or platform.is_cuda(),
        "device",
        platform.device_type,
        "cpu, or cuda",
        "budget reads have kernels for NVIDIA GPUs only: leave SPARKCTL_BUDGET_PLAN out here",
    )
    demand(not config.use_v2_model_runner, "model runner", "V2", "V1", "set VLLM_USE_V2_MODEL_RUNNER=0")
    demand(
        not config.scheduler_config.async_scheduling,
        "scheduling",
        "asynchronous",
        "synchronous",
        "--no-async-scheduling",
    )
    return torch.device("cpu") if platform.is_cpu() else torch.device("cuda", torch.cuda.current_device())


def attach(budget: Budget) -> None:
    """Wrap the runner's class, which is imported by now."""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner  # noqa: PLC0415 - heavy, and wanted only here

    if getattr(GPUModelRunner, MARK, None) is None:
        GPUModelRunner.execute_model = _executing(GPUModelRunner.execute_model)
        GPUModelRunner._prepare_inputs = _preparing(GPUModelRunner._prepare_inputs)  # noqa: SLF001 - see above
        GPUModelRunner.sample_tokens = _sampling(GPUModelRunner.sample_tokens)
    setattr(GPUModelRunner, MARK, budget)


def _executing(own: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(own)
    def execute_model(self: Any, scheduled: Any, *more: Any, **named: Any) -> Any:
        budget: Budget = getattr(self, MARK)
        budget.close()
        budget.turnover(scheduled.finished_req_ids, arrivals(scheduled))
        return own(self, scheduled, *more, **named)

    return execute_model


def _preparing(own: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(own)
    def _prepare_inputs(self: Any, scheduled: Any, *more: Any, **named: Any) -> Any:
        answer = own(self, scheduled, *more, **named)
        getattr(self, MARK).begin(works(self.input_batch, scheduled))
        return answer

    return _prepare_inputs


def _sampling(own: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(own)
    def sample_tokens(self: Any, *more: Any, **named: Any) -> Any:
        budget: Budget = getattr(self, MARK)
        batch = budget.close()
        answer = own(self, *more, **named)
        if batch is not None:
            budget.charge(batch, accepted(answer))
        return answer

    return sample_tokens


def arrivals(scheduled: Any) -> Mapping[str, Mapping[str, object] | None]:
    """Return the requests that are scheduled for the first time, by name with their extra arguments."""
    return {
        one.req_id: None if one.sampling_params is None else one.sampling_params.extra_args
        for one in scheduled.scheduled_new_reqs
    }


def works(batch: Any, scheduled: Any) -> tuple[Work, ...]:
    """Return what is scheduled of each request, in the order of its rows."""
    drafts = scheduled.scheduled_spec_decode_tokens
    answer = []
    for place, name in enumerate(batch.req_ids[: batch.num_reqs]):
        rows = int(scheduled.num_scheduled_tokens[name])
        decoding = roster.decoding(
            scheduled=rows,
            drafts=len(drafts.get(name, ())),
            computed=int(batch.num_computed_tokens_cpu[place]),
            prompt=int(batch.num_prompt_tokens[place]),
            known=int(batch.num_tokens_no_spec[place]),
        )
        answer.append(Work(request=name, rows=rows, decoding=decoding))
    return tuple(answer)


def accepted(answer: Any) -> Mapping[str, int]:
    """Return how many tokens each request was given by a step."""
    made = answer.sampled_token_ids
    return {name: len(made[place]) for name, place in answer.req_id_to_index.items() if place < len(made)}
