"""Gates on security: who can reach the API and the rendezvous, and which secrets stand where others read them. Pure."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from bootcheck import redact
from bootcheck.gates.gate import Demand, LineGate, NodeGate, Scene, Seen, View, answers, reading
from bootcheck.probes.container import Containers
from bootcheck.probes.listeners import Listener, Listeners, is_everywhere
from sparkctl.line import Node

_SSH = 22
_LEAST = 8  # figures: fewer of them in a flag's value are a number, and no key
_FIREWALL = "let only the fabric reach it (ufw allow from FABRIC/24 to any port PORT)"
_BIND = "give the line an api_host in the inventory; --api-key guards only the /v1 paths, /metrics and others stay open"


def _judge_listeners(listeners: Listeners, view: View) -> Seen:
    line, node = view.scene.line, view.node
    is_head = node.rank == 0
    wide = [one for one in listeners.found if one.is_wildcard and not _is_ssh(one, node)]
    api = [one for one in wide if is_head and one.port == line.api_port]
    meeting = [one for one in wide if one.port == line.master_port]
    others = [one for one in wide if one not in api and one not in meeting]
    told = [f"the API's port is open to all: {one.shown}" for one in api]
    if is_head and not api and is_everywhere(line.api_host):
        told.append(f"the inventory lets the API listen on {line.api_host}:{line.api_port}")
    hints = [_BIND] if told else []
    told += [f"the rendezvous' port is open to all: {one.shown}" for one in meeting]
    told += [f"also {_short(others)}"] if others else []
    hints += [_FIREWALL] if meeting or others else []
    return Seen(
        verdict="warn" if told else "pass",
        measured="; ".join(told) or "nothing but sshd listens on every address",
        hint="; ".join(hints),
    )


def _is_ssh(one: Listener, node: Node) -> bool:
    return one.process == "sshd" or one.port in {_SSH, node.port}


def _short(listeners: list[Listener]) -> str:
    """Name each port once: IPv4 and IPv6 have a row each."""
    shown = {one.port: one.process or "?" for one in listeners}
    return ", ".join(f"{process} on {port}" for port, process in sorted(shown.items()))


def _judge_secrets(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    read, _ = answers(scene, Containers)
    for node, _facts in scene.answering():
        flags = sorted(set(_flags(scene.needs.arguments.get(node.name, ()))))
        if flags:
            measured = f"{', '.join(flags)} in the engine's arguments, with a value"
            hint = (
                "take it out of the recipe's args: vLLM reads VLLM_API_KEY and HF_TOKEN from its environment"
            )
            yield node, Seen(verdict="fail", measured=measured, hint=hint)
            continue
        told = _variables("the recipe's env", scene.needs.environments.get(node.name, {}).items())
        for one in read[node].every if node in read else ():
            told += _variables(f"container {one.name}", one.env.items())
        yield (
            node,
            Seen(
                verdict="warn" if told else "pass",
                measured="; ".join(told) or "no secret in arguments or environments",
            ),
        )


def _flags(words: Iterable[str]) -> Iterator[str]:
    """Give the flags whose value is a secret by its flag's name or by its own shape, never the value."""
    flag = ""
    for word in words:
        name, equals, value = word.partition("=") if word.startswith("--") else (flag, "", word)
        flag = name
        if (equals or not word.startswith("--")) and value and _is_secret(name, value):
            yield name or "a positional argument"


def _is_secret(name: str, value: str) -> bool:
    """Whether a value is a secret, by its name or its own shape; of a JSON document, whether one within it is."""
    try:
        told: Any = json.loads(value)
    except (ValueError, RecursionError):
        told = value
    is_number = isinstance(told, int | float) and len(value) < _LEAST
    return any(
        _is_secret_leaf(*leaf)
        for leaf in _leaves(name, told if isinstance(told, dict | list) or is_number else value)
    )


def _leaves(name: str, told: Any) -> Iterator[tuple[str, Any]]:
    """Give every plain value of a document with the nearest name above it."""
    match told:
        case dict():
            for key, one in told.items():
                yield from _leaves(str(key), one)
        case list():
            for one in told:
                yield from _leaves(name, one)
        case _:
            yield name, told


def _is_secret_leaf(name: str, value: object) -> bool:
    """Say it of one value. Numbers are none, nor are the marks of a tokenizer, which have `token` in their names."""
    if not isinstance(value, str):
        return False
    if redact.text(value) != value:
        return True
    is_named = redact.names_a_secret(name) or redact.WITHHELD in value
    return bool(value) and is_named


def _variables(where: str, environment: Iterable[tuple[str, str]]) -> list[str]:
    names = sorted(name for name, value in environment if value and _is_secret(name, value))
    return [f"{', '.join(names)} in {where}"] if names else []


GATES = (
    NodeGate(
        name="listeners",
        section="security",
        about="nothing but sshd can be reached on every address of the node",
        demand=lambda _: Demand(
            wanted="API and rendezvous on one address each, and no other port on every address",
            origin="host networking and 0.0.0.0 leave an API open to all (MiaAI-Lab/Qwen3.8-Flash-Next-Single-DGX-Spark#8, "
            "reported); torch's rendezvous store listens everywhere (FlashML-org/FreeToken#301, reported)",
        ),
        remedy="bind it to one address, or let a firewall keep others out",
        troubles=(
            "MiaAI-Lab/Qwen3.8-Flash-Next-Single-DGX-Spark#8",
            "FlashML-org/FreeToken#301",
            "vllm-project/vllm#52638",
            "vllm-project/vllm PR#8543",
            "maximhq/bifrost#7175",
        ),
        reads=reading(Listeners),
        judge=_judge_listeners,
        worst="warn",
    ),
    LineGate(
        name="secrets",
        section="security",
        about="no key or token stands in arguments or environments that others can read",
        demand=lambda _: Demand(
            wanted="no secret in the engine's arguments, and none in a container's environment",
            origin="the start log prints the arguments (MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks PR#30, reported), "
            "docker inspect the environment",
        ),
        remedy="docker inspect shows a container's environment to everybody who may use docker: keep the secret in a file of "
        "mode 0600 on the node, and take it back where it was shown",
        troubles=(
            "MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks PR#30",
            "tenstorrent/tt-inference-server PR#874",
            "MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark PR#64",
        ),
        judge=_judge_secrets,
    ),
)
