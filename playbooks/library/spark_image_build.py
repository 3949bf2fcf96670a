"""Ansible module: an image built on this node from files that the controller sends, unless it is there already.

The build context is piped into `docker build`; no file is left on the node. What it is built from stands in two labels.
"""

import io
import subprocess
import tarfile
import time
from collections.abc import Mapping
from typing import Any

from ansible.module_utils import spark_image
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.spark_image import Image, ImageFault

DOCUMENTATION = """
module: spark_image_build
short_description: Build an image from files of the controller
description:
  - An image whose label has the wanted digest of inputs is left alone.
  - Refuses before the build when the node is of another machine than the image, or docker has too little room.
author: [the sparkctl authors]
attributes:
  check_mode: {support: full, description: Looks at the image and says whether it would be built.}
  diff_mode: {support: full, description: The digest of inputs before and after.}
options:
  image: {type: str, required: true, description: Name of the image with its tag.}
  argv: {type: list, elements: str, required: true, description: The complete docker build command; its context comes on stdin.}
  files: {type: dict, required: true, description: Text of each file of the context by its name.}
  inputs: {type: str, required: true, description: Digest of all inputs, which the label sparkctl.inputs has.}
  platform: {type: str, required: true, description: "What the image is for, such as linux/arm64."}
  space_bytes: {type: int, required: true, description: Free space that docker must have.}
  limit_s: {type: float, default: 14400, description: Seconds that the build may take.}
"""

EXAMPLES = """
- name: The image is built
  spark_image_build:
    image: sparkctl/vllm-dsv41-exl3:0.33.0
    argv: [docker, build, --tag, sparkctl/vllm-dsv41-exl3:0.33.0, --label, sparkctl.inputs=4c1e..., --file, Containerfile, "-"]
    files: {Containerfile: "FROM ..."}
    inputs: 4c1e...
    platform: linux/arm64
    space_bytes: 85899345920
"""

RETURN = """
content: {description: Content digest of the image., returned: success, type: str}
image_bytes: {description: What docker says that it takes., returned: success, type: int}
seconds: {description: Wall time., returned: success, type: float}
log: {description: The build's last lines., returned: success, type: str}
measured: {description: What was found., returned: failure, type: str}
wanted: {description: What was wanted., returned: failure, type: str}
hint: {description: The remedy., returned: failure, type: str}
"""

KEPT = 8_000  # characters of the build's log, from its end
MACHINES = {"aarch64": "linux/arm64", "arm64": "linux/arm64", "x86_64": "linux/amd64", "amd64": "linux/amd64"}

Result = dict[str, Any]


def build(wanted: Result) -> Result:
    """Build the image unless one of the same inputs is there.

    Raises:
        ImageFault: another machine, no room, docker's own fault, or an image without the wanted label in the end.

    """
    held = spark_image.find(wanted["image"])
    before = held.labels.get(spark_image.INPUTS, "") if held else ""
    diff = {"before": f"{before}\n" if before else "", "after": f"{wanted['inputs']}\n"}
    if held is not None and before == wanted["inputs"]:
        return {"changed": False, "log": "", "diff": diff, **_told(held)}
    told = spark_image.info()
    _demand_machine(told, wanted["platform"])
    spark_image.demand_room(
        told["DockerRootDir"], wanted["space_bytes"], "what the manifest asks for a build"
    )
    if wanted["check_mode"]:
        return {"changed": True, "log": "", "diff": diff, "content": "", "image_bytes": 0}
    log = _run(wanted["argv"], archive(wanted["files"]), wanted["limit_s"])
    made = spark_image.find(wanted["image"])
    found = made.labels.get(spark_image.INPUTS, "none") if made else "no image"
    if made is None or found != wanted["inputs"]:
        raise ImageFault(
            f"after docker build {wanted['image']} has the label {spark_image.INPUTS} {found}",
            wanted["inputs"],
            "somebody else built under the same name meanwhile; run again",
        )
    return {"changed": True, "log": log, "diff": diff, **_told(made)}


def archive(files: Mapping[str, str]) -> bytes:
    """Return the context as a tar archive that is the same for the same files."""
    kept = io.BytesIO()
    with tarfile.open(fileobj=kept, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, text in sorted(files.items()):
            data = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    return kept.getvalue()


def _demand_machine(told: Result, platform: str) -> None:
    machine = str(told.get("Architecture"))
    if MACHINES.get(machine, machine) != platform:
        raise ImageFault(
            f"this node is {machine}",
            f"a node of the image's machine, {platform}",
            "name another node with --node; compiling for another machine under emulation takes days",
        )


def _run(argv: list[str], context: bytes, limit_s: float) -> str:
    try:
        ran = subprocess.run(
            argv,
            input=context,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode(errors="replace")[-KEPT:]
        raise ImageFault(
            f"docker build had not ended after {limit_s:g} s",
            "a built image",
            "read the build's last lines, and see whether the node reaches what it downloads",
            said=said,
        ) from late
    said = ran.stdout.decode(errors="replace")[-KEPT:]
    if ran.returncode != 0:
        last = next((line for line in reversed(said.splitlines()) if line.strip()), "no word")
        raise ImageFault(
            f"docker build ended with rc {ran.returncode}: {last.strip()}",
            "a built image",
            "docker's own words name the step; what is built up to it is kept, so that a second run goes on there",
            said=said,
        )
    return said


def _told(image: Image) -> Result:
    return {"content": image.content, "image_bytes": image.n_bytes}


def main() -> None:
    """Answer Ansible."""
    module = AnsibleModule(
        argument_spec={
            "image": {"type": "str", "required": True},
            "argv": {"type": "list", "elements": "str", "required": True},
            "files": {"type": "dict", "required": True},
            "inputs": {"type": "str", "required": True},
            "platform": {"type": "str", "required": True},
            "space_bytes": {"type": "int", "required": True},
            "limit_s": {"type": "float", "default": 14400.0},
        },
        supports_check_mode=True,
    )
    begin = time.monotonic()
    try:
        answer = build({**module.params, "check_mode": module.check_mode})
    except ImageFault as fault:
        module.fail_json(**fault.told, invocation={})
    module.exit_json(**answer, seconds=round(time.monotonic() - begin, 3), invocation={})


if __name__ == "__main__":
    main()
