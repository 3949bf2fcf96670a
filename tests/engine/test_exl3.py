"""Real vLLM with EXL3 experts of our own quantiser, read by our method: beside stock vLLM on the decoded numbers, with and without a plan."""

from typing import Any

import pytest

from .conftest import HERE, Engine
from .test_budget import EXACT, NOISE, TOKENS, Bench, apart, installed

pytestmark = pytest.mark.engine

ON = {"SPARKCTL_EXL3_EXPERTS": "1"}
SAME = 1e-3
"""Nats by which float32 over decoded weights may differ from float32 over weights that are decoded as they are read: sums in another order."""


@pytest.fixture(scope="module")
def bench(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The plug-in, the model in EXL3 and its decoded twin."""
    made = installed(engine, tmp_path_factory.mktemp("exl3"))
    made.python(str(HERE / "exl3_model.py"), str(engine.model), str(made.home / "made"))
    return made


def said(bench: Bench, plan: str | None = None, **asked: Any) -> dict[str, Any]:
    """What our method says, by a plan of one rank where one is named."""
    named = {"SPARKCTL_BUDGET_PLAN": str(bench.home / "made" / plan)} if plan else {}
    return bench.said(bench.home / "made" / "coded", ON | named, **{"dtype": "float32", **asked})


@pytest.fixture(scope="module")
def stock(bench: Bench) -> dict[str, Any]:
    """Stock vLLM in float32 on the decoded weights."""
    return bench.said(bench.home / "made" / "decoded", {}, dtype="float32")


def test_it_serves_what_the_checkpoint_says(bench: Bench, stock: dict[str, Any]) -> None:
    """In float32 the log-probabilities are stock's on the decoded weights; in bf16 they are as near to them as stock's in bf16."""
    assert apart(said(bench), stock, least=TOKENS) <= SAME
    rounded = bench.said(bench.home / "made" / "decoded", {}, dtype="bfloat16")
    noise = apart(rounded, stock, least=EXACT)
    assert apart(said(bench, dtype="bfloat16"), stock, least=EXACT) <= noise + NOISE


def test_a_cut_is_the_model_without_those_neurons(bench: Bench, stock: dict[str, Any]) -> None:
    """The silent block lies last: two of three blocks say what the whole model says, one says something else."""
    cut = said(bench, "two")
    assert apart(cut, stock, least=TOKENS) <= SAME
    assert [3 * one for one in cut["read"]] == [2 * one for one in cut["whole"]]
    assert sum(cut["steps"]) == TOKENS - 1
    shallow = said(bench, "one")
    pairs = zip(shallow["replies"], stock["replies"], strict=True)
    assert all(mine["tokens"] != its["tokens"] for mine, its in pairs)


def test_off_it_is_not_there(bench: Bench) -> None:
    """Without the setting vLLM knows nothing of it; with it the entry point may be called twice, and no name of another is taken."""
    asks = "from sparkctl_vllm.serving.registration import register as r; r(); r(); from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS as q; print([one for one in q if 'exl3' in one])"
    assert bench.python("-c", asks).splitlines()[-1] == "[]"
    assert bench.python("-c", asks, **ON).splitlines()[-1] == "['sparkctl_exl3']"


@pytest.mark.full
def test_two_ranks_share_unevenly(bench: Bench, stock: dict[str, Any]) -> None:
    """128 and 256 of 384 neurons, whole and cut to one block each."""
    pair = {"tensor_parallel_size": 2, "distributed_executor_backend": "mp"}
    for plan in (None, "coded/budget/plan"):
        assert apart(said(bench, plan, engine=pair), stock, least=TOKENS) <= SAME
