"""Overlay: dotted settings on a recipe."""

import pytest

from launcher.overlay import overlay
from launcher.recipe import Argument, EngineFacts, Recipe
from sparkctl.errors import UsageFault


def test_settings_change_what_they_name(recipe: Recipe, engine: EngineFacts) -> None:
    """Arguments, environment and sections change; the rest and the recipe itself stay."""
    settings = {
        "args.max-num-seqs": 16,
        "args.async-scheduling": True,
        "env.NCCL_MAX_NCHANNELS": "8",
        "memory.kv_cache_gib": 16,
        "speculative.tokens": 3,
        "graphs.mode": "PIECEWISE",
    }
    changed = overlay(recipe, settings, engine)
    assert changed.args["max-num-seqs"] == 16
    assert changed.args["async-scheduling"] is True
    assert changed.env["NCCL_MAX_NCHANNELS"] == "8"
    assert changed.memory.kv_cache_gib == 16.0
    assert isinstance(changed.memory.kv_cache_gib, float)
    assert changed.speculative is not None
    assert changed.speculative.tokens == 3
    assert recipe.args["max-num-seqs"] == 8
    assert overlay(recipe, {}, engine) == recipe


def test_a_plan_switches_budget_reads_on_and_none_off(recipe: Recipe, engine: EngineFacts) -> None:
    """What the plug-in is told follows from one section, and every rank's log must then prove it."""
    assert not recipe.proofs.keys() & {"budget"}
    on = overlay(recipe, {"budget.plan": "/plans/half"}, engine)
    assert on.environment["SPARKCTL_BUDGET_PLAN"] == "/plans/half"
    assert on.environment["SPARKCTL_BUDGET_POLICY"] == "water-filled"
    assert on.environment["VLLM_USE_V2_MODEL_RUNNER"] == "0"
    assert on.flags["async-scheduling"] is False
    assert overlay(on, {"args.async-scheduling": True}, engine).flags["async-scheduling"] is True, "asked for"
    assert on.proofs["budget"] == "on, plan"
    off = overlay(on, {"budget.plan": ""}, engine)
    assert off.environment == recipe.environment
    assert off.flags == recipe.flags
    assert off.proofs == recipe.proofs


def test_engram_rows_come_by_the_plug_in_and_stay_in_memory_as_asked(
    recipe: Recipe, engine: EngineFacts
) -> None:
    """The plug-in's wording replaces the fork's that the recipe expects; without resident rows there is no choice to prove."""
    rows = overlay(recipe, {"engram.rows": "/engram-local"}, engine)
    assert rows.environment["SPARKCTL_ENGRAM_ROWS"] == "/engram-local"
    assert rows.proofs["engram"] == "reads rows"
    assert "engram_rows" not in rows.proofs
    kept = overlay(rows, {"engram.resident": 5_000_000, "engram.format": "fp4"}, engine)
    assert kept.environment["SPARKCTL_ENGRAM_RESIDENT"] == "5000000"
    assert kept.environment["SPARKCTL_ENGRAM_FORMAT"] == "fp4"
    assert kept.proofs["engram_rows"] == "keeps"
    assert overlay(kept, {"engram.resident": 0}, engine).environment == rows.environment
    off = overlay(kept, {"engram.rows": "", "engram.resident": 0}, engine)
    assert off.environment == recipe.environment
    assert off.proofs == recipe.proofs


def test_exl3_experts_are_cuda_exl3s_until_the_plug_in_is_asked_for(
    recipe: Recipe, engine: EngineFacts
) -> None:
    """One key, one variable, one proof of every rank; the default tells the plug-in nothing."""
    assert recipe.exl3.experts == "cuda-exl3"
    assert "SPARKCTL_EXL3_EXPERTS" not in recipe.environment
    ours = overlay(recipe, {"exl3.experts": "sparkctl"}, engine)
    assert ours.environment["SPARKCTL_EXL3_EXPERTS"] == "1"
    assert ours.proofs["exl3"] == "on, "
    assert overlay(ours, {"exl3.experts": "cuda-exl3"}, engine) == recipe


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("args.max-num-seq", 8, "did you mean max-num-seqs?"),
        ("env.SPARKCTL_BUDGET_PLAN", "/p", "SPARKCTL_BUDGET_PLAN follow from budget"),
        ("env.SPARKCTL_ENGRAM_ROWS", "/p", "SPARKCTL_ENGRAM_ROWS follow from budget, engram and exl3"),
        ("env.SPARKCTL_EXL3_EXPERTS", "1", "SPARKCTL_EXL3_EXPERTS follow from budget, engram and exl3"),
        ("exl3.experts", "ours", "cuda-exl3"),
        ("engram.resident", 5, "set engram.rows"),
        ("engram.resident", -1, "0 or more"),
        ("engram.format", "fp2", "fp8"),
        ("budget.depth", 0.5, "unknown recipe key; budget has plan, policy"),
        ("args.headless", True, "follows from the inventory"),
        ("args.gpu-memory-utilization", 0.8, "set that instead"),
        ("memory.utilization", 0.8, "did you mean utilisation?"),
        ("memory.utilisation", "0.8", "wanted float, found '0.8'"),
        ("memory.container_gib", 1.5, "wanted int, found 1.5"),
        ("memory.container_gib", True, "wanted int, found True"),
        ("graphs.mode", "ALL", "wanted one of NONE"),
        ("env.NCCL_X", 8, "wanted text (quote it for YAML and the shell"),
        ("env.NOT A NAME", "1", "letters, digits and underscores"),
        ("env.NCCL_X", "{nope}", "unknown placeholder {nope}"),
        ("args.max-num-seqs", "8", "max-num-seqs must be a whole number"),
        ("args.max-model-len", None, "wanted text, a number, true, false, a list or a mapping; found None"),
        ("args.max-num-seqs", 10**9, "max-num-seqs must be a whole number from 1 to 4096"),
        ("args.max-model-len", float("nan"), "wanted a finite number, found nan"),
        ("memory.free_floor_gib", float("inf"), "wanted a finite number, found inf"),
        ("speculative.tokens", 0, "tokens: wanted 1 to 64, found 0"),
        ("parallel.tensor", -4, "wanted at least 1, found -4, 1 and 1"),
        ("memory.container_gib", 0, "wanted at least 1, found 0 and 16"),
        ("engine.image", "-x", "wanted the name of a container image"),
        ("engine.version", "9", "an engine cannot be changed by a setting"),
        ("env.X", "a\0b", "X holds a NUL character"),
        ("ready.poll_s", -1, "poll_s: wanted more than 0, found -1"),
        ("ready.limit_s", 60, "unknown recipe key; ready has poll_s, silence_s"),
        ("memory.guard", "off", "wanted one of enforce, observe"),
        ("memory.utilisation", 1.5, "wanted a share above 0 and at most 1"),
        ("model.path", "/x", "unknown recipe key"),
        ("utilisation", 0.8, "unknown recipe key"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_reason(
    recipe: Recipe, engine: EngineFacts, key: str, value: object, said: str
) -> None:
    """A key that names nothing or a value that does not fit says what was wanted."""
    with pytest.raises(UsageFault) as caught:
        overlay(recipe, {key: value}, engine)  # type: ignore[dict-item]
    assert key in caught.value.message
    assert said in caught.value.message


def test_all_faults_come_at_once(recipe: Recipe, engine: EngineFacts) -> None:
    """Two wrong keys are told in one message, so that one look mends both."""
    with pytest.raises(UsageFault) as caught:
        overlay(recipe, {"args.nope": 1, "env.X": 1}, engine)
    assert len(caught.value.message.splitlines()) == 2


@pytest.mark.parametrize("keys", [("backend", "tensor", "data"), ("data", "tensor", "backend")])
def test_keys_that_only_fit_together_may_come_in_any_order(
    recipe: Recipe, engine: EngineFacts, keys: tuple[str, ...]
) -> None:
    """Copies of the model want Ray: both are set at once, whichever was named first."""
    values: dict[str, Argument] = {"backend": "ray", "tensor": 2, "data": 2}
    changed = overlay(recipe, {f"parallel.{key}": values[key] for key in keys}, engine)
    assert (changed.parallel.backend, changed.parallel.data, changed.nodes) == ("ray", 2, 4)
