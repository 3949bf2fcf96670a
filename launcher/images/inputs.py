"""Inputs: everything that decides what a build gives, its digest, and the labels that carry both. Pure.

The digest is the SHA-256 of the canonical JSON of all inputs (sorted keys, no spaces), so two images of one digest were built from
the same base, arguments and files. What a build fetches without a hash (Ubuntu's packages) is not in it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from launcher.images.manifest import BASE, Manifest, is_by_digest
from sparkctl.errors import UsageFault

DIGEST = "sparkctl.inputs"
"""Label with the digest of the inputs."""

WHOLE = "sparkctl.inputs.json"
"""Label with the inputs themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What one build is made of; `files` maps the name of each file, Containerfile among them, to its SHA-256."""

    name: str
    base: str
    platform: str
    arguments: Mapping[str, str]
    files: Mapping[str, str]

    @property
    def whole(self) -> str:
        """The canonical JSON."""
        told = {
            "schema": 1,
            "name": self.name,
            "base": self.base,
            "platform": self.platform,
            "arguments": dict(self.arguments),
            "files": dict(self.files),
        }
        return json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, in hex."""
        return sha256(self.whole)

    @property
    def labels(self) -> dict[str, str]:
        """What the finished image says of itself."""
        return {DIGEST: self.digest, WHOLE: self.whole}


def sha256(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def gather(manifest: Manifest, texts: Mapping[str, str], base: str | None) -> Inputs:
    """Return the inputs of a build; `texts` are the files of its context, `base` overrides the manifest's.

    Raises:
        UsageFault: no base is known, or it is not named by its digest.

    """
    reference = base or manifest.base.reference
    if reference is None:
        raise UsageFault(
            f"{manifest.name} names no base image, and none was given",
            hint=f"--base NAME@sha256:..., wanted: {manifest.base.about}. docker buildx imagetools inspect NAME prints the digest",
        )
    if not is_by_digest(reference):
        raise UsageFault(
            f"base {reference!r} is not named by its digest; wanted NAME@sha256:<64 hex digits>",
            hint="a tag means another image tomorrow; docker buildx imagetools inspect NAME prints the digest",
        )
    return Inputs(
        name=manifest.name,
        base=reference,
        platform=manifest.platform,
        arguments={name: one.value for name, one in manifest.arguments.items()},
        files={name: sha256(text) for name, text in texts.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """What the label of an image says against its manifest.

    `none`: it has no such label, so another hand built it; `broken`: the two labels contradict each other; `other`: built from
    other inputs, which `differences` names; `same`: built from what the manifest says.
    """

    state: Literal["none", "broken", "other", "same"]
    differences: tuple[str, ...] = ()
    base: str = ""


def compare(manifest: Manifest, texts: Mapping[str, str], labels: Mapping[str, str]) -> Labelled:
    """Judge an image's labels by the manifest; a base that the owner gave is taken from the label."""
    if DIGEST not in labels and WHOLE not in labels:
        return Labelled(state="none")
    told = _read(labels.get(WHOLE, ""))
    if told is None or sha256(labels.get(WHOLE, "")) != labels.get(DIGEST):
        return Labelled(state="broken", differences=(f"{DIGEST} is not the digest of {WHOLE}",))
    base = str(told.get("base") or "")
    wanted = json.loads(gather(manifest, texts, manifest.base.reference or _known(base)).whole)
    differences = tuple(_differences(told, wanted, ""))
    return Labelled(state="other" if differences else "same", differences=differences, base=base)


def _known(base: str) -> str:
    """Return a base that stands for itself, and one of no digest at all where the label's is none of ours."""
    return base if is_by_digest(base) else f"{BASE.lower()}@sha256:{'0' * 64}"


def _read(text: str) -> dict[str, Any] | None:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


def _differences(found: Any, wanted: Any, place: str) -> Iterator[str]:
    """Name every place in which the label says something else than the manifest."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in sorted({*found, *wanted}, key=str):
            yield from _differences(found.get(key), wanted.get(key), f"{place}.{key}" if place else str(key))
    elif found != wanted:
        yield f"{place}: built with {_shown(found)}, the manifest says {_shown(wanted)}"


def _shown(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 48 else f"{text[:12]}..."
