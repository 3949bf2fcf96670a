"""Method of EXL3 experts: how vLLM reserves, loads and computes a layer of them, read whole. With a plan `method.py` reads it by budget."""

import logging
from collections.abc import Mapping
from typing import Any

import torch
from vllm.platforms import current_platform

from sparkctl_vllm.exl3.checkpoint import Shape
from sparkctl_vllm.refusal import demand
from sparkctl_vllm.serving import operator, reader
from sparkctl_vllm.serving.exl3_slices import Slice
from sparkctl_vllm.serving.plain import refuse_others
from sparkctl_vllm.serving.routed import RoutedMethod
from sparkctl_vllm.step import MOST_ROWS, Rows

log = logging.getLogger("vllm.sparkctl")


class Exl3Method(RoutedMethod):
    """One layer of EXL3 experts, this rank's blocks of 128 of each."""

    def __init__(self, moe: Any, layers: Mapping[int, Shape], number: int, others: str) -> None:
        super().__init__(moe)
        self.layers, self.number, self.others = layers, number, others
        ranks = moe.moe_parallel_config
        self.rank, self.ranks = ranks.tp_rank, ranks.tp_size
        self.slice = Slice.of(layers[number], self.rank, self.ranks)
        self.reader = reader.coded(torch.device(current_platform.device_type))

    def maybe_roundup_sizes(self, hidden_size: int, *_: Any) -> tuple[int, int]:
        """Return hidden size and this rank's width: whole blocks, which need not be an even share."""
        return hidden_size, self.slice.width

    def create_weights(
        self,
        layer: Any,
        num_experts: int,
        hidden_size: int,
        intermediate_size_per_partition: int,
        params_dtype: torch.dtype,
        **_: Any,
    ) -> None:
        """Reserve this rank's slice of the layer, after a look whether checkpoint and model mean the same experts."""
        refuse_others(layer)
        shape = self.slice.shape
        found = (num_experts, layer.moe_config.intermediate_size, hidden_size)
        demand(
            found == (shape.experts, shape.neurons, shape.hidden),
            f"{layer.layer_name}: experts, neurons and hidden size of the model",
            found,
            f"{(shape.experts, shape.neurons, shape.hidden)}, the checkpoint's",
            "widths that are no multiple of 128 are padded in EXL3 files, and padded experts are not read here: cuda-exl3 serves them",
        )
        self.slice.reserve(layer)

    def process_weights_after_loading(self, layer: Any) -> None:
        """Take the loaded tensors out of the layer; with the last layer, say that these experts are served here."""
        self.reader.take(layer, None, MOST_ROWS)
        self.door = operator.opened(self.computed)
        self.told()

    def told(self) -> None:
        """Say with the last layer what serves here, once a rank; a boot looks for it."""
        if self.number != max(self.layers):
            return
        bits = sorted({one.rates[part] for one in self.layers.values() for part in ("gate", "down")})
        log.info(
            "sparkctl EXL3 experts: on, %d layers of %d experts at %s bits, rank %d of %d with %d neurons, %s",
            len(self.layers), self.slice.shape.experts, " and ".join(map(str, bits)), self.rank, self.ranks, self.slice.width, self.others,
        )  # fmt: skip

    def computed(self, x: torch.Tensor, routed_weights: torch.Tensor, picks: torch.Tensor) -> torch.Tensor:
        """Compute it outside of any graph of torch.compile."""
        asked = Rows(x=x, picks=picks.int(), weights=routed_weights)
        return self.reader.read_whole(asked).to(x.dtype)
