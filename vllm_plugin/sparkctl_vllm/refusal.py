"""Refusal: what is said when an input does not fit, with what was found, what is allowed, and the remedy."""


class Refusal(ValueError):
    """An input that is not taken: what it is called, what was found, what is allowed."""

    def __init__(self, name: str, found: object, allowed: str, hint: str = "") -> None:
        self.name = name
        self.hint = hint
        super().__init__(f"{name}: {found}, allowed: {allowed}" + (f"\n\nhint: {hint}" if hint else ""))


def demand(holds: object, name: str, found: object, allowed: str, hint: str = "") -> None:
    """Refuse unless the condition holds."""
    if not holds:
        raise Refusal(name, found, allowed, hint)
