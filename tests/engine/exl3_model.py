"""A small model in EXL3 by our own quantiser, the same numbers decoded, and plans: `exl3_model.py TINY FOLDER`, run by the engine's own Python.

Two layers of four experts of 384 neurons: three blocks of 128, which two ranks share unevenly, 128 and 256. Of neurons 128 to 383 of each
expert 128 are silent in a fixed draw, and are sorted to the end before anything is quantised: two blocks are the whole expert, one is not.

Makes `source` (bf16, as it was), `coded` (EXL3, the plan for two ranks in budget/plan), `decoded` (what coded says, as plain weights in
float32), and `two` and `one`: plans for one rank that read so many blocks.
"""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, Qwen3MoeConfig, Qwen3MoeForCausalLM

from sparkctl_vllm import plan_file
from sparkctl_vllm.calibration import checkpoint
from sparkctl_vllm.cli import main as verb
from sparkctl_vllm.exl3 import checkpoint as exl3_checkpoint
from sparkctl_vllm.plan_file import Meaning, Plan

LAYERS, EXPERTS, HIDDEN, NEURONS, BLOCK = 2, 4, 128, 384, 128
ROWS = 16
WIDTHS = (128, 256)


def silent(layer: int, expert: int) -> np.ndarray:
    """Return the neurons that write and read nothing."""
    return BLOCK + np.sort(np.random.default_rng((layer, expert)).permutation(2 * BLOCK)[:BLOCK])


def sourced(tiny: Path, folder: Path) -> None:
    """Write a random model that speaks up: weights large enough that its next token is hardly ever a near tie."""
    torch.manual_seed(3)
    words = AutoTokenizer.from_pretrained(tiny)
    made = Qwen3MoeForCausalLM(
        Qwen3MoeConfig(
            vocab_size=len(words),
            hidden_size=HIDDEN,
            intermediate_size=256,
            moe_intermediate_size=NEURONS,
            num_hidden_layers=LAYERS,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=64,
            num_experts=EXPERTS,
            num_experts_per_tok=2,
            norm_topk_prob=True,
            max_position_embeddings=4096,
            tie_word_embeddings=False,
            initializer_range=0.2,
            eos_token_id=words.eos_token_id,
            pad_token_id=words.pad_token_id,
            bos_token_id=None,
        )
    )
    made.to(torch.bfloat16).save_pretrained(folder, safe_serialization=True)
    words.save_pretrained(folder)
    weights = load_file(str(folder / "model.safetensors"))
    held = checkpoint.opened(folder)
    for layer in held.layers:
        for expert in range(EXPERTS):
            for part in ("gate", "up", "down"):
                weight = weights[held.places[layer][expert][part, "weight"].name]
                if part == "down":
                    weight[:, silent(layer, expert)] = 0
                else:
                    weight[silent(layer, expert)] = 0
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})


def planned(folder: Path) -> Plan:
    """Return the plan for two ranks: the silent neurons of the second one's slice come last."""
    held = checkpoint.opened(folder)
    tables: dict[str, np.ndarray] = {}
    for layer in held.layers:
        gone = [silent(layer, expert) for expert in range(EXPERTS)]
        order = [np.concatenate([np.setdiff1d(np.arange(NEURONS), one), one]) for one in gone]
        tables[f"perm.L{layer}"] = np.stack(order).astype(np.uint16)
        tables[f"D.L{layer}"] = np.tile(np.array([4e-3, 2e-3, 1e-3], np.float32), (EXPERTS, 1))
        tables[f"count.L{layer}"] = np.full(EXPERTS, 1000, np.uint32)
    tables["price"] = np.full((LAYERS, ROWS + 1), 1e30, np.float32)
    tables["fisher"] = np.ones(LAYERS, np.float32)
    meaning = Meaning(
        model=held.model, checkpoint=held.hashes(), experts=EXPERTS, layers=LAYERS, widths=WIDTHS, tile=BLOCK, format="bf16", applied=False,
        eps=10.0, h=100.0, d_max=1.0, floor_tiles=1, min_tiles=1, corpus="none", corpus_tokens=0, predicted={}, commit="none",
    )  # fmt: skip
    return Plan(meaning=meaning, tables=tables)


def decoded(coded: Path, folder: Path) -> None:
    """Write what the EXL3 checkpoint says as plain weights in float32."""
    ours = shutil.ignore_patterns("budget", "*.safetensors", "quantization_config.json", "exl3_report.json")
    shutil.copytree(coded, folder, ignore=ours)
    held = exl3_checkpoint.opened(coded)
    weights = {
        name: one.float()
        for name, one in load_file(str(coded / "model.safetensors")).items()
        if ".experts." not in name
    }
    for layer in held.layers:
        for expert in range(EXPERTS):
            for part in ("gate", "up", "down"):
                dense = held.matrix(layer, expert, part).dense(torch.float64)
                weights[f"{held.module(layer, expert, part)}.weight"] = dense.T.float().contiguous()
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})
    said = json.loads((coded / "config.json").read_text(encoding="utf-8"))
    del said["quantization_config"]
    (folder / "config.json").write_text(json.dumps(said), encoding="utf-8")


def main(tiny: str, home: str) -> None:
    """Make them all."""
    folder = Path(home)
    source, coded = folder / "source", folder / "coded"
    sourced(Path(tiny), source)
    plan_file.write(planned(source), folder / "plan")
    assert (
        verb(["exl3", "quantize", str(source), str(coded), "--bits", "4", "--plan", str(folder / "plan")])
        == 0
    )
    decoded(coded, folder / "decoded")
    plan = plan_file.read(coded / "budget" / "plan", exl3_checkpoint.opened(coded).hashes())
    for name, least in (("one", 1), ("two", 2)):
        meaning = replace(plan.meaning, widths=(NEURONS,), min_tiles=least, floor_tiles=least)
        plan_file.write(replace(plan, meaning=meaning), folder / name)


if __name__ == "__main__":
    main(*sys.argv[1:])
