"""Building: the docker command that builds an image from its inputs, and what image_build.yml needs. Pure."""

from collections.abc import Mapping

from launcher.images.inputs import Inputs
from launcher.images.manifest import BASE, CONTAINERFILE, Manifest
from sparkctl.units import GIB


def argv(manifest: Manifest, inputs: Inputs) -> tuple[str, ...]:
    """Return the whole docker build command; its context comes on stdin as a tar archive."""
    values = {BASE: inputs.base, **inputs.arguments}
    return (
        *("docker", "build", "--platform", inputs.platform, "--tag", manifest.image),
        *(word for name, value in values.items() for word in ("--build-arg", f"{name}={value}")),
        *(word for name, value in inputs.labels.items() for word in ("--label", f"{name}={value}")),
        *("--file", CONTAINERFILE, "-"),
    )


def variables(manifest: Manifest, inputs: Inputs, texts: Mapping[str, str], node: str) -> dict[str, object]:
    """Return what image_build.yml needs to build on one node."""
    return {
        "build_on": [node],
        "build": {
            "image": manifest.image,
            "argv": list(argv(manifest, inputs)),
            "files": dict(texts),
            "inputs": inputs.digest,
            "platform": inputs.platform,
            "space_bytes": round(manifest.space_gib * GIB),
        },
    }
