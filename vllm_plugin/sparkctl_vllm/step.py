"""A step at the door: hidden states, router's picks and weights, checked once before any kernel sees them."""

from dataclasses import dataclass

import torch

from sparkctl_vllm.experts import Experts
from sparkctl_vllm.loads import MOST_WEIGHT
from sparkctl_vllm.refusal import demand

MOST_TOP_K = 8
"""Experts a row may pick. Ours: V4.1 picks 6; the kernels reserve one thread a pick."""
MOST_ROWS = 64
"""Rows of a step that is read by budget. Ours: beyond that a step is prefill, which computes rather than waits for bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How deep a step reads: tiles worth more than `price` in float32, between `floor` and all of them.

    `importance` is float32 [experts, tiles], non-increasing along the tiles. Price 0 with floor = tiles reads everything.
    """

    importance: torch.Tensor
    price: float
    floor: int = 1

    def checked(self, experts: Experts) -> None:
        """Refuse a reading that does not fit the experts."""
        wanted = (experts.gate.shape[0], experts.tiles)
        table = self.importance
        demand(tuple(table.shape) == wanted, "importance", tuple(table.shape), str(wanted))
        demand(table.dtype == torch.float32, "importance", table.dtype, "float32")
        demand(
            bool(torch.isfinite(table).all()) and bool((table >= 0).all()),
            "importance",
            "NaN, infinite or negative",
            "0 or more",
        )
        demand(
            not bool((table.diff(dim=1) > 0).any()),
            "importance",
            "rising along the tiles",
            "non-increasing",
            "sort first",
        )
        demand(
            1 <= self.floor <= experts.tiles,
            "floor",
            self.floor,
            f"1 to {experts.tiles}: depth 0 would drop an expert that was picked",
        )
        demand(self.price >= 0, "price", self.price, "0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """A reading as the kernels take it: importance float32 [tiles, experts] and the price, one number, both on the device.

    A captured graph keeps the addresses, so a price that is written there counts from the next replay on.
    """

    importance: torch.Tensor
    price: torch.Tensor
    floor: int = 1

    @classmethod
    def of(cls, reading: Reading) -> "Priced":
        """Lay a reading out for the kernels, on the device of its importance."""
        importance = reading.importance.T.contiguous()
        price = torch.tensor([reading.price], device=importance.device)
        return cls(importance=importance, price=price, floor=reading.floor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What a layer is asked: x bf16 [rows, hidden], picks int32 and router weights float32 [rows, top-k], all contiguous."""

    x: torch.Tensor
    picks: torch.Tensor
    weights: torch.Tensor

    def part(self, begin: int, count: int) -> "Rows":
        """Return at most so many rows from one on."""
        rows = slice(begin, begin + count)
        return Rows(x=self.x[rows], picks=self.picks[rows], weights=self.weights[rows])

    def filled(self, count: int) -> "Rows":
        """Return so many rows: those behind ours are zeros that pick nobody."""
        lacking = (0, 0, 0, count - len(self.x))
        x, weights = (torch.nn.functional.pad(one, lacking) for one in (self.x, self.weights))
        return Rows(x=x, picks=torch.nn.functional.pad(self.picks, lacking, value=-1), weights=weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Rows):
    """One step of a layer: rows from `valid` on are padding."""

    valid: int

    def checked(self, experts: Experts, most_rows: int = MOST_ROWS) -> None:
        """Refuse a step that does not fit; reads the device, so it is for the door and for tests, never inside a captured graph."""
        rows = self.x.shape[0]
        demand(
            self.x.ndim == 2 and self.x.shape[1] == experts.gate.shape[2],
            "x",
            tuple(self.x.shape),
            f"[rows, {experts.gate.shape[2]}]",
        )
        demand(self.x.dtype == torch.bfloat16, "x", self.x.dtype, "bfloat16")
        demand(self.x.is_contiguous(), "x", f"strides {self.x.stride()}", "contiguous")
        demand(
            1 <= rows <= most_rows, "rows of x", rows, f"1 to {most_rows}, what the graph was captured for"
        )
        demand(0 <= self.valid <= rows, "valid rows", self.valid, f"0 to {rows}")
        self._picks_checked(experts, rows)
        demand(bool(torch.isfinite(self.x[: self.valid]).all()), "x", "NaN or infinite", "finite")

    def _picks_checked(self, experts: Experts, rows: int) -> None:
        demand(
            self.picks.ndim == 2 and self.picks.shape[0] == rows,
            "picks",
            tuple(self.picks.shape),
            f"[{rows}, top-k]",
        )
        demand(
            1 <= self.picks.shape[1] <= MOST_TOP_K,
            "top-k",
            self.picks.shape[1],
            f"1 to {MOST_TOP_K}, what is compiled",
        )
        demand(
            self.weights.shape == self.picks.shape,
            "router weights",
            tuple(self.weights.shape),
            str(tuple(self.picks.shape)),
        )
        demand(self.picks.dtype == torch.int32, "picks", self.picks.dtype, "int32")
        demand(self.weights.dtype == torch.float32, "router weights", self.weights.dtype, "float32")
        demand(
            self.picks.is_contiguous() and self.weights.is_contiguous(),
            "picks and router weights",
            "strided",
            "contiguous",
        )
        live = self.picks[: self.valid]
        count = experts.gate.shape[0]
        demand(
            not bool((live >= count).any()),
            "picks",
            int(live.max()) if live.numel() else 0,
            f"below {count}, negative for another rank's",
        )
        twice = live.sort(dim=1).values.diff(dim=1) == 0
        demand(
            not bool((twice & (live.sort(dim=1).values[:, 1:] >= 0)).any()),
            "picks",
            "an expert twice in one row",
            "distinct experts",
        )
        weights = self.weights[: self.valid]
        sound = bool(torch.isfinite(weights).all()) and bool((weights.abs() <= MOST_WEIGHT).all())
        demand(
            sound,
            "router weights",
            "NaN, infinite or too large",
            f"finite, at most {MOST_WEIGHT:g} in magnitude",
        )
