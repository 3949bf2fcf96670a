"""The configuration that vLLM gets of an EXL3 checkpoint: experts are ours, everything else is as the model's own has it.

Asked in a process of its own: vLLM sets up logging and warnings for the whole of one.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")

from .. import exl3_tiny as tiny

pytestmark = pytest.mark.skipif(
    find_spec("vllm") is None, reason="no vLLM here: run by scripts/check --engine"
)

SAYS = """
import copy, json, pickle, sys
from types import SimpleNamespace
from vllm.model_executor.layers.linear import LinearBase
from sparkctl_vllm.refusal import Refusal
from sparkctl_vllm.serving import exl3_config
from sparkctl_vllm.serving.exl3_config import Exl3Config

class Linear(LinearBase):
    def __init__(self):
        pass

def looked(folder, block):
    made = Exl3Config.from_config(block)
    made.maybe_update_config(folder, hf_config=SimpleNamespace(model_type="m"))
    return made

def refused(folder):
    try:
        looked(folder, {"quant_method": "exl3"})
    except Refusal as refusal:
        return str(refusal)

folder, block = sys.argv[1], json.loads(sys.argv[2])
plain, nested = looked(folder, {"quant_method": "exl3"}), looked(folder, block)
copies = [copy.deepcopy(nested), pickle.loads(pickle.dumps(nested))]
answer = {
    "claims": [Exl3Config.override_quantization_method({"quant_method": one}, None) for one in ("exl3", "fp8")],
    "layers": sorted(plain.layers),
    "linear": type(plain.get_quant_method(Linear(), "model.layers.1.self_attn.qkv_proj")).__name__,
    "head": plain.get_quant_method(object(), "lm_head"),
    "blocks": [getattr(one, "weight_block_size", None) for one in (plain, nested, *copies)],
    "rest": [type(one.rest).__name__ for one in (plain, nested, *copies)],
    "shared": [one.rest.packed_modules_mapping is one.packed_modules_mapping for one in (nested, *copies)],
    "hub": refused("someone/model"),
}
from vllm.model_executor.layers import quantization
from sparkctl_vllm.serving import exl3_experts
from sparkctl_vllm.serving.settings import Settings

answer["alone"] = exl3_config._others()
exl3_experts.install(Settings(exl3=True))
theirs = type("Theirs", (Exl3Config,), {"override_quantization_method": classmethod(lambda *_, **__: None)})
quantization.register_quantization_config("exl3")(theirs)
exl3_experts.install(Settings(exl3=True))
found = {one: quantization.get_quantization_config(one) for one in quantization.QUANTIZATION_METHODS}
answer["takes"] = [name for name, one in found.items() if one.override_quantization_method({"quant_method": "exl3"}, "exl3")]
answer["kept"] = found["exl3"] is theirs
answer["beside"] = exl3_config._others()
exl3_config.current_platform = SimpleNamespace(is_cpu=lambda: False, is_cuda=lambda: False, device_type="xpu")
answer["gpu"] = refused(folder)
print(json.dumps(answer))
"""
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the configuration says of a checkpoint, with and without a quantisation of all else."""
    folder = tiny.saved(tmp_path_factory.mktemp("config") / "model")
    block = {"quant_method": "exl3", "original_quantization_config": FP8}
    plugin = str(Path(__file__).parents[3] / "vllm_plugin")
    done = subprocess.run(
        [sys.executable, "-c", SAYS, str(folder), json.dumps(block)],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": plugin},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_it_takes_checkpoints_that_call_themselves_exl3(told):
    """By a name of its own: cuda-exl3 keeps that of the format."""
    assert told["claims"] == ["sparkctl_exl3", None]
    assert told["layers"] == [1, 3]


def test_it_stands_beside_the_plug_in_that_has_the_formats_name(told):
    """Whoever comes last: theirs keeps the name, ours takes the checkpoint, and the log says that it is there."""
    assert told["takes"] == ["sparkctl_exl3"]
    assert told["kept"] is True
    assert (told["alone"], told["beside"]) == (
        "cuda-exl3 is not installed",
        "cuda-exl3 is here and stands aside",
    )


def test_all_else_is_plain_where_the_model_has_no_quantisation(told):
    """A bf16 model keeps its linear layers and its head."""
    assert (told["linear"], told["head"]) == ("UnquantizedLinearMethod", None)
    assert (told["rest"][0], told["blocks"][0]) == ("NoneType", None)


def test_all_else_is_the_models_own_quantisation_where_it_has_one(told):
    """As vLLM itself would have read the nested block; what models look for in it is found, in a copy of another process too."""
    assert told["rest"][1:] == ["Fp8Config"] * 3
    assert told["blocks"][1:] == [[128, 128]] * 3
    assert told["shared"] == [True] * 3


def test_what_cannot_be_read_is_told(told):
    """A name of a hub, whose headers lie elsewhere, and a GPU, with what serves there."""
    assert "model: someone/model, allowed: a folder" in told["hub"]
    assert "device: xpu, allowed: cpu, or cuda" in told["gpu"]
    assert "leave SPARKCTL_EXL3_EXPERTS out" in told["gpu"]
