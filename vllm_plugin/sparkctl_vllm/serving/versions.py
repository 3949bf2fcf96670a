"""Versions: the releases of vLLM whose plug points these features were tried on; on any other, vLLM serves as if nothing were installed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """One release, and what was tried on it."""

    release: str
    how: str


TESTED = (
    Tested(release="0.32.0", how="served on the CPU, one rank and two ranks over two hosts, and on one H200"),
)


def obstacle(version: str) -> str:
    """Return why a vLLM is left alone, or nothing. What follows a + names a build, not a release."""
    known = [one.release for one in TESTED]
    release = version.split("+", maxsplit=1)[0]
    return "" if release in known else f"vLLM {version} is not one of those tried: {', '.join(known)}"
