"""Configuration of EXL3 checkpoints in vLLM: routed experts are ours, everything else is served as the model's own configuration has it.

It has a name of its own in vLLM's registry and takes checkpoints that call themselves `exl3`, so it stands beside cuda-exl3, which has
that name, in whatever order plug-ins are called; which one serves is the owner's setting alone.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from vllm.model_executor.layers.fused_moe import RoutedExperts
from vllm.model_executor.layers.linear import LinearBase, UnquantizedLinearMethod
from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS, get_quantization_config
from vllm.model_executor.layers.quantization.base_config import QuantizationConfig, QuantizeMethodBase
from vllm.model_executor.models.utils import extract_layer_index
from vllm.platforms import current_platform

from sparkctl_vllm.exl3 import servable
from sparkctl_vllm.refusal import demand
from sparkctl_vllm.serving.exl3_method import Exl3Method

if TYPE_CHECKING:
    from sparkctl_vllm.exl3.checkpoint import Shape

THEIRS = "exl3"
NAME = "sparkctl_exl3"
WITHIN = "original_quantization_config"
"""The block of config.json in which the model keeps the quantisation of all that is no routed expert."""


class Exl3Config(QuantizationConfig):
    """An EXL3 checkpoint: its layers of coded experts, and the configuration of everything else, where the model has one."""

    def __init__(self, block: dict[str, Any]) -> None:
        super().__init__()
        self.block = block
        self.layers: dict[int, Shape] = {}
        self.rest: QuantizationConfig | None = None

    def __getattr__(self, name: str) -> Any:
        """Return what models look for in their own configuration, the size of FP8 blocks for one."""
        rest = self.__dict__.get("rest")
        if rest is None or name.startswith("__"):
            raise AttributeError(name)
        return getattr(rest, name)

    def get_name(self) -> str:
        """Return the name in vLLM's registry."""
        return NAME

    def get_supported_act_dtypes(self) -> list[torch.dtype]:
        """Return the types of activations; float32 is for comparisons on a CPU."""
        return [torch.bfloat16, torch.float32]

    @classmethod
    def get_min_capability(cls) -> int:
        """Return the least GPU: the kernel is built for sm_90 and sm_121."""
        return 90

    @staticmethod
    def get_config_filenames() -> list[str]:
        """Return nothing: config.json holds the summary, and everything else is read from the weights' headers."""
        return []

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Exl3Config":
        """Take the block of config.json; the checkpoint is looked at when its folder is known."""
        return cls(config)

    @classmethod
    def override_quantization_method(
        cls, hf_quant_cfg: dict[str, Any], user_quant: str | None, hf_config: Any = None
    ) -> str | None:
        """Take checkpoints that call themselves EXL3: installed only where an owner asked for it."""
        return NAME if hf_quant_cfg.get("quant_method") == THEIRS else None

    def maybe_update_config(
        self, model_name: str, hf_config: Any = None, revision: str | None = None
    ) -> None:
        """Look at the checkpoint's headers, and take in the configuration of all that is no expert."""
        demand(
            current_platform.is_cpu() or current_platform.is_cuda(),
            "device",
            current_platform.device_type,
            "cpu, or cuda",
            "EXL3 experts of ours have a kernel for NVIDIA GPUs only: leave SPARKCTL_EXL3_EXPERTS out here",
        )
        folder = Path(model_name)
        demand(folder.is_dir(), "model", model_name, "a folder: the headers of its weights are read", "download the model and name its folder")  # fmt: skip
        self.layers = dict(servable.layers(folder))
        self.rest = _rest(self.block.get(WITHIN), hf_config)
        if self.rest is not None:
            self.rest.packed_modules_mapping = self.packed_modules_mapping
            self.rest.maybe_update_config(model_name, hf_config=hf_config)

    def apply_vllm_mapper(self, hf_to_vllm_mapper: Any) -> None:
        """Hand the model's names on."""
        if self.rest is not None:
            self.rest.apply_vllm_mapper(hf_to_vllm_mapper)

    def get_quant_method(self, layer: torch.nn.Module, prefix: str) -> QuantizeMethodBase | None:
        """Return our method for experts that are EXL3, and the model's own for everything else."""
        if isinstance(layer, RoutedExperts):
            number = extract_layer_index(prefix)
            if number in self.layers:
                return Exl3Method(layer.moe_config, self.layers, number, _others())
        if self.rest is not None:
            return self.rest.get_quant_method(layer, prefix)
        return UnquantizedLinearMethod() if isinstance(layer, LinearBase) else None


def _others() -> str:
    there = THEIRS in QUANTIZATION_METHODS
    return "cuda-exl3 is here and stands aside" if there else "cuda-exl3 is not installed"


def _rest(block: dict[str, Any] | None, hf_config: Any) -> QuantizationConfig | None:
    """Return the configuration that vLLM would have made of a block, by its own rule: whoever claims it first, else its name."""
    if block is None:
        return None
    named = str(block["quant_method"])
    for name in QUANTIZATION_METHODS:
        claims = get_quantization_config(name).override_quantization_method
        if name not in {NAME, THEIRS} and (claimed := claims(block, None, hf_config=hf_config)):
            named = claimed
            break
    return get_quantization_config(named).from_config(block)
