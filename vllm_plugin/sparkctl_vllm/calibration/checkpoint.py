"""A checkpoint in safetensors: which layers and experts it holds, and one expert's weights at a time, never more.

Names are read, not assumed: `...layers.L. ... experts.E.PART.weight` with w1, w3, w2 or gate_proj, up_proj, down_proj, and `.scale` beside
`.weight` where it is MXFP4 (two codes a byte, scales e8m0). Shared experts and drafters have other names and are passed over.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from sparkctl_vllm import mxfp4
from sparkctl_vllm.refusal import Refusal, demand

PARTS = {"w1": "gate", "gate_proj": "gate", "w3": "up", "up_proj": "up", "w2": "down", "down_proj": "down"}
NAME = re.compile(
    r"^(?P<stem>(?:.*\.)?layers\.(?P<layer>\d+)\.(?:.+\.)?experts)\.(?P<expert>\d+)"
    rf"\.(?P<part>{'|'.join(PARTS)})\.(?P<kind>weight|scale|weight_scale)$"
)
NORM = re.compile(r"(?:^|\.)layers\.(?P<layer>\d+)\.(?:ffn_norm|post_attention_layernorm)\.weight$")
PLAIN = (torch.bfloat16, torch.float16, torch.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expert:
    """One expert in float32: gate and up [neurons, hidden], down [hidden, neurons]."""

    gate: torch.Tensor
    up: torch.Tensor
    down: torch.Tensor
    limit: float

    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        """Return the activations [rows, neurons] of x [rows, hidden], in float32."""
        x = x.to(self.gate.device, torch.float32)
        gate = (x @ self.gate.T).clamp(max=self.limit)
        return torch.nn.functional.silu(gate) * (x @ self.up.T).clamp(-self.limit, self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a tensor lies."""

    file: Path
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a folder holds: `places[layer][expert][(part, kind)]` with part gate, up or down and kind weight or scale."""

    folder: Path
    places: Mapping[int, tuple[Mapping[tuple[str, str], Place], ...]]
    norms: Mapping[int, Place]
    config: Mapping[str, Any]
    device: str = "cpu"
    """Where an expert's weights are unpacked and used."""
    every: int = 1
    """A survey takes every so-manieth expert: all for a plan, some for a look."""

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers with routed experts, in their order."""
        return tuple(sorted(self.places))

    @property
    def limit(self) -> float:
        """The clamp of SwiGLU, infinite for none."""
        return float(_said(self.config, "swiglu_limit") or "inf")

    @property
    def model(self) -> str:
        """What config.json calls the model."""
        return str(self.config.get("model_type", "unknown"))

    @property
    def format(self) -> str:
        """mxfp4 or bf16, by the first expert."""
        return "mxfp4" if ("gate", "scale") in self.places[self.layers[0]][0] else "bf16"

    def shape(self, layer: int) -> tuple[int, int, int]:
        """Return experts, neurons and hidden size of a layer, from the headers alone."""
        held = self.places[layer]
        place = held[0]["gate", "weight"]
        with safe_open(str(place.file), "pt") as file:
            neurons, width = file.get_slice(place.name).get_shape()
        return len(held), neurons, width * 2 if self.format == "mxfp4" else width

    def expert(self, layer: int, expert: int) -> Expert:
        """Read one expert."""
        held = self.places[layer][expert]
        parts = {part: _numbers(held, part, self.device) for part in ("gate", "up", "down")}
        demand(
            parts["up"].shape == parts["gate"].shape and parts["down"].shape == parts["gate"].T.shape,
            held["gate", "weight"].name,
            [tuple(one.shape) for one in parts.values()],
            "gate and up [neurons, hidden], down [hidden, neurons]",
        )
        return Expert(**parts, limit=self.limit)

    def norm(self, layer: int) -> torch.Tensor | None:
        """Read the weight of the norm before the experts, [hidden] in float32; None where no name of ours fits."""
        return _read(self.norms[layer]).float() if layer in self.norms else None

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of config.json and of one named tensor a layer: what binds a plan to this checkpoint."""
        answer = {"config.json": sha256((self.folder / "config.json").read_bytes()).hexdigest()}
        for layer in self.layers:
            place = self.places[layer][0]["down", "weight"]
            raw = _read(place).contiguous().view(torch.uint8).numpy().tobytes()
            answer[place.name] = sha256(raw).hexdigest()
        return answer


def opened(folder: Path, device: str = "cpu") -> Checkpoint:
    """Read the headers of a checkpoint's files; its experts will be used on this device."""
    demand(device == "cpu" or torch.cuda.is_available(), "device", device, "cpu: no CUDA device is here")
    config = folder / "config.json"
    demand(config.is_file(), str(config), "no such file", "a checkpoint: config.json beside *.safetensors")
    try:
        said = json.loads(config.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as fault:
        raise Refusal(str(config), fault, "a JSON document") from fault
    files = sorted(folder.glob("*.safetensors"))
    demand(files, str(folder), "no safetensors file", "at least one")
    found: dict[int, dict[int, dict[tuple[str, str], Place]]] = {}
    norms: dict[int, Place] = {}
    for file in files:
        for name in _names(file):
            if match := NAME.match(name):
                key = (PARTS[match["part"]], "weight" if match["kind"] == "weight" else "scale")
                experts = found.setdefault(int(match["layer"]), {})
                experts.setdefault(int(match["expert"]), {})[key] = Place(file=file, name=name)
            elif match := NORM.search(name):
                norms[int(match["layer"])] = Place(file=file, name=name)
    demand(
        found,
        str(folder),
        "no routed experts",
        "tensors named ...layers.L. ... experts.E.w1.weight (or gate_proj, up_proj, down_proj)",
        "experts stacked into one tensor a layer are not read: save them one by one",
    )
    places = {layer: _whole(layer, experts) for layer, experts in found.items()}
    return Checkpoint(folder=folder, places=places, norms=norms, config=said, device=device)


def _whole(
    layer: int, experts: Mapping[int, Mapping[tuple[str, str], Place]]
) -> tuple[Mapping[tuple[str, str], Place], ...]:
    count = max(experts) + 1
    for expert in range(count):
        held = experts.get(expert, {})
        lacking = [part for part in ("gate", "up", "down") if (part, "weight") not in held]
        demand(
            not lacking, f"layer {layer}, expert {expert}", f"lacks {', '.join(lacking)}", "gate, up and down"
        )
    return tuple(experts[expert] for expert in range(count))


def _names(file: Path) -> list[str]:
    try:
        with safe_open(str(file), "pt") as held:
            return list(held.keys())
    except (SafetensorError, OSError) as fault:
        raise Refusal(str(file), fault, "a safetensors file", "copy it again: it may be cut short") from fault


def _read(place: Place) -> torch.Tensor:
    with safe_open(str(place.file), "pt") as held:
        return held.get_tensor(place.name)


def _numbers(held: Mapping[tuple[str, str], Place], part: str, device: str) -> torch.Tensor:
    place = held[part, "weight"]
    weight = _read(place).to(device)
    if (part, "scale") in held:
        demand(
            weight.element_size() == 1,
            place.name,
            weight.dtype,
            "one byte for two MXFP4 codes beside a scale",
        )
        scale = _read(held[part, "scale"]).to(device)
        return mxfp4.dequantised(weight.view(torch.uint8), scale.view(torch.uint8))
    demand(
        weight.dtype in PLAIN, place.name, weight.dtype, "bfloat16, float16, float32, or MXFP4 with a scale"
    )
    demand(bool(torch.isfinite(weight).all()), place.name, "NaN or infinite", "finite weights")
    return weight.float()


def _said(config: Mapping[str, Any], key: str) -> Any:
    inner = config.get("text_config")
    return config.get(key, inner.get(key) if isinstance(inner, dict) else None)
