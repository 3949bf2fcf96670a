"""Engram model: vLLM's own DeepSeek-V4.1, whose Engram tables stay on disk: rows come by the stream on which vLLM looks up pinned tables.

vLLM computes the row ids, starts a table's lookup on a stream of its own before the first layer, and waits for it at the table's layer
(`Engram.prepare_embeddings` and `embed`): both are left as they are. Replaced is what a lookup does and where the rows are.
"""

import logging
import os
from pathlib import Path

import torch
from vllm.config import get_current_vllm_config
from vllm.distributed import get_tensor_model_parallel_rank, get_tensor_model_parallel_world_size
from vllm.models.deepseek_v41 import DeepseekV41ForCausalLM
from vllm.models.deepseek_v41.common import engram as stock
from vllm.models.deepseek_v41.nvidia import model

from sparkctl_vllm.engram import folder
from sparkctl_vllm.engram.definition import GROUP, ROW_VALUES
from sparkctl_vllm.engram.rank_rows import served
from sparkctl_vllm.engram.tables import Slice, Table
from sparkctl_vllm.refusal import Refusal, demand

__all__ = ["DeepseekV41ForCausalLM"]

log = logging.getLogger("vllm.sparkctl")


class RowsOnDisk(stock.ParallelEngramEmbedding):
    """One table of a rank: no row of it is a parameter."""

    def __init__(self, owned: Slice, lookups: int) -> None:
        """Open the rank's files; `lookups` is what one step asks for at most."""
        table = owned.table
        super().__init__(table.rows, ROW_VALUES, table.primes, GROUP)
        demand(self.dp_size == 1, "Engram tables cut over data-parallel ranks", self.dp_size, "1")
        found = (self.head_start, self.part_n_hash_cols, self.vocab_start_idx, self.vocab_end_idx)
        wanted = (owned.columns.start, len(owned.columns), owned.begin, owned.end)
        demand(
            found == wanted, f"layer {table.layer}: columns and rows of rank {owned.rank}", found, str(wanted)
        )
        asked = folder.asked(os.environ)
        if asked is None:
            raise Refusal(folder.ROWS, "not set", "the folder of this rank's rows")
        device = torch.empty(0).device
        rows = served(asked, Path(get_current_vllm_config().model_config.model), owned, lookups, device)
        self.staging = rows.staging
        for line in rows.told:
            log.info("%s", line)
        # vLLM looks up tables that are not on the device on a stream of their own, and these are not.
        self.cpu_offload = device.type == "cuda"

    def _allocate_weights(self) -> tuple[torch.Tensor, torch.Tensor]:
        return (
            torch.empty(0, self.dim, dtype=torch.float8_e4m3fn),
            torch.empty(0, self.dim // self.block_size, dtype=torch.uint8),
        )

    def _weight_loader(self, param: torch.nn.Parameter, loaded_weight: torch.Tensor) -> None:
        """Leave a table where it is; safetensors maps it, so what is not touched is not read."""
        demand(
            loaded_weight.shape == (self.num_embeddings, param.shape[1]),
            "Engram table of the checkpoint",
            tuple(loaded_weight.shape),
            str((self.num_embeddings, param.shape[1])),
        )

    def lookup(self, indices: torch.Tensor, out: torch.Tensor, background: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - vLLM's own signature
        """Look up this rank's columns of `indices` int32 [tokens, columns] to `out` bfloat16 [tokens, columns of the rank, 256]."""
        demand(
            out.dtype == torch.bfloat16 and out.is_contiguous(), "rows out", out.dtype, "bfloat16, contiguous"
        )
        local = (
            indices[:, self.head_start : self.head_start + self.part_n_hash_cols].long()
            - self.vocab_start_idx
        )
        nobody = (local < 0) | (local >= self.part_num_embeddings)
        self.staging.stage(local.masked_fill_(nobody, -1).view(-1), out.view(-1, ROW_VALUES))


class EngramOnDisk(stock.Engram):
    """vLLM's module with its table on disk."""

    def _create_embedding(self, layout: stock.EngramLayout, layer_hash_index: int) -> RowsOnDisk:
        rank, ranks = get_tensor_model_parallel_rank(), get_tensor_model_parallel_world_size()
        owned = table_of(layout, layer_hash_index).slices(ranks)[rank]
        tokens = get_current_vllm_config().scheduler_config.max_num_batched_tokens
        return RowsOnDisk(owned, tokens * len(owned.columns))


def table_of(layout: stock.EngramLayout, index: int) -> Table:
    """Return a table of vLLM's layout as ours."""
    multipliers = stock.compute_hash_multipliers(
        layout.layer_ids, layout.max_ngram_size, layout.compressed_vocab_size
    )
    return Table(
        layer=layout.layer_ids[index],
        primes=tuple(prime for order in layout.primes[index] for prime in order),
        multipliers=tuple(multipliers[index].tolist()),
        heads=layout.n_heads,
        pad=layout.pad_token_id,
        vocabulary=layout.compressed_vocab_size,
    )


model.Engram = EngramOnDisk
