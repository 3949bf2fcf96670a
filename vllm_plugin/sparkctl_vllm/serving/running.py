"""Running: the step that is running and what is noted of it, in tensors that keep their place, so that a captured graph sees each step anew."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Rows that carry load, int32 [1]; least depth of what each row picks, int32 [ranks, most rows]; cost, int64 [most rows]; and read.

    `read` is int64 [2, ranks]: tiles that are read, and tiles of whole reads of the same experts.
    """

    rows: torch.Tensor
    floors: torch.Tensor
    cost: torch.Tensor
    read: torch.Tensor
