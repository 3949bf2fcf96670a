"""Names: the lists of interfaces and devices that NCCL, Gloo and UCX take from the environment. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """A list of names as NCCL writes it: `^` leaves them out, `=` means whole names where else a beginning is enough.

    A part may end in `:port`, and in `:port:...` for what follows; the name alone is kept.
    """

    parts: tuple[str, ...]
    leaves_out: bool
    is_exact: bool

    @classmethod
    def of(cls, text: str, *, is_exact: bool = False) -> Self:
        """Read a list; `is_exact` is the habit of tools that know no beginnings (Gloo, UCX)."""
        rest = text.strip()
        leaves_out = rest.startswith("^")
        rest = rest.removeprefix("^")
        whole = is_exact or rest.startswith("=")
        parts = (one.strip().partition(":")[0] for one in rest.removeprefix("=").split(","))
        return cls(parts=tuple(one for one in parts if one), leaves_out=leaves_out, is_exact=whole)

    def _names(self, part: str, name: str) -> bool:
        return name == part if self.is_exact else name.startswith(part)

    def among(self, present: Iterable[str]) -> tuple[str, ...]:
        """Return those of the names present that the list chooses."""
        return tuple(
            name for name in present if any(self._names(part, name) for part in self.parts) != self.leaves_out
        )

    def missing(self, present: Iterable[str]) -> tuple[str, ...]:
        """Return the parts that name nothing that is present; what is left out need not be there."""
        there = tuple(present)
        if self.leaves_out:
            return ()
        return tuple(part for part in self.parts if not any(self._names(part, name) for name in there))
