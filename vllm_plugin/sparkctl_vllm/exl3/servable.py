"""Servable: which layers of an EXL3 checkpoint our method can serve, by its headers alone; anything it cannot is refused by name."""

from collections.abc import Mapping
from pathlib import Path

from sparkctl_vllm.exl3 import checkpoint
from sparkctl_vllm.exl3.checkpoint import NAME, Exl3Checkpoint, Shape
from sparkctl_vllm.exl3.kernel_experts import CODEBOOK, RATES
from sparkctl_vllm.exl3.shards import entries
from sparkctl_vllm.refusal import demand

KINDS = frozenset({"trellis", "suh", "svh", CODEBOOK})
ELSEWHERE = "leave SPARKCTL_EXL3_EXPERTS out (exl3.experts: cuda-exl3): cuda-exl3 serves it; or quantise anew with sparkctl-vllm exl3 quantize"
"""What works for a checkpoint that is refused here."""
_NAMED = 3
"""Modules that a refusal names."""


def layers(folder: Path) -> Mapping[int, Shape]:
    """Return the layers whose routed experts are EXL3, by number, each with the shape of its experts."""
    held = checkpoint.opened(folder)
    _others_plain(folder)
    answer = {}
    for layer in held.layers:
        _tensors_known(held, layer)
        shape = held.shape(layer)
        rates = shape.rates
        demand(
            rates["gate"] == rates["up"],
            f"layer {layer}: bits of gate and up",
            (rates["gate"], rates["up"]),
            "one rate for both, as vLLM loads them into one tensor",
            ELSEWHERE,
        )
        demand(
            set(rates.values()) <= set(RATES),
            f"layer {layer}: bits",
            tuple(rates.values()),
            f"{', '.join(map(str, RATES))} a weight",
            ELSEWHERE,
        )
        answer[layer] = shape
    return answer


def _others_plain(folder: Path) -> None:
    """Refuse a checkpoint in which other modules than routed experts are EXL3: only experts are read here."""
    coded = [
        name.removesuffix(".trellis")
        for file in sorted(folder.glob("*.safetensors"))
        for name in entries(file)
        if name.endswith(".trellis") and not NAME.match(name)
    ]
    told = ", ".join(sorted(coded)[:_NAMED]) + (
        f" and {len(coded) - _NAMED} more" if len(coded) > _NAMED else ""
    )
    demand(not coded, "EXL3 outside routed experts", told, "routed experts alone, all else as the model has it", ELSEWHERE)  # fmt: skip


def _tensors_known(held: Exl3Checkpoint, layer: int) -> None:
    for expert, parts in enumerate(held.places[layer]):
        for part, tensors in parts.items():
            found = {name.rsplit(".", 1)[1] for name in tensors}
            codebook = next((one for one in sorted(found) if one in {"mcg", CODEBOOK}), "3inst")
            demand(
                codebook == CODEBOOK,
                f"codebook of {held.module(layer, expert, part)}",
                codebook,
                f"{CODEBOOK}: no other is decoded here",
                ELSEWHERE,
            )
            demand(
                found == KINDS,
                held.module(layer, expert, part),
                ", ".join(sorted(found)),
                f"{', '.join(sorted(KINDS))}, each once",
                ELSEWHERE,
            )
