"""Device lookup: token ids to rows, and rows to where the forward reads them, on the GPU and inside a captured graph.

Resident rows are decoded straight to their places; staging.py brings the others from disk.
"""

from dataclasses import dataclass

import torch
import triton

from sparkctl_vllm.engram import triton_kernels as kernels
from sparkctl_vllm.engram.membership import Membership
from sparkctl_vllm.engram.row_format import BYTES, Format
from sparkctl_vllm.engram.tables import Slice

LOOKUPS = 4
"""Lookups of one program: at 36 tokens of 6 columns that is 54 programs, about one for each of GB10's 48 multiprocessors."""


class Hash:
    """Row ids of one rank's columns of a table."""

    def __init__(self, owned: Slice, device: torch.device) -> None:
        table = owned.table
        constants = (table.primes, table.offsets, table.multipliers)
        self._constants = [torch.tensor(one, dtype=torch.int64, device=device) for one in constants]
        self.owned = owned

    def __call__(
        self, flat: torch.Tensor, at: torch.Tensor, start: torch.Tensor, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return int64 [tokens, columns of the rank], counted from the rank's first row; operands as in `row_ids.of_batch`."""
        owned, table = self.owned, self.owned.table
        columns = len(owned.columns)
        rows = torch.empty(len(at), columns, dtype=torch.int64, device=at.device) if out is None else out
        if len(at):
            kernels.row_ids[(len(at),)](
                *(flat, at, start, *self._constants, rows, owned.columns.start, owned.begin, table.pad),
                COLUMNS=columns,
                WIDTH=triton.next_power_of_2(columns),
                HEADS=table.heads,
                ORDER=len(table.multipliers),
            )
        return rows


class Resident:
    """Rows of one table on the device, with the lines that say which they are."""

    def __init__(self, rows: torch.Tensor, membership: Membership, kind: Format) -> None:
        """Take rows uint8 [rows, bytes of a row] by ascending id, already on the device."""
        self.rows, self.kind = rows, kind
        self.lines = torch.from_numpy(membership.lines.view("int32")).to(rows.device)

    def gather(self, ids: torch.Tensor, staged: torch.Tensor, missing: "Missing | None" = None) -> None:
        """Decode held rows of `ids` int64 [lookups], counted from the rank's first and negative for nobody's, to `staged` bfloat16 [lookups, 256].

        Where others want to know, the places of the rest are listed in `missing`. One launch, and a memset where it lists.
        """
        total = ids.numel()
        if missing is not None:
            missing.count.zero_()
        if total:
            listed = (ids, ids) if missing is None else (missing.places, missing.count)
            kernels.gather[(triton.cdiv(total, LOOKUPS),)](
                *(ids, self.lines, self.rows, staged, *listed, total),
                ROW=BYTES[self.kind],
                FP4=self.kind == "fp4",
                LISTS=missing is not None,
                BLOCK=LOOKUPS,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Lookups that a gather did not find: their places int32 [lookups], in no order, and int32 [1] how many."""

    places: torch.Tensor
    count: torch.Tensor
