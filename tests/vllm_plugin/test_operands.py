"""What a kernel is called with is refused by its name where it does not fit what the kernel was made for."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")

from sparkctl_vllm.operands import Operands, Sizes
from sparkctl_vllm.refusal import Refusal

SIZES = Sizes(rows=4, top_k=2, experts=6, tiles=3, hidden=64, packed=torch.uint8, of_a_tile=6528)


def fitting():
    """Operands that fit."""
    return Operands(
        pack=torch.zeros(6, 3, 6528, dtype=torch.uint8),
        importance=torch.zeros(3, 6),
        price=torch.zeros(1),
        depths=torch.zeros(6, dtype=torch.int32),
        x=torch.zeros(4, 64, dtype=torch.bfloat16),
        picks=torch.zeros(4, 2, dtype=torch.int32),
        weights=torch.zeros(4, 2),
        valid=torch.zeros(1, dtype=torch.int32),
        out=torch.zeros(4, 64),
    )


def test_what_fits_is_taken():
    """Nothing is refused, and nothing is read: tensors without memory will do."""
    good = fitting()
    good.checked(SIZES)
    replace(good, **{name: getattr(good, name).to("meta") for name in Operands.__dataclass_fields__}).checked(
        SIZES
    )


SPOILT = {
    "more rows than the graph was captured for": (
        {"x": torch.zeros(5, 64, dtype=torch.bfloat16)},
        r"x: \(5, 64\), allowed: \(4, 64\), what the kernel was made for",
    ),
    "importances an expert a row": ({"importance": torch.zeros(6, 3)}, r"importance: \(6, 3\)"),
    "another top-k": ({"picks": torch.zeros(4, 3, dtype=torch.int32)}, r"picks: \(4, 3\)"),
    "picks of int64": ({"picks": torch.zeros(4, 2, dtype=torch.int64)}, "picks: torch.int64"),
    "weights of float64": ({"weights": torch.zeros(4, 2, dtype=torch.float64)}, "weights: torch.float64"),
    "a price on the host": ({"price": torch.zeros(())}, r"price: \(\)"),
    "depths of int64": ({"depths": torch.zeros(6, dtype=torch.int64)}, "depths: torch.int64"),
    "depths of another rank": ({"depths": torch.zeros(7, dtype=torch.int32)}, r"depths: \(7,\)"),
    "an output of bf16": ({"out": torch.zeros(4, 64, dtype=torch.bfloat16)}, "out: torch.bfloat16"),
    "an output in strides": ({"out": torch.zeros(64, 4).T}, "out: strides"),
    "a pack of fewer tiles": ({"pack": torch.zeros(6, 2, 6528, dtype=torch.uint8)}, r"pack: \(6, 2, 6528\)"),
    "a count elsewhere": ({"valid": torch.zeros(1, dtype=torch.int32, device="meta")}, "valid: meta"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_does_not_fit_is_refused(name):
    """By its name, with what was found and what is allowed."""
    change, says = SPOILT[name]
    with pytest.raises(Refusal, match=says):
        replace(fitting(), **change).checked(SIZES)
