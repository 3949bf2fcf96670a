"""EXL3 experts as a feature of vLLM: our configuration joins its registry, once a process."""

from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS, register_quantization_config

from sparkctl_vllm.serving.settings import Settings


def install(_: Settings) -> None:
    """Register what takes checkpoints that call themselves EXL3."""
    from sparkctl_vllm.serving.exl3_config import NAME, Exl3Config  # noqa: PLC0415 - heavy, and wanted only here

    if NAME not in QUANTIZATION_METHODS:
        register_quantization_config(NAME)(Exl3Config)
