"""Rank rows: from a folder on a node to the rows of one table that its rank serves, the resident ones only if they are faster there."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from sparkctl_vllm.engram import checkpoint, choice, hot_rows, steps
from sparkctl_vllm.engram.device_lookup import Resident
from sparkctl_vllm.engram.folder import Folder
from sparkctl_vllm.engram.reader import Held, Reader, Source
from sparkctl_vllm.engram.row_format import BYTES
from sparkctl_vllm.engram.staging import Staging
from sparkctl_vllm.engram.tables import Slice
from sparkctl_vllm.refusal import demand

LATE = 65_536
"""Ours: rows of late that are kept for what a session repeats, 17 MB a table."""
STEPS = 200
"""Ours: of so many the 95th percentile has ten slower ones behind it; with both paths, a second at a GPU's start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What serves a table's rows, and what a log says of it."""

    staging: Staging
    told: tuple[str, ...]


def served(folder: Folder, model: Path, owned: Slice, lookups: int, device: torch.device) -> Served:
    """Open a rank's files of one table; raises Refusal for whatever is missing, has holes, or is another rank's or checkpoint's."""
    layer = owned.table.layer
    bound = checkpoint.identity(checkpoint.shard(model, layer), owned)
    path = folder.all_rows(layer)
    source = hot_rows.source(path, owned, bound)
    disk = Staging(None, Reader(source, raw=True, late=LATE), lookups, device)
    reads = f"Engram layer {layer} reads rows {owned.begin} to {owned.end} from {path}"
    if not folder.resident:
        return Served(staging=disk, told=(reads,))
    found = hot_rows.held(folder.hot_rows(layer), owned, bound)
    demand(found.kind == folder.kind, folder.hot_rows(layer).name, found.kind, folder.kind)
    resident = _resident(found, source, lookups, device)
    taken = steps.of_rank(steps.read(folder.steps(layer), owned.table, STEPS + choice.WARM), owned)
    chosen = choice.measured(resident.look, disk.look, taken, exact=found.kind == "fp8")
    kept, other = (resident, disk) if chosen.keeps == "resident" else (disk, resident)
    other.close()
    keeps = f"Engram layer {layer} {chosen.told()}, {len(found.rows)} rows in {found.kind}"
    return Served(staging=kept, told=(reads, keeps))


def _resident(found: Held, source: Source, lookups: int, device: torch.device) -> Staging:
    """Put hot rows on the device; the CPU only keeps the lines that say which they are."""
    resident = Resident(torch.from_numpy(found.rows).to(device), found.membership, found.kind)
    lines = Held(
        rows=np.zeros((0, BYTES[found.kind]), dtype=np.uint8), membership=found.membership, kind=found.kind
    )
    return Staging(resident, Reader(source, held=lines, raw=True, late=LATE), lookups, device)
