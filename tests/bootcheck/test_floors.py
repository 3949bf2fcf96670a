"""Floors keep where they come from."""

import pytest

from bootcheck.floors import Floors, override
from sparkctl.errors import UsageFault


def test_an_override_names_its_origin() -> None:
    """A floor set by an inventory says so; the others stay as they were."""
    changed = override(Floors(), {"mtu": 4200.0}, "inventory, line A")
    assert (changed.mtu.value, changed.mtu.origin) == (4200.0, "inventory, line A")
    assert changed.gemv_gb_s == Floors().gemv_gb_s


def test_an_unknown_floor_is_named() -> None:
    """A misspelt floor is a fault that lists the floors there are."""
    with pytest.raises(UsageFault, match=r"'mtuu' is not a floor; wanted one of .*gemv_gb_s"):
        override(Floors(), {"mtuu": 1.0}, "inventory, line A")
