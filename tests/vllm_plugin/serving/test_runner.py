"""Runner: a step of vLLM's model runner, as it is called, tells the budget what is scheduled, whose rows those are and what was accepted."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")

from sparkctl_vllm.refusal import Refusal
from sparkctl_vllm.serving import runner
from sparkctl_vllm.serving.roster import Work


def scheduled(rows, drafts=(), fresh=(), finished=()):
    """What vLLM's scheduler hands to a worker."""
    return SimpleNamespace(
        num_scheduled_tokens=rows,
        scheduled_spec_decode_tokens=dict(drafts),
        scheduled_new_reqs=list(fresh),
        finished_req_ids=set(finished),
    )


def batch(**rows):
    """The runner's own table: by request tokens computed, of the prompt, and known. It is longer than the requests in it."""
    columns = np.array([*rows.values(), (0, 0, 0)])
    return SimpleNamespace(
        req_ids=[*rows],
        num_reqs=len(rows),
        num_computed_tokens_cpu=columns[:, 0],
        num_prompt_tokens=columns[:, 1],
        num_tokens_no_spec=columns[:, 2],
    )


class Told:
    """A budget that writes down what it is told."""

    def __init__(self):
        self.calls = []
        self.batch = None

    def close(self):
        """End the step."""
        batch, self.batch = self.batch, None
        self.calls.append("close")
        return batch

    def turnover(self, finished, arrived):
        """Who ended and who came."""
        self.calls.append(("turnover", sorted(finished), dict(arrived)))

    def begin(self, work):
        """A step."""
        self.calls.append(("begin", [one.request for one in work]))
        self.batch = "the step"

    def charge(self, batch, accepted):
        """Its charge."""
        self.calls.append(("charge", batch, dict(accepted)))


@pytest.fixture
def made(monkeypatch):
    """A runner of vLLM's shape, wrapped, and the budget that it tells."""

    class GPUModelRunner:
        def __init__(self):
            self.input_batch = batch(a=(10, 10, 11), b=(12, 10, 13))

        def execute_model(self, scheduled, intermediate_tensors=None):  # noqa: ARG002 - vLLM's signature
            return self._prepare_inputs(scheduled, None)

        def _prepare_inputs(self, scheduled, counts):  # noqa: ARG002 - vLLM's signature
            return "prepared"

        def sample_tokens(self, grammar):  # noqa: ARG002 - vLLM's signature
            assert told.batch is None, "a drafter runs in here, and must not see the step"
            return SimpleNamespace(sampled_token_ids=[[5], []], req_id_to_index={"a": 0, "b": 1, "gone": 7})

        def _dummy_run(self):
            return "dummy"

    module = ModuleType("vllm.v1.worker.gpu_model_runner")
    module.GPUModelRunner = GPUModelRunner
    for name in ("vllm", "vllm.v1", "vllm.v1.worker"):
        monkeypatch.setitem(sys.modules, name, sys.modules.get(name, ModuleType(name)))
    monkeypatch.setitem(sys.modules, "vllm.v1.worker.gpu_model_runner", module)
    told = Told()
    runner.attach(told)
    wrapped = GPUModelRunner.execute_model
    runner.attach(told)
    assert GPUModelRunner.execute_model is wrapped, "wrapped once"
    return GPUModelRunner(), told


def test_a_step_is_told_in_its_order(made):
    """Accounts turn over before the rows are known, the step is closed before anything samples or drafts, and is then charged."""
    engine, told = made
    fresh = [SimpleNamespace(req_id="b", sampling_params=SimpleNamespace(extra_args={"sparkctl_full": 1}))]
    assert engine.execute_model(scheduled({"a": 1, "b": 1}, fresh=fresh, finished={"z"})) == "prepared"
    engine.sample_tokens(None)
    assert told.calls == [
        "close",
        ("turnover", ["z"], {"b": {"sparkctl_full": 1}}),
        ("begin", ["a", "b"]),
        "close",
        ("charge", "the step", {"a": 1, "b": 0}),
    ]


def test_a_dummy_run_is_no_step(made):
    """Profiling and warm-up pass none of the three."""
    engine, told = made
    assert engine._dummy_run() == "dummy"
    engine.sample_tokens(None)
    assert told.calls == ["close"], "and nothing is charged for what was not announced"


def test_a_step_that_failed_is_not_charged(made):
    """The next one begins anew."""
    engine, told = made
    engine.execute_model(scheduled({"a": 1, "b": 1}))
    engine.execute_model(scheduled({"a": 1, "b": 1}))
    engine.sample_tokens(None)
    assert [one for one in told.calls if one[0] == "charge"] == [("charge", "the step", {"a": 1, "b": 0})]


def test_rows_are_in_the_runners_order():
    """Not in the scheduler's; drafts count as rows, and a prompt's last token is no decode."""
    held = batch(draws=(20, 10, 21), prompt=(9, 10, 10), again=(13, 10, 15))
    found = runner.works(held, scheduled({"prompt": 1, "again": 1, "draws": 4}, drafts={"draws": [1, 2, 3]}))
    assert found == (
        Work(request="draws", rows=4, decoding=True),
        Work(request="prompt", rows=1, decoding=False),
        Work(request="again", rows=1, decoding=False),
    )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"cpu": False}, "device: xpu, allowed: cpu, or cuda"),
        ({"use_v2_model_runner": True}, "model runner: V2, allowed: V1"),
        ({"async_scheduling": True}, "scheduling: asynchronous"),
    ],
)
def test_what_was_not_tried_is_refused(changes, says):
    """With what would be taken instead."""
    platform = SimpleNamespace(
        is_cpu=lambda: changes.get("cpu", True), is_cuda=lambda: False, device_type="xpu"
    )
    config = SimpleNamespace(
        use_v2_model_runner=changes.get("use_v2_model_runner", False),
        scheduler_config=SimpleNamespace(async_scheduling=changes.get("async_scheduling", False)),
    )
    with pytest.raises(Refusal, match=says):
        runner.device(config, platform)
