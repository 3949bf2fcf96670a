"""An image on a node: its content as docker tells it, and the room that docker has for another."""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ansible.module_utils.spark_command import Outcome, run

INPUTS = "sparkctl.inputs"  # the label with the digest of what an image of ours was built from
LIMIT_S = 60.0  # docker inspects an image in milliseconds; a node that is starting others answers late


class ImageFault(Exception):
    """Something about an image is not as it must be: measured, wanted, remedy; `said` are docker's own words."""

    def __init__(self, measured: str, wanted: str, remedy: str, *, said: str = "") -> None:
        super().__init__(measured)
        message = f"{measured}; wanted {wanted}"
        self.told = {"msg": message, "measured": measured, "wanted": wanted, "hint": remedy, "stderr": said}


@dataclass(frozen=True)
class Image:
    """One image. `content` stands for what save and load keep: layers, own environment and inputs; an Id may change."""

    reference: str
    content: str
    n_bytes: int
    labels: Mapping[str, str]


def digest(layers: list[str], env: list[str], inputs: str, withheld: Collection[str] = ()) -> str:
    """Return the content digest of an image: SHA-256 of its layers in order, its environment by name, and its inputs label.

    The same as launcher/images/held.py computes on the controller, which never sees a secret: of the variables in `withheld` the name
    alone counts.
    """
    names = (one.partition("=")[0] for one in env)
    env = [f"{name}=" if name in withheld else one for name, one in zip(names, env, strict=True)]
    told = json.dumps(
        {"env": sorted(env), "inputs": inputs, "layers": layers}, sort_keys=True, separators=(",", ":")
    )
    return f"sha256:{hashlib.sha256(told.encode()).hexdigest()}"


def find(reference: str, withheld: Collection[str] = ()) -> Image | None:
    """Return the image of that name, None when the node has none.

    Raises:
        ImageFault: docker does not answer, or answers with something else.

    """
    outcome = run(["docker", "image", "inspect", reference], LIMIT_S)
    if outcome.rc != 0:
        if "no such image" in outcome.stderr.lower():
            return None
        raise _silent(outcome)
    try:
        told = json.loads(outcome.stdout)[0]
        config = told.get("Config") or {}
        layers, env, labels = (
            list(told["RootFS"]["Layers"]),
            list(config.get("Env") or []),
            config.get("Labels") or {},
        )
        return Image(
            reference=reference,
            content=digest(layers, env, labels.get(INPUTS, ""), withheld),
            n_bytes=int(told.get("Size") or 0),
            labels=labels,
        )
    except (ValueError, LookupError, TypeError, AttributeError) as fault:
        raise _silent(outcome) from fault


def info() -> dict[str, Any]:
    """Return what `docker info` says.

    Raises:
        ImageFault: docker does not answer.

    """
    outcome = run(["docker", "info", "--format", "{{json .}}"], LIMIT_S)
    try:
        told = json.loads(outcome.stdout)
        if told["DockerRootDir"] and not told.get("ServerErrors"):
            return dict(told)
    except (ValueError, LookupError, TypeError) as fault:
        raise _silent(outcome) from fault
    raise _silent(outcome)


def demand_room(root: str, n_bytes: int, why: str) -> None:
    """Refuse when docker's folder has less room than `n_bytes`; a node that does not tell is not refused.

    Raises:
        ImageFault: the room is known and too small.

    """
    outcome = run(["df", "--block-size=1", "--output=avail", root], LIMIT_S)
    rows = outcome.stdout.split()
    if outcome.rc != 0 or not rows or not rows[-1].isdigit() or int(rows[-1]) >= n_bytes:
        return
    raise ImageFault(
        f"{int(rows[-1]) / 1024**3:.1f} GiB are free below {root}",
        f"{n_bytes / 1024**3:.1f} GiB ({why})",
        "docker image prune and docker builder prune free what nothing uses; docker system df says what takes how much",
    )


def _silent(outcome: Outcome) -> ImageFault:
    said = outcome.stderr.strip() or outcome.stdout.strip()[:200] or "nothing"
    return ImageFault(
        f"{' '.join(outcome.argv[:3])} ended with rc {outcome.rc} and said: {said}",
        "an answer of the docker daemon",
        "see whether docker runs and whether this login may use it",
        said=outcome.stderr,
    )
