"""Binding: a plan held against what vLLM is about to serve; anything that does not fit is refused before a weight is touched."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkctl_vllm import plan_file
from sparkctl_vllm.calibration import checkpoint
from sparkctl_vllm.exl3 import account, files
from sparkctl_vllm.exl3 import checkpoint as exl3_checkpoint
from sparkctl_vllm.exl3.checkpoint import Shape
from sparkctl_vllm.exl3.matrix import BLOCK, uneven
from sparkctl_vllm.experts import TILE
from sparkctl_vllm.plan_file import Meaning, Plan
from sparkctl_vllm.refusal import demand

FORMATS = ("bf16", "mxfp4")
"""What vLLM's own methods load and is sorted here; EXL3 was sorted before it was quantised."""
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


def bound(path: Path, config: Any, rank: int, *, exl3: bool = False) -> Bound:
    """Return the plan bound to vLLM's configuration, read by one rank of tensor parallelism.

    `exl3` says whether EXL3 experts are served by this plug-in: nobody else reads them to a depth.
    """
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
    ranks = parallel.tensor_parallel_size
    coded = _is_exl3(folder)
    demand(
        exl3 or not coded,
        "EXL3 experts with a plan",
        "SPARKCTL_EXL3_EXPERTS is not set",
        "1",
        "only this plug-in reads them to a depth: set it (exl3.experts: sparkctl), or leave the plan out",
    )
    plan, layers = _coded(path, folder, ranks) if coded else _plain(path, folder, ranks)
    return Bound(plan=plan, rank=rank, places={layer: place for place, layer in enumerate(layers)})


def _is_exl3(folder: Path) -> bool:
    block = files.read(folder / "config.json").get("quantization_config")
    return isinstance(block, dict) and block.get("quant_method") == "exl3"


def _plain(path: Path, folder: Path, ranks: int) -> tuple[Plan, tuple[int, ...]]:
    held = checkpoint.opened(folder)
    plan = plan_file.read(path, held.hashes())
    _fits(plan, held, ranks)
    return plan, held.layers


def _coded(path: Path, folder: Path, ranks: int) -> tuple[Plan, tuple[int, ...]]:
    """Bind a plan to EXL3 experts: the one that the quantiser wrote beside them, for as many ranks as it was sorted for."""
    held = exl3_checkpoint.opened(folder)
    shapes = {layer: held.shape(layer) for layer in held.layers}
    # Who made the plan is asked before its hashes: those of an unsorted plan are another checkpoint's, and that is not the remedy.
    account.fits(plan_file.read(path, {}, bound=False), shapes)
    said, hashes = plan_file.meaning_of(path), held.hashes()
    demand(
        all(hashes.get(name) == digest for name, digest in said.checkpoint.items()),
        path.name,
        "the plan of another checkpoint",
        f"that of {folder}, by which its neurons were sorted",
        "neurons of an EXL3 checkpoint cannot change places: take the plan beside it (budget/plan); if there is none it is not sorted, and is "
        "quantised anew from the original with sparkctl-vllm exl3 quantize --plan",
    )
    _coded_fits(said, shapes, ranks)
    return plan_file.read(path, hashes), held.layers


def _coded_fits(said: Meaning, shapes: Mapping[int, Shape], ranks: int) -> None:
    widths = uneven(next(iter(shapes.values())).neurons, ranks)
    listed = ",".join(map(str, widths))
    demand(
        said.widths == widths,
        "$.widths",
        said.widths,
        f"{widths}, as EXL3 experts are shared out over {ranks} ranks",
        f"serve over {len(said.widths)} ranks, or quantise anew with a plan made with --widths {listed}",
    )
    demand(said.tile == BLOCK, "$.tile", said.tile, f"{BLOCK} for exl3")
    for layer, one in shapes.items():
        demand(
            one.experts == said.experts,
            f"experts of layer {layer}",
            one.experts,
            f"{said.experts}, the plan's",
        )


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
