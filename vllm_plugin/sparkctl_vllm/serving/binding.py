"""Binding: a plan held against what vLLM is about to serve; anything that does not fit is refused before a weight is touched."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkctl_vllm import plan_file
from sparkctl_vllm.calibration import checkpoint
from sparkctl_vllm.experts import TILE
from sparkctl_vllm.plan_file import Plan
from sparkctl_vllm.refusal import demand

FORMATS = ("bf16", "mxfp4")
"""What is read here; EXL3 needs blocks of 128 and its own kernel."""
ALONE = (
    "pipeline_parallel_size",
    "data_parallel_size",
    "decode_context_parallel_size",
    "prefill_context_parallel_size",
)
"""Ways of spreading a model over ranks that were not tried: each must be 1."""

OFF = ("enable_expert_parallel", "enable_eplb", "enable_dbo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A plan that fits, and where this rank stands in it: `places` tells for each layer of the model which layer of the plan it is."""

    plan: Plan
    rank: int
    places: Mapping[int, int]

    def place(self, layer: int, taken: Collection[int]) -> int | None:
        """Return the plan's number of a layer that vLLM makes, None for a drafter's.

        The target's layers are made first; a number beyond the plan, or one that is taken already, belongs to a drafter.
        """
        place = self.places.get(layer)
        return None if place in taken else place


def bound(path: Path, config: Any, rank: int) -> Bound:
    """Return the plan bound to vLLM's configuration, read by one rank of tensor parallelism."""
    parallel = config.parallel_config
    for name in ALONE:
        demand(getattr(parallel, name, 1) == 1, name, getattr(parallel, name, 1), "1 with budget reads")
    switched = [name for name in OFF if getattr(parallel, name, False)]
    demand(not switched, "parallel", ", ".join(switched), "none of these with budget reads")
    folder = Path(config.model_config.model)
    demand(
        folder.is_dir(),
        "model",
        folder,
        "a folder: a plan is bound to the files of a checkpoint",
        "download the model and name its folder",
    )
    held = checkpoint.opened(folder)
    plan = plan_file.read(path, held.hashes())
    _fits(plan, held, parallel.tensor_parallel_size)
    return Bound(plan=plan, rank=rank, places={layer: place for place, layer in enumerate(held.layers)})


def _fits(plan: Plan, held: checkpoint.Checkpoint, ranks: int) -> None:
    meaning = plan.meaning
    remedy = f"plan again with --ranks {ranks}, or serve over {len(meaning.widths)} ranks"
    demand(
        len(meaning.widths) == ranks,
        "ranks",
        ranks,
        f"{len(meaning.widths)}, what the plan was made for",
        remedy,
    )
    demand(
        len(set(meaning.widths)) == 1,
        "$.widths",
        meaning.widths,
        "one width for all ranks: vLLM cuts experts evenly",
        "plan again with --ranks and without --widths",
    )
    demand(
        meaning.format in FORMATS and meaning.format == held.format, "$.format", meaning.format, held.format
    )
    demand(meaning.tile == TILE, "$.tile", meaning.tile, f"{TILE} for {meaning.format}")
    demand(
        meaning.layers == len(held.layers),
        "$.layers",
        meaning.layers,
        f"{len(held.layers)} of the checkpoint",
    )
    for layer in held.layers:
        experts, neurons, _ = held.shape(layer)
        demand(
            experts == meaning.experts, f"experts of layer {layer}", experts, f"{meaning.experts}, the plan's"
        )
        demand(
            neurons == sum(meaning.widths),
            f"neurons of layer {layer}",
            neurons,
            f"{sum(meaning.widths)}, the plan's",
        )
