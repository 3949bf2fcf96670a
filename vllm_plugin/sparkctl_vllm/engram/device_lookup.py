"""Device lookup: token ids to rows, and rows to where the forward reads them, on the GPU and inside a captured graph.

Resident rows are decoded straight to their places, and `Lookup` brings the others from disk: the CPU hashes the same tokens, asks the same
lines and reads meanwhile, so the two need not wait for each other until the rows are wanted.
"""

from dataclasses import dataclass

import numpy as np
import torch
import triton

from sparkctl_vllm.engram import triton_kernels as kernels
from sparkctl_vllm.engram.definition import ROW_VALUES
from sparkctl_vllm.engram.membership import Membership
from sparkctl_vllm.engram.reader import Reader
from sparkctl_vllm.engram.row_format import BYTES, Format
from sparkctl_vllm.engram.row_ids import Ids
from sparkctl_vllm.engram.tables import Slice
from sparkctl_vllm.refusal import demand

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


def place(read: torch.Tensor, slot: torch.Tensor, places: torch.Tensor, staged: torch.Tensor) -> None:
    """Decode fp8 rows that were read, uint8 [rows, 264] at `slot` int32, to their `places` int32 of `staged` bfloat16 [places, 256]."""
    if len(places):
        kernels.place_rows[(triton.cdiv(len(places), LOOKUPS),)](
            *(read, slot, places, staged.view(-1, ROW_VALUES), len(places)), ROW=BYTES["fp8"], BLOCK=LOOKUPS
        )


class Lookup:
    """Rows of one table for a step of up to so many lookups: the resident ones by the GPU, the others by the CPU's reader, each to its place."""

    def __init__(self, resident: Resident, reader: Reader, lookups: int) -> None:
        demand(reader.raw, "reader", "one that decodes", "a raw one: the GPU decodes")
        device = resident.rows.device
        self.resident, self.reader = resident, reader
        self._read = torch.zeros(lookups, BYTES["fp8"], dtype=torch.uint8, pin_memory=device.type == "cuda")
        self._copied = torch.cuda.Event() if device.type == "cuda" else None

    def expect(self, ids: Ids) -> int:
        """Begin to read rows that a later step may want, as soon as a draft token is known; returns how many are read."""
        return self.reader.begin(ids, None)

    def begin(self, ids: Ids, on_device: torch.Tensor, staged: torch.Tensor) -> int:
        """Begin a step: `ids` int64 [lookups], and the same on the device; returns how many rows are read from disk."""
        self.resident.gather(on_device, staged)
        if self._copied:  # the step before may still copy out of what is about to be written
            self._copied.synchronize()
        return self.reader.begin(ids, self._read.numpy())

    def finish(self, staged: torch.Tensor) -> None:
        """Wait for the rows from disk, on the CPU, and put them to their places of `staged` bfloat16 [lookups, 256]."""
        self.reader.wait(self._read.numpy())
        places = self.reader.places()
        device = staged.device
        slot = torch.arange(len(places), dtype=torch.int32, device=device)
        target = torch.from_numpy(np.ascontiguousarray(places)).to(device)
        read = self._read[: len(places)].to(device, non_blocking=True)
        if self._copied:
            self._copied.record()
        place(read, slot, target, staged)
