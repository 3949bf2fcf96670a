"""Building: the docker command that builds an image from its inputs, and what image_build.yml needs. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from launcher.images.inputs import Inputs
from launcher.images.manifest import BASE, CONTAINERFILE, Manifest
from sparkctl.units import GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One build on one node; `texts` are the files of its context by name."""

    manifest: Manifest
    inputs: Inputs
    texts: Mapping[str, str]
    node: str


def argv(manifest: Manifest, inputs: Inputs) -> tuple[str, ...]:
    """Return the whole docker build command; its context comes on stdin as a tar archive."""
    values = {BASE: inputs.base, **inputs.arguments}
    return (
        *("docker", "build", "--platform", inputs.platform, "--tag", manifest.image),
        *(word for name, value in values.items() for word in ("--build-arg", f"{name}={value}")),
        *(word for name, value in inputs.labels.items() for word in ("--label", f"{name}={value}")),
        *("--file", CONTAINERFILE, "-"),
    )


def variables(job: Job) -> dict[str, object]:
    """Return what image_build.yml needs."""
    return {
        "build_on": [job.node],
        "build": {
            "image": job.manifest.image,
            "argv": list(argv(job.manifest, job.inputs)),
            "files": dict(job.texts),
            "inputs": job.inputs.digest,
            "platform": job.inputs.platform,
            "space_bytes": round(job.manifest.space_gib * GIB),
        },
    }
