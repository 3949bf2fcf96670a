"""Binding: a plan that does not fit what is served is refused, with what was found and the remedy."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")
safetensors = pytest.importorskip(
    "safetensors.torch", reason="no safetensors here: run by scripts/check --engine"
)

from sparkctl_vllm import plan_file
from sparkctl_vllm.calibration import checkpoint
from sparkctl_vllm.plan_file import Meaning, Plan
from sparkctl_vllm.refusal import Refusal
from sparkctl_vllm.serving.binding import Bound, bound

EXPERTS, NEURONS, HIDDEN = 2, 128, 32


@pytest.fixture
def model(tmp_path):
    """A checkpoint whose routed layers are 1 and 3."""
    folder = tmp_path / "model"
    folder.mkdir()
    weights = {}
    for layer in (1, 3):
        for expert in range(EXPERTS):
            stem = f"model.layers.{layer}.mlp.experts.{expert}"
            weights[f"{stem}.gate_proj.weight"] = torch.randn(NEURONS, HIDDEN).bfloat16()
            weights[f"{stem}.up_proj.weight"] = torch.randn(NEURONS, HIDDEN).bfloat16()
            weights[f"{stem}.down_proj.weight"] = torch.randn(HIDDEN, NEURONS).bfloat16()
    safetensors.save_file(weights, str(folder / "model.safetensors"))
    (folder / "config.json").write_text(json.dumps({"model_type": "m"}), encoding="utf-8")
    return folder


def plan(folder, **changes):
    """A plan for two ranks of it."""
    meaning = Meaning(
        model="m", checkpoint=checkpoint.opened(folder).hashes(), experts=EXPERTS, layers=2, widths=(64, 64), tile=64, format="bf16",
        applied=False, eps=0.01, h=1.0, d_max=1.0, floor_tiles=1, min_tiles=1, corpus="", corpus_tokens=0, predicted={}, commit="",
    )  # fmt: skip
    meaning = replace(meaning, **changes)
    neurons = sum(meaning.widths)
    perm = np.tile(np.arange(neurons), (meaning.experts, 1)).astype(np.uint16)
    tables = {
        "price": np.ones((meaning.layers, 5), np.float32),
        "fisher": np.ones(meaning.layers, np.float32),
    }
    for layer in range(meaning.layers):
        tables[f"perm.L{layer}"] = perm
        tables[f"D.L{layer}"] = np.ones((meaning.experts, neurons // meaning.tile), np.float32)
        tables[f"count.L{layer}"] = np.ones(meaning.experts, np.uint32)
    return Plan(meaning=meaning, tables=tables)


def config(folder, ranks=2, **parallel):
    """As much of vLLM's configuration as is looked at."""
    return SimpleNamespace(
        model_config=SimpleNamespace(model=str(folder)),
        parallel_config=SimpleNamespace(tensor_parallel_size=ranks, **parallel),
    )


def test_a_plan_that_fits_knows_its_layers(model, tmp_path):
    """Layers of the plan are the routed ones, in their order."""
    plan_file.write(plan(model), tmp_path / "plan")
    fit = bound(tmp_path / "plan", config(model), 1)
    assert (fit.rank, dict(fit.places)) == (1, {1: 0, 3: 1})


def test_a_drafters_layers_have_no_place(model):
    """Those of the same checkpoint lie beyond the plan, those of another have numbers that the target took."""
    fit = Bound(plan=plan(model), rank=0, places={1: 0, 3: 1})
    assert [fit.place(layer, ()) for layer in (0, 1, 3, 4)] == [None, 0, 1, None]
    assert [fit.place(layer, {0, 1}) for layer in (1, 3)] == [None, None]


@pytest.mark.parametrize(
    ("changes", "served", "says"),
    [
        ({}, {"ranks": 4}, "ranks: 4, allowed: 2, what the plan was made for"),
        ({"widths": (192, 64)}, {}, "one width for all ranks"),
        ({"widths": (128, 128)}, {}, "neurons of layer 1: 128, allowed: 256"),
        ({"experts": 3}, {}, "experts of layer 1: 2, allowed: 3"),
        ({"layers": 1}, {}, r"\$\.layers: 1, allowed: 2"),
        ({"format": "mxfp4"}, {}, r"\$\.format: mxfp4, allowed: bf16"),
        ({"tile": 128, "widths": (128, 128)}, {}, r"\$\.tile: 128, allowed: 64"),
        ({"checkpoint": {"config.json": "aa"}}, {}, "calibrate on this checkpoint"),
        ({}, {"enable_expert_parallel": True}, "enable_expert_parallel, allowed: none of these"),
        ({}, {"pipeline_parallel_size": 2}, "pipeline_parallel_size: 2, allowed: 1"),
    ],
)
def test_what_does_not_fit_is_refused(model, tmp_path, changes, served, says):
    """Another checkpoint, layout, width or way of spreading the model."""
    plan_file.write(plan(model, **changes), tmp_path / "plan")
    with pytest.raises(Refusal, match=says):
        bound(tmp_path / "plan", config(model, **served), 0)


def test_a_model_by_its_name_is_refused(tmp_path):
    """A plan is bound to files."""
    with pytest.raises(Refusal, match="name its folder"):
        bound(tmp_path / "plan", config("someone/some-model"), 0)
