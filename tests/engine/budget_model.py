"""A checkpoint and a plan that fit: `budget_model.py CHECKPOINT FOLDER SETTINGS`, run by the engine's own Python.

Half of the neurons of every expert, drawn inside each rank's slice, write and read nothing: their weights are set to zero. The plan
sorts those that are left to the front. So a read of the first half is exactly the whole expert, and a read of any other half is not.
SETTINGS is JSON: ranks, price, eps, h, importance (nats of a whole expert), deep (floor above h), wrong (sort the silent ones first).
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from sparkctl_vllm import plan_file
from sparkctl_vllm.calibration import checkpoint
from sparkctl_vllm.plan_file import Meaning, Plan

ROWS = 16


def silent(layer: int, expert: int, width: int, begin: int) -> np.ndarray:
    """Return the neurons of a slice that are set to zero, in a fixed draw."""
    drawn = np.random.default_rng((layer, expert, begin)).permutation(width)[: width // 2]
    return begin + np.sort(drawn)


def halved(source: Path, folder: Path, ranks: int) -> None:
    """Write the checkpoint with its silent neurons, in bf16."""
    shutil.copytree(source, folder)
    weights = load_file(str(folder / "model.safetensors"))
    held = checkpoint.opened(source)
    for layer in held.layers:
        experts, neurons, _ = held.shape(layer)
        for expert in range(experts):
            width = neurons // ranks
            gone = np.concatenate([silent(layer, expert, width, rank * width) for rank in range(ranks)])
            for part in ("gate", "up", "down"):
                weight = weights[held.places[layer][expert][part, "weight"].name]
                if part == "down":
                    weight[:, gone] = 0
                else:
                    weight[gone] = 0
    for name, weight in weights.items():
        weights[name] = weight.to(torch.bfloat16)
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})


def planned(folder: Path, asked: dict[str, float]) -> Plan:
    """Return a plan for it: the same importance for every expert, falling by half from tile to tile."""
    held, ranks = checkpoint.opened(folder), int(asked["ranks"])
    experts, neurons, _ = held.shape(held.layers[0])
    width = neurons // ranks
    tiles = width // 64
    tables: dict[str, np.ndarray] = {}
    for place, layer in enumerate(held.layers):
        orders = []
        for expert in range(experts):
            for rank in range(ranks):
                whole = np.arange(rank * width, (rank + 1) * width)
                gone = silent(layer, expert, width, rank * width)
                live = np.setdiff1d(whole, gone)
                orders.append(np.concatenate([gone, live] if asked.get("wrong") else [live, gone]))
        tables[f"perm.L{place}"] = np.concatenate(orders).reshape(experts, neurons).astype(np.uint16)
        falling = asked["importance"] * 0.5 ** np.arange(tiles) / ranks
        tables[f"D.L{place}"] = np.tile(falling.astype(np.float32), (experts, ranks))
        tables[f"count.L{place}"] = np.full(experts, 1000, np.uint32)
    tables["price"] = np.full((len(held.layers), ROWS + 1), asked["price"], np.float32)
    tables["fisher"] = np.ones(len(held.layers), np.float32)
    meaning = Meaning(
        model=held.model, checkpoint=held.hashes(), experts=experts, layers=len(held.layers), widths=(width,) * ranks, tile=64,
        format=held.format, applied=False, eps=asked["eps"], h=asked["h"], d_max=1.0, floor_tiles=int(asked.get("deep", tiles)),
        min_tiles=int(asked.get("least", tiles // 2)), corpus="none", corpus_tokens=0, predicted={}, commit="none",
    )  # fmt: skip
    return Plan(meaning=meaning, tables=tables)


def main(source: str, folder: str, settings: str) -> None:
    """Make both; a checkpoint that is there is kept, since every plan of as many ranks is for the same one."""
    asked, made = json.loads(settings), Path(folder)
    if not made.is_dir():
        halved(Path(source), made, int(asked["ranks"]))
    plan_file.write(planned(made, asked), Path(asked["plan"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
