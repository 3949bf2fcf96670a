"""Engram rows as a feature of vLLM: its own DeepSeek-V4.1 is registered anew, out of the module that reads rows from disk."""

from functools import cache

from vllm import ModelRegistry

from sparkctl_vllm.serving.settings import Settings

ARCHITECTURE = "DeepseekV41ForCausalLM"
CLASS = "sparkctl_vllm.serving.engram_model:DeepseekV41ForCausalLM"


@cache
def install(_: Settings) -> None:
    """Let vLLM take the model from engram_model, which it imports only where it serves that architecture."""
    ModelRegistry.register_model(ARCHITECTURE, CLASS)
