"""Tiny Qwen3-MoE checkpoints of random weights, half of whose neurons are silent, in bf16, MXFP4 and EXL3, with plans; run by vLLM's own Python.

Usage: python benchmarks/plugin_gpu_models.py FOLDER [--device cuda] [--hidden 5120] [--layers 2] [--experts 8] [--neurons 256] [--bits 3]

Gate, up and down are MXFP4 numbers, those of down with one scale for all, so that no sort rounds anything: `bf16` and `mxfp4` hold the same
numbers exactly. `exl3` is quantised from `bf16` by our quantiser; `exl3-decoded` is what it says, in float32; `exl3-wrong` was sorted the
wrong way round. Plans: FORMAT-whole reads all, FORMAT-half the half that speaks, FORMAT-wrong as much of the half that is silent.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "vllm_plugin"))

import numpy as np  # noqa: E402 - found beside the plug-in
import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import Qwen3MoeConfig  # noqa: E402

from sparkctl_vllm import mxfp4, plan_file  # noqa: E402
from sparkctl_vllm.calibration import checkpoint  # noqa: E402
from sparkctl_vllm.exl3 import checkpoint as exl3_checkpoint  # noqa: E402
from sparkctl_vllm.exl3.conversion import Conversion, Wanted  # noqa: E402
from sparkctl_vllm.plan_file import Meaning, Plan  # noqa: E402

ROWS, HEADS, KV_HEADS, HEAD, VOCABULARY, TOP_K = 16, 4, 2, 128, 512, 2
TILE = {"bf16": 64, "mxfp4": 64, "exl3": 128}
DEEP_PRICE = 1e30
"""A price that no tile clears: what is read is the plan's least."""
DOWN_SCALE = 127 - 5
PARTS = ("gate_proj", "up_proj", "down_proj")
Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Of the model; as many neurons of an expert are silent as not."""

    hidden: int
    layers: int
    experts: int
    neurons: int


def silent(layer: int, expert: int, neurons: int) -> np.ndarray:
    """Return the neurons that write and read nothing, in a fixed draw."""
    drawn = np.random.default_rng((layer, expert)).permutation(neurons)
    return np.sort(drawn[: neurons // 2])


def plain(size: Size, draw: torch.Generator) -> Tensors:
    """Return all that is no routed expert. Scales keep each layer's part of the residual near 1, and the next token hardly ever a near tie."""

    def drawn(scale: float, *shape: int) -> torch.Tensor:
        return (torch.randn(shape, generator=draw) * scale).bfloat16()

    hidden, narrow = size.hidden, size.hidden**-0.5
    answer = {"model.embed_tokens.weight": drawn(1.0, VOCABULARY, hidden), "lm_head.weight": drawn(7 * narrow, VOCABULARY, hidden)}  # fmt: skip
    answer["model.norm.weight"] = torch.ones(hidden).bfloat16()
    for layer in range(size.layers):
        stem = f"model.layers.{layer}"
        for norm, width in (("input_layernorm", hidden), ("post_attention_layernorm", hidden), ("self_attn.q_norm", HEAD), ("self_attn.k_norm", HEAD)):  # fmt: skip
            answer[f"{stem}.{norm}.weight"] = torch.ones(width).bfloat16()
        for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            answer[f"{stem}.self_attn.{name}_proj.weight"] = drawn(narrow, heads * HEAD, hidden)
        answer[f"{stem}.self_attn.o_proj.weight"] = drawn((HEADS * HEAD) ** -0.5, hidden, HEADS * HEAD)
        answer[f"{stem}.mlp.gate.weight"] = drawn(1.5 * narrow, size.experts, hidden)
    return answer


def coded(size: Size, draw: torch.Generator) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """Yield every matrix of every expert by its name, as MXFP4 codes and scales."""
    for layer in range(size.layers):
        for expert in range(size.experts):
            gone = torch.from_numpy(silent(layer, expert, size.neurons))
            stem = f"model.layers.{layer}.mlp.experts.{expert}"
            for part in PARTS[:2]:
                weight = torch.randn(size.neurons, size.hidden, generator=draw) * 1.4 * size.hidden**-0.5
                weight[gone] = 0
                yield (f"{stem}.{part}", *mxfp4.quantised(weight))
            codes = torch.randint(0, 16, (size.hidden, size.neurons), generator=draw, dtype=torch.uint8)
            codes[:, gone] = 0
            scales = torch.full((size.hidden, size.neurons // mxfp4.GROUP), DOWN_SCALE, dtype=torch.uint8)
            yield f"{stem}.{PARTS[2]}", mxfp4.packed(codes), scales


def configured(folder: Path, size: Size, **more: object) -> None:
    """Write config.json, which makes the folder."""
    Qwen3MoeConfig(
        vocab_size=VOCABULARY,
        hidden_size=size.hidden,
        intermediate_size=size.neurons,
        moe_intermediate_size=size.neurons,
        num_hidden_layers=size.layers,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD,
        num_experts=size.experts,
        num_experts_per_tok=TOP_K,
        norm_topk_prob=True,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        architectures=["Qwen3MoeForCausalLM"],
        dtype="bfloat16",
        bos_token_id=None,
        eos_token_id=None,
    ).save_pretrained(folder)
    said = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**said, **more}, indent=2), encoding="utf-8")


def sources(home: Path, size: Size) -> None:
    """Write the same numbers as `bf16` and as `mxfp4`."""
    draw = torch.Generator().manual_seed(3)
    rest = plain(size, draw)
    numbers, packed = dict(rest), dict(rest)
    for name, codes, scales in coded(size, draw):
        numbers[f"{name}.weight"] = mxfp4.dequantised(codes, scales).bfloat16()
        packed[f"{name}.weight"], packed[f"{name}.weight_scale"] = codes, scales
    for form, tensors in (("bf16", numbers), ("mxfp4", packed)):
        block = {"quantization_config": {"quant_method": "mxfp4"}} if form == "mxfp4" else {}
        configured(home / form, size, **block)
        save_file(tensors, str(home / form / "model.safetensors"), metadata={"format": "pt"})


def planned(folder: Path, size: Size, tile: int, *, wrong: bool = False) -> Plan:
    """Return a plan that sorts the silent neurons to the end, or to the front; importance falls by half from tile to tile."""
    held = checkpoint.opened(folder)
    tiles = size.neurons // tile
    tables: dict[str, np.ndarray] = {}
    for layer in held.layers:
        orders = []
        for expert in range(size.experts):
            gone = silent(layer, expert, size.neurons)
            live = np.setdiff1d(np.arange(size.neurons), gone)
            orders.append(np.concatenate([gone, live] if wrong else [live, gone]))
        tables[f"perm.L{layer}"] = np.stack(orders).astype(np.uint16)
        falling = (1e-3 * 0.5 ** np.arange(tiles)).astype(np.float32)
        tables[f"D.L{layer}"] = np.tile(falling, (size.experts, 1))
        tables[f"count.L{layer}"] = np.full(size.experts, 1000, np.uint32)
    tables["price"] = np.full((size.layers, ROWS + 1), DEEP_PRICE, np.float32)
    tables["fisher"] = np.ones(size.layers, np.float32)
    # A small eps and a high h: accounts rise from step to step, and no request ever passes the bar.
    meaning = Meaning(
        model=held.model, checkpoint=held.hashes(), experts=size.experts, layers=size.layers, widths=(size.neurons,), tile=tile,
        format=held.format, applied=False, eps=1e-6, h=100.0, d_max=1.0, floor_tiles=tiles, min_tiles=tiles // 2, corpus="none",
        corpus_tokens=0, predicted={}, commit="none",
    )  # fmt: skip
    return Plan(meaning=meaning, tables=tables)


def at_depth(plan: Plan, path: Path, *, whole: bool) -> None:
    """Write a plan that reads all, or half."""
    tiles = plan.meaning.widths[0] // plan.meaning.tile
    plan_file.write(replace(plan, meaning=replace(plan.meaning, min_tiles=tiles if whole else tiles // 2)), path)  # fmt: skip


def quantised(home: Path, size: Size, bits: int, device: str) -> None:
    """Write EXL3 of the bf16 model, sorted right and wrong, and what the first says as plain weights."""
    source = checkpoint.opened(home / "bf16", device)
    for name, wrong in (("exl3", False), ("exl3-wrong", True)):
        plan = planned(home / "bf16", size, TILE["exl3"], wrong=wrong)
        wanted = Wanted(bits=bits, rates=(bits,), together=size.experts)
        Conversion(checkpoint=source, recording=None, plan=plan, wanted=wanted, out=home / name, tell=print).run()  # fmt: skip
        made = plan_file.read(home / name / "budget" / "plan", exl3_checkpoint.opened(home / name).hashes())
        if wrong:
            at_depth(made, home / "exl3-wrong-plan", whole=False)
        else:
            at_depth(made, home / "exl3-whole-plan", whole=True)
            at_depth(made, home / "exl3-half-plan", whole=False)
    decoded(home, size)


def decoded(home: Path, size: Size) -> None:
    """Write what `exl3` says as plain weights in float32."""
    held = exl3_checkpoint.opened(home / "exl3")
    tensors = {
        name: one
        for name, one in load_file(str(home / "bf16" / "model.safetensors")).items()
        if ".experts." not in name
    }
    for layer in held.layers:
        for expert in range(size.experts):
            for part in ("gate", "up", "down"):
                dense = held.matrix(layer, expert, part).dense(torch.float32)
                tensors[f"{held.module(layer, expert, part)}.weight"] = dense.T.contiguous()
    configured(home / "exl3-decoded", size)
    save_file(tensors, str(home / "exl3-decoded" / "model.safetensors"), metadata={"format": "pt"})


def made(home: Path, size: Size, bits: int | None, device: str) -> None:
    """Make what is not there; EXL3 where bits are named."""
    if not (home / "mxfp4").is_dir():
        home.mkdir(parents=True, exist_ok=True)
        sources(home, size)
        for form in ("bf16", "mxfp4"):
            for depth, wrong in (("whole", False), ("half", False), ("wrong", True)):
                plan = planned(home / form, size, TILE[form], wrong=wrong)
                at_depth(plan, home / f"{form}-{depth}-plan", whole=depth == "whole")
    if bits is not None and not (home / "exl3-decoded").is_dir():
        quantised(home, size, bits, device)


def main() -> None:
    """Read the command line and make them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"), help="where EXL3 is coded")
    for name, default in (("hidden", 5120), ("layers", 2), ("experts", 8), ("neurons", 256), ("bits", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    size = Size(hidden=asked.hidden, layers=asked.layers, experts=asked.experts, neurons=asked.neurons)
    made(asked.folder, size, asked.bits, asked.device)


if __name__ == "__main__":
    main()
