"""Ansible module: one end of the stream that brings an image from one node to the others, run on all of them at once.

The sender serves `docker save` at its own address, every receiver pipes it into `docker load` and then proves that it has the same
content. Nothing is written to a file on the way, and no node logs in to another.
"""

import time
from typing import Any

from ansible.module_utils import spark_image, spark_receiver, spark_sender
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.spark_image import Image, ImageFault

DOCUMENTATION = """
module: spark_image_sync
short_description: Send an image to other nodes, or receive it
description:
  - Runs on the sender and on every receiver in one task. A receiver that has the content already only says so.
  - A stream that breaks is taken up where it broke, its beginning proven by SHA-256; bytes that arrive damaged never reach docker.
author: [the sparkctl authors]
attributes:
  check_mode: {support: full, description: Looks at the node, opens no port and says what would change.}
  diff_mode: {support: full, description: The image's content before and after.}
options:
  end: {type: str, choices: [send, receive], required: true, description: Which end this node is.}
  image: {type: str, required: true, description: Name of the image with its tag.}
  content: {type: str, required: true, description: Content digest that the sender has and every receiver shall have.}
  node: {type: str, required: true, description: This node's name.}
  own: {type: str, required: true, description: This node's own address on the network that carries the stream.}
  address: {type: str, required: true, description: The sender's address on that network.}
  port: {type: int, required: true, description: Where the sender listens.}
  token: {type: str, required: true, description: Secret of this one run, which both ends prove and never send.}
  receivers: {type: list, elements: str, required: true, description: Names of all receivers.}
  image_bytes: {type: int, required: true, description: What docker says that the image takes.}
  withheld:
    type: list
    elements: str
    default: []
    description: Variables of the image whose values the controller does not know; the content digest leaves them out.
  come_s: {type: float, default: 30, description: Seconds in which the other end must appear.}
  silence_s: {type: float, default: 30, description: Seconds without a sign of life after which a connection counts as broken.}
  docker_s: {type: float, default: 1800, description: Seconds for docker to begin the export or to end the unpacking.}
  most_breaks: {type: int, default: 20, description: How often a stream may break before the node gives up.}
  most_restarts: {type: int, default: 2, description: How often a stream may begin anew because its beginning changed.}
"""

EXAMPLES = """
- name: The image is here
  spark_image_sync:
    end: receive
    image: sparkctl/vllm-dsv41-exl3:0.33.0
    content: sha256:4c1e...
    node: spark-a1
    own: 192.0.2.11
    address: 192.0.2.10
    port: 20755
    token: "{{ token_of_this_run }}"
    receivers: [spark-a1]
    image_bytes: 33000000000
"""

RETURN = """
bytes: {description: Length of the stream., returned: end receive, type: int}
seconds: {description: Wall time of the stream and of docker's unpacking., returned: always, type: float}
breaks: {description: How often the stream was taken up again., returned: end receive, type: int}
restarts: {description: How often it began anew., returned: end receive, type: int}
sha256: {description: SHA-256 of the whole stream on this end., returned: end receive, type: str}
ended: {description: What each receiver said at its end., returned: end send, type: dict}
missing: {description: Receivers that never came to an end., returned: end send, type: list, elements: str}
strangers: {description: Callers that did not know the secret., returned: end send, type: int}
measured: {description: What was found., returned: failure, type: str}
wanted: {description: What was wanted., returned: failure, type: str}
hint: {description: The remedy., returned: failure, type: str}
"""

UNPACKED = (
    2  # of what the image takes: docker holds the stream's layers beside the unpacked ones for a while. Ours.
)
STALL_S = 300.0  # a receiver whose docker takes nothing for so long, or which is gone without a word. Ours.

Result = dict[str, Any]


def send(wanted: Result) -> Result:
    """Serve the image until every receiver has ended.

    Raises:
        ImageFault: the image is not the one that was seen, there is no room to stage it, or the port cannot be had.

    """
    held = spark_image.find(wanted["image"], wanted["withheld"])
    if held is None or held.content != wanted["content"]:
        found = "is not there" if held is None else f"has content {held.content}"
        raise ImageFault(
            f"{wanted['image']} {found} on the sender {wanted['node']}",
            f"content {wanted['content']}, as it was seen a moment ago",
            "somebody changes images on that node; run again when that is done",
        )
    if wanted["check_mode"]:
        return {"changed": False, "ended": {}, "missing": [], "strangers": 0}
    why = "docker may stage the export in its own folder"
    spark_image.demand_room(spark_image.info()["DockerRootDir"], wanted["image_bytes"], why)
    sender = spark_sender.Sender(
        save=("docker", "save", wanted["image"]),
        address=wanted["own"],
        port=wanted["port"],
        token=wanted["token"],
        receivers=frozenset(wanted["receivers"]),
        limits=spark_sender.Limits(wanted["come_s"], STALL_S),
    )
    sender.serve()
    missing = sorted(sender.receivers - sender.ended.keys())
    return {"changed": False, "ended": sender.ended, "missing": missing, "strangers": sender.strangers}


def receive(wanted: Result) -> Result:
    """Take the image in, unless its content is there already, and prove it.

    Raises:
        ImageFault: no room, no sender, a stream that broke too often, docker's own fault, or another content in the end.

    """
    receiver = _receiver(wanted)
    held = spark_image.find(wanted["image"], wanted["withheld"])
    is_here = held is not None and held.content == wanted["content"]
    diff = {"before": _line(held), "after": f"{wanted['image']} {wanted['content']}\n"}
    if is_here or wanted["check_mode"]:
        if not wanted["check_mode"]:
            receiver.end("had it", wanted["come_s"])
        return {"changed": not is_here, "bytes": 0, "breaks": 0, "restarts": 0, "sha256": "", "diff": diff}
    try:
        why = f"{UNPACKED} times what the image takes, since docker holds it packed and unpacked for a while"
        spark_image.demand_room(spark_image.info()["DockerRootDir"], UNPACKED * wanted["image_bytes"], why)
    except ImageFault as fault:
        receiver.end(f"failed: {fault}", wanted["come_s"])
        raise
    taken = receiver.take()
    receiver.end("took it")
    _demand_content(wanted)
    return {
        "changed": True,
        "bytes": taken.n_bytes,
        "breaks": taken.breaks,
        "restarts": taken.restarts,
        "last_break": taken.last,
        "sha256": taken.hash.hexdigest(),
        "diff": diff,
    }


def _receiver(wanted: Result) -> spark_receiver.Receiver:
    return spark_receiver.Receiver(
        node=wanted["node"],
        own=wanted["own"],
        address=wanted["address"],
        port=wanted["port"],
        token=wanted["token"],
        load=("docker", "load"),
        limits=spark_receiver.Limits(
            **{
                name: wanted[name]
                for name in ("come_s", "silence_s", "docker_s", "most_breaks", "most_restarts")
            }
        ),
    )


def _demand_content(wanted: Result) -> None:
    held = spark_image.find(wanted["image"], wanted["withheld"])
    if held is None or held.content != wanted["content"]:
        found = "is not there" if held is None else f"has content {held.content}"
        raise ImageFault(
            f"after docker load {wanted['image']} {found}",
            f"content {wanted['content']}, the sender's",
            "remove the image on this node (docker image rm) and run again; tell us the docker versions of both nodes",
        )


def _line(held: Image | None) -> str:
    return f"{held.reference} {held.content}\n" if held else ""


def main() -> None:
    """Answer Ansible."""
    texts = ("image", "content", "node", "own", "address")
    module = AnsibleModule(
        argument_spec={
            "end": {"type": "str", "choices": ["send", "receive"], "required": True},
            **{name: {"type": "str", "required": True} for name in texts},
            "port": {"type": "int", "required": True},
            "token": {"type": "str", "required": True, "no_log": True},
            "receivers": {"type": "list", "elements": "str", "required": True},
            "image_bytes": {"type": "int", "required": True},
            "withheld": {"type": "list", "elements": "str", "default": []},
            "come_s": {"type": "float", "default": 30.0},
            "silence_s": {"type": "float", "default": 30.0},
            "docker_s": {"type": "float", "default": 1800.0},
            "most_breaks": {"type": "int", "default": 20},
            "most_restarts": {"type": "int", "default": 2},
        },
        supports_check_mode=True,
    )
    wanted = {**module.params, "check_mode": module.check_mode}
    begin = time.monotonic()
    try:
        answer = send(wanted) if wanted["end"] == "send" else receive(wanted)
    except ImageFault as fault:
        module.fail_json(**fault.told, invocation={})
    module.exit_json(**answer, seconds=round(time.monotonic() - begin, 3), invocation={})


if __name__ == "__main__":
    main()
