"""Units: bytes, seconds and how often, parsed and formatted here and nowhere else. Within the program bytes and seconds are bare."""

KIB = 1024
GIB = 1024**3


def gib(n_bytes: float) -> str:
    """Format bytes as GiB with one decimal."""
    return f"{n_bytes / GIB:.1f} GiB"


def duration(seconds: float) -> str:
    """Format seconds for a person: `0.42 s`, `12.3 s`, `4 min 05 s`, `1 h 02 min`."""
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def percent(ratio: float) -> str:
    """Format a ratio as a signed change: 1.031 becomes `+3.1 %`."""
    return f"{(ratio - 1) * 100:+.1f} %"


def times(count: int) -> str:
    """Say how often: `once`, `3 times`."""
    return "once" if count == 1 else f"{count} times"


def hours(text: str) -> float:
    """Read a span such as `12h`, `90m` or `1.5h` as hours.

    Raises:
        ValueError: it is no such span, or not above 0.

    """
    number, unit = text[:-1], text[-1:]
    if unit not in {"h", "m"} or not number.replace(".", "", 1).isdigit() or float(number) == 0:
        raise ValueError(f"{text!r} is no span of time, wanted one such as 12h or 90m")
    return float(number) / (1 if unit == "h" else 60)
