"""A small EXL3 checkpoint of random trellis words, which are valid weights, and a plan of it."""

import json
from dataclasses import replace

import numpy as np
import torch
from safetensors.torch import save_file

from sparkctl_vllm.exl3 import checkpoint, codebook
from sparkctl_vllm.plan_file import Meaning, Plan

EXPERTS, NEURONS, HIDDEN, LAYERS = 3, 384, 256, (1, 3)
RATES = {"gate_proj": 2, "up_proj": 2, "down_proj": 3}
MARKER = torch.tensor(codebook.MARKERS["mul1"] - (1 << 32), dtype=torch.int32)


def matrix(inputs, outputs, bits, chance):
    """Return one matrix by kind of tensor, with scales that give sums of about 1."""

    def scale(width, size):
        signs = 1 - 2 * torch.randint(0, 2, (width,), generator=chance)
        return (signs * size * (0.5 + torch.rand(width, generator=chance))).half()

    size = (inputs // 16, outputs // 16, 16 * bits)
    return {
        "trellis": torch.randint(-32768, 32768, size, dtype=torch.int16, generator=chance),
        "suh": scale(inputs, 1.0),
        "svh": scale(outputs, 1.3 * inputs**-0.5),
        "mul1": MARKER.clone(),
    }


def tensors():
    """Return all experts' tensors by name, and one that is no expert's."""
    chance = torch.Generator().manual_seed(5)
    answer = {"model.embed_tokens.weight": torch.zeros(4, HIDDEN)}
    for layer in LAYERS:
        for expert in range(EXPERTS):
            for part, bits in RATES.items():
                inputs, outputs = (NEURONS, HIDDEN) if part == "down_proj" else (HIDDEN, NEURONS)
                stem = f"model.layers.{layer}.mlp.experts.{expert}.{part}"
                answer |= {
                    f"{stem}.{kind}": one for kind, one in matrix(inputs, outputs, bits, chance).items()
                }
    return answer


def saved(folder, held=None, block=None):
    """Write a checkpoint and return its folder."""
    folder.mkdir()
    save_file(tensors() if held is None else held, str(folder / "model.safetensors"))
    said = {"model_type": "m", "quantization_config": block or {"quant_method": "exl3"}}
    (folder / "config.json").write_text(json.dumps(said), encoding="utf-8")
    return folder


def plan(folder, **changes):
    """Return a plan of it for two ranks, as the quantiser writes one."""
    hashes = checkpoint.opened(folder).hashes()
    meaning = Meaning(
        model="m", checkpoint=hashes, experts=EXPERTS, layers=len(LAYERS), widths=(128, 256), tile=128, format="exl3", applied=True,
        eps=0.01, h=1.0, d_max=1.0, floor_tiles=1, min_tiles=1, corpus="", corpus_tokens=0, predicted={}, commit="",
    )  # fmt: skip
    meaning = replace(meaning, **changes)
    count = sum(meaning.widths) // meaning.tile
    tables = {
        "price": np.ones((len(LAYERS), 5), np.float32),
        "fisher": np.ones(len(LAYERS), np.float32),
    }
    for layer in range(len(LAYERS)):
        tables[f"perm.L{layer}"] = np.tile(np.arange(sum(meaning.widths)), (meaning.experts, 1)).astype(
            np.uint16
        )
        tables[f"D.L{layer}"] = np.ones((meaning.experts, count), np.float32)
        tables[f"count.L{layer}"] = np.ones(meaning.experts, np.uint32)
    return Plan(meaning=meaning, tables=tables)
