"""Config: what config.json, quantization_config.json and the index of a checkpoint say once its routed experts are EXL3. Pure.

config.json gets a summary, quantization_config.json beside the weights the same with a table of all modules (exllamav3:
exllamav3/conversion/compile.py, quant_config.py; cuda-exl3 reads both).
"""

from collections.abc import Mapping
from typing import Any

from sparkctl_vllm.exl3.allocation import Rates, average
from sparkctl_vllm.exl3.codebook import MARKERS
from sparkctl_vllm.exl3.shards import Entry

NAMES = {"I16": "torch.int16", "I32": "torch.int32", "F16": "torch.float16", "BF16": "torch.bfloat16", "F32": "torch.float32"}  # fmt: skip
"""Types of safetensors as the table calls them; others in small letters."""


def summary(
    before: Mapping[str, Any], rates: Rates, calibration: Mapping[str, int], version: str
) -> dict[str, Any]:
    """Return the block `quantization_config`; what the model had of its own is kept inside, for everything that is not an expert."""
    block: dict[str, Any] = {
        "quant_method": "exl3",
        "version": version,
        "bits": round(average(rates), 4),
        "head_bits": 16,
        "codebook": "mul1",
        "calibration": dict(calibration),
        "out_scales": "always",
        "expert_bits": {str(layer): dict(one) for layer, one in rates.items()},
    }
    if "quantization_config" in before:
        block["original_quantization_config"] = before["quantization_config"]
    return block


def table(tensors: Mapping[str, Entry]) -> dict[str, Any]:
    """Return `tensor_storage`: every module with its tensors, and how the EXL3 ones are coded."""
    modules: dict[str, dict[str, Entry]] = {}
    for name, one in sorted(tensors.items()):
        modules.setdefault(name.rsplit(".", 1)[0], {})[name] = one
    return {module: _module(module, held) for module, held in modules.items()}


def index(before: Mapping[str, Any], tensors: Mapping[str, Entry]) -> dict[str, Any]:
    """Return model.safetensors.index.json for these tensors."""
    total = {"total_size": sum(one.size for one in tensors.values())}
    names = {name: one.file.name for name, one in sorted(tensors.items())}
    return {**before, "metadata": {**before.get("metadata", {}), **total}, "weight_map": names}


def _module(module: str, held: Mapping[str, Entry]) -> dict[str, Any]:
    stored = {
        name: {
            "shape": list(one.shape),
            "n_bytes": one.size,
            "dtype": NAMES.get(one.dtype, f"torch.{one.dtype.lower()}"),
        }
        for name, one in held.items()
    }
    trellis = held.get(f"{module}.trellis")
    if trellis is None:
        return {"stored_tensors": stored}
    coded = {"quant_format": "exl3", "bits_per_weight": trellis.shape[2] // 16}
    return {"stored_tensors": stored, **coded, "mul1_multiplier": MARKERS["mul1"]}
