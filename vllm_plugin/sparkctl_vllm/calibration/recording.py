"""A recording: what the routers of a model saw on decode-like text, batch by batch, and how its predictions answer to each layer's output.

A folder with recording.json and one safetensors file a batch. A batch that is there is never recorded again, so a run that broke off goes on
where it was; files appear whole or not at all. `x.L{l}` bf16 [tokens, hidden] is what the experts read, `picks.L{l}` int32 and `weights.L{l}`
float32 [tokens, top-k]; `conversation` int32 [tokens]; `gradient.L{l}` bf16 [tokens, hidden], where gradients were taken, is that of
the log-probability of sampled labels by the experts' output.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from sparkctl_vllm.refusal import Refusal, demand

HEAD = "recording.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What was recorded."""

    schema: int = 1
    layers: tuple[int, ...]
    text: str
    """SHA-256 of the token ids, in their order."""
    batches: int
    """Batches of the whole text."""
    tokens: int
    gradients: bool
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """What one layer's experts were asked: x [tokens, hidden], picks and weights [tokens, top-k], and the gradient of their output."""

    x: torch.Tensor
    picks: torch.Tensor
    weights: torch.Tensor
    gradient: torch.Tensor | None = None
    """[tokens, hidden]; None where none was taken."""

    @property
    def fisher(self) -> NDArray[np.float64] | None:
        """E[g^2] of each output channel, [hidden]."""
        if self.gradient is None:
            return None
        # In parts: float64 of all tokens would be four times what is recorded.
        total = sum(part.double().square().sum(0) for part in self.gradient.split(1024))
        return np.asarray(total, dtype=np.float64) / len(self.gradient)


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Who was picked, without what was read: picks int32 and weights float32 [layers, tokens, top-k], conversation [tokens]."""

    picks: NDArray[np.int32]
    weights: NDArray[np.float32]
    conversation: NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A recording on disk."""

    folder: Path
    header: Header

    def has(self, batch: int) -> bool:
        """Say whether a batch is recorded."""
        return self._file(batch).is_file()

    def add(self, batch: int, tensors: Mapping[str, torch.Tensor]) -> None:
        """Write one batch, whole or not at all."""
        unfinished = self._file(batch).with_suffix(".part")
        save_file({name: one.contiguous() for name, one in tensors.items()}, str(unfinished))
        unfinished.replace(self._file(batch))

    def routed(self, layer: int) -> Routed:
        """Read one layer of all batches."""
        names = ("x", "picks", "weights", "gradient")[: 4 if self.header.gradients else 3]
        parts = [self._tensors(batch, (f"{name}.L{layer}" for name in names)) for batch in self._all()]
        joined = (torch.cat(column) for column in zip(*parts, strict=True))
        return Routed(**dict(zip(names, joined, strict=True)))

    def routing(self) -> Routing:
        """Read the picks of all layers."""
        rows = []
        for batch in self._all():
            names = [f"{name}.L{layer}" for name in ("picks", "weights") for layer in self.header.layers]
            rows.append([one.numpy() for one in self._tensors(batch, (*names, "conversation"))])
        count = len(self.header.layers)
        columns = [np.concatenate(column) for column in zip(*rows, strict=True)]
        return Routing(
            picks=np.stack(columns[:count]),
            weights=np.stack(columns[count : 2 * count]),
            conversation=columns[-1],
        )

    def _all(self) -> range:
        lacking = [batch for batch in range(self.header.batches) if not self.has(batch)]
        demand(
            not lacking,
            str(self.folder),
            f"{len(lacking)} of {self.header.batches} batches are not recorded",
            "a whole recording",
            "run the recording again: it goes on where it was",
        )
        return range(self.header.batches)

    def _file(self, batch: int) -> Path:
        return self.folder / f"batch-{batch:05d}.safetensors"

    def _tensors(self, batch: int, names: Iterable[str]) -> list[torch.Tensor]:
        try:
            with safe_open(str(self._file(batch)), "pt") as held:
                return [held.get_tensor(name) for name in names]
        except SafetensorError as fault:
            raise Refusal(
                str(self._file(batch)), fault, "a batch of this recording", "delete it and record again"
            ) from fault


def begun(folder: Path, header: Header) -> Recording:
    """Begin a recording, or go on with one of the same text, layers and seed."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / HEAD
    if path.is_file():
        found = opened(folder).header
        demand(
            found == header,
            str(path),
            found,
            str(header),
            "another recording lies there: name another folder",
        )
    else:
        unfinished = path.with_suffix(".part")
        unfinished.write_text(json.dumps(asdict(header), indent=2) + "\n", encoding="utf-8")
        unfinished.replace(path)
    return Recording(folder=folder, header=header)


def opened(folder: Path) -> Recording:
    """Open a recording."""
    path = folder / HEAD
    demand(path.is_file(), str(path), "no such file", "the folder of a recording")
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        header = Header(**{**said, "layers": tuple(said["layers"])})
    except (json.JSONDecodeError, UnicodeDecodeError, TypeError, KeyError) as fault:
        raise Refusal(str(path), fault, "a recording's header, schema 1") from fault
    demand(header.schema == 1, f"{path}: $.schema", header.schema, "1")
    return Recording(folder=folder, header=header)
