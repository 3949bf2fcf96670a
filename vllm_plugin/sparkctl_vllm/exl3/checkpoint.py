"""A checkpoint with routed experts in EXL3: which matrices it holds, at which rates, read from its headers; one matrix at a time.

Names are those of calibration's checkpoints with `.trellis`, `.suh`, `.svh` and a marker in place of `.weight`. What our decoder and kernel cannot
serve is refused by name: half rates, tables of rank 2, other multipliers, shapes that differ between the experts of a layer.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from sparkctl_vllm.calibration.checkpoint import PARTS
from sparkctl_vllm.exl3 import trellis
from sparkctl_vllm.exl3.matrix import BLOCK, Exl3Matrix, gathered
from sparkctl_vllm.exl3.shards import Entry, entries
from sparkctl_vllm.refusal import Refusal, demand

NAME = re.compile(
    r"^(?P<module>(?:.*\.)?layers\.(?P<layer>\d+)\.(?:.+\.)?experts\.(?P<expert>\d+)"
    rf"\.(?P<part>{'|'.join(PARTS)}))\.(?P<kind>trellis|suh|svh|su|sv|scale|mul1|mcg|bias|weight)$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What all experts of a layer are."""

    experts: int
    neurons: int
    hidden: int
    rates: Mapping[str, int]
    """gate, up and down to bits a weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exl3Checkpoint:
    """What a folder holds: `places[layer][expert][part]`, a module's tensors by full name, with their files."""

    folder: Path
    places: Mapping[int, tuple[Mapping[str, Mapping[str, Entry]], ...]]
    config: Mapping[str, Any]

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers with routed experts, in their order."""
        return tuple(sorted(self.places))

    def module(self, layer: int, expert: int, part: str) -> str:
        """Return a matrix's name."""
        return next(iter(self.places[layer][expert][part])).rsplit(".", 1)[0]

    def matrix(self, layer: int, expert: int, part: str) -> Exl3Matrix:
        """Read one matrix; its marker is checked."""
        held = {name: _read(one, name) for name, one in self.places[layer][expert][part].items()}
        return gathered(held, self.module(layer, expert, part))

    def shape(self, layer: int) -> Shape:
        """Return the shape of a layer's experts, from the headers alone."""
        told = [self._told(layer, expert) for expert in range(len(self.places[layer]))]
        for expert, one in enumerate(told):
            demand(one == told[0], f"layer {layer}, expert {expert}", one, f"{told[0]}, as its first expert")
        neurons, hidden, rates = told[0]
        return Shape(experts=len(told), neurons=neurons, hidden=hidden, rates=dict(rates))

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of config.json and of one named tensor a layer: what binds a plan to this checkpoint."""
        answer = {"config.json": sha256((self.folder / "config.json").read_bytes()).hexdigest()}
        for layer in self.layers:
            name = f"{self.module(layer, 0, 'down')}.trellis"
            raw = _read(self.places[layer][0]["down"][name], name).contiguous().numpy().tobytes()
            answer[name] = sha256(raw).hexdigest()
        return answer

    def _told(self, layer: int, expert: int) -> tuple[int, int, tuple[tuple[str, int], ...]]:
        sides = {part: self._sides(layer, expert, part) for part in ("gate", "up", "down")}
        (hidden, neurons, _), down = sides["gate"], sides["down"]
        fits = sides["up"][:2] == (hidden, neurons) and down[:2] == (neurons, hidden)
        demand(fits, f"layer {layer}, expert {expert}", sides, "gate and up [in, out], down turned round")
        return neurons, hidden, tuple((part, one[2]) for part, one in sides.items())

    def _sides(self, layer: int, expert: int, part: str) -> tuple[int, int, int]:
        module = self.module(layer, expert, part)
        name = f"{module}.trellis"
        found = self.places[layer][expert][part].get(name)
        shape = found.shape if found is not None else ()
        demand(shape, module, "no trellis", "trellis, suh, svh and a marker for every matrix")
        demand(len(shape) == 3, name, f"rank {len(shape)}", "rank 3; rank 2 is a table of embeddings, another format")  # fmt: skip
        rate = trellis.rate_of(shape[2])
        demand(rate == int(rate), name, f"the half rate {rate}", "whole rates: requantise with --rates 2,3,4", "neither our kernel nor cuda-exl3 reads half rates")  # fmt: skip
        sides = shape[0] * trellis.SIDE, shape[1] * trellis.SIDE
        demand(not any(side % BLOCK for side in sides), name, sides, f"multiples of {BLOCK}")
        return *sides, int(rate)


def opened(folder: Path) -> Exl3Checkpoint:
    """Read the headers of a checkpoint's files."""
    config = folder / "config.json"
    demand(config.is_file(), str(config), "no such file", "a checkpoint: config.json beside *.safetensors")
    try:
        said = json.loads(config.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as fault:
        raise Refusal(str(config), fault, "a JSON document") from fault
    found: dict[int, dict[int, dict[str, dict[str, Entry]]]] = {}
    for file in sorted(folder.glob("*.safetensors")):
        for name, entry in entries(file).items():
            if match := NAME.match(name):
                experts = found.setdefault(int(match["layer"]), {})
                parts = experts.setdefault(int(match["expert"]), {})
                parts.setdefault(PARTS[match["part"]], {})[name] = entry
    coded = any(name.endswith(".trellis") for one in found.values() for parts in one.values() for held in parts.values() for name in held)  # fmt: skip
    demand(
        coded,
        str(folder),
        "no routed experts in EXL3",
        "tensors named ...layers.L. ... experts.E.w1.trellis (or gate_proj, up_proj, down_proj)",
        "make one: sparkctl-vllm exl3 quantize",
    )
    return Exl3Checkpoint(folder=folder, places={layer: _whole(layer, one) for layer, one in found.items()}, config=said)  # fmt: skip


def _whole(
    layer: int, experts: Mapping[int, Mapping[str, Mapping[str, Entry]]]
) -> tuple[Mapping[str, Mapping[str, Entry]], ...]:
    for expert in range(max(experts) + 1):
        lacking = sorted({"gate", "up", "down"} - set(experts.get(expert, {})))
        demand(
            not lacking, f"layer {layer}, expert {expert}", f"lacks {', '.join(lacking)}", "gate, up and down"
        )
    return tuple(experts[expert] for expert in range(max(experts) + 1))


def _read(place: Entry, name: str) -> torch.Tensor:
    with safe_open(str(place.file), "pt") as held:
        return held.get_tensor(name)
