"""Gates on what a rank's environment tells NCCL, Gloo and vLLM about the fabric, before any rank starts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bootcheck.facts import NodeFacts, Unread
from bootcheck.findings import Verdict
from bootcheck.gates.gate import Demand, NodeGate, Seen, View, describe
from bootcheck.gates.names import Names
from bootcheck.probes.fabric import Links
from bootcheck.probes.rdma import Hca, Hcas
from sparkctl.line import Node

# Whose variables they are: NCCL's, Gloo's, TensorPipe's and UCX'. An empty one is no unset one.
_OWNERS = ("NCCL_", "GLOO_", "TP_", "UCX_")
_HOST = "VLLM_HOST_IP"
# NCCL itself takes an interface by the beginning of its name; Gloo and TensorPipe want the whole name.
_INTERFACES, _DEVICES, _EITHER = "_IFNAME", "NCCL_IB_HCA", "UCX_NET_DEVICES"

_Fault = tuple[Verdict, str, str]
"""How grave it is, what is wrong, the remedy."""


def _judge_values(_: NodeFacts, view: View) -> Seen:
    env = view.needs.environments.get(view.node.name, {})
    faults = [*_empty(env), *_sockets(env), *_host(env, view.node)] if len(view.scene.line.nodes) > 1 else []
    told = ", ".join(f"{name}={env[name]}" for name in ("NCCL_NET", "NCCL_IB_DISABLE", _HOST) if name in env)
    return _seen(faults, told or "nothing said")


def _seen(faults: list[_Fault], told: str) -> Seen:
    if not faults:
        return Seen(verdict="pass", measured=told)
    worst: Verdict = "fail" if any(grave == "fail" for grave, _, _ in faults) else "warn"
    return Seen(
        verdict=worst,
        measured="; ".join(said for _, said, _ in faults),
        hint="; ".join(dict.fromkeys(hint for _, _, hint in faults)),
    )


def _empty(env: Mapping[str, str]) -> Iterator[_Fault]:
    for name, value in env.items():
        if name.startswith(_OWNERS) and not value.strip():
            yield "fail", f"{name} is empty", f"give env.{name} a value, or leave it out of the recipe"


def _sockets(env: Mapping[str, str]) -> Iterator[_Fault]:
    """Name what would make NCCL use TCP, which boots and serves several times slower."""
    net, disabled = env.get("NCCL_NET"), env.get("NCCL_IB_DISABLE", "0")
    if net is None:
        yield (
            "warn",
            "NCCL_NET is not set: without RDMA NCCL would fall back to TCP unseen",
            "set env.NCCL_NET to IB",
        )
    elif net.strip().lower() == "socket":
        yield "fail", f"NCCL_NET={net} means TCP", "set env.NCCL_NET to IB"
    elif net.strip() and net.strip().upper() != "IB":
        yield "warn", f"NCCL_NET={net} is another network than IB", "set env.NCCL_NET to IB"
    if disabled.strip() not in {"", "0"}:
        yield "fail", f"NCCL_IB_DISABLE={disabled} means TCP", "set env.NCCL_IB_DISABLE to 0"


def _host(env: Mapping[str, str], node: Node) -> Iterator[_Fault]:
    own = [rail.address for rail in node.rails]
    address = env.get(_HOST)
    hint = f'set env.{_HOST} to "{{fabric_address}}"'
    if address is None:
        yield "warn", f"{_HOST} is not set: vLLM takes the address of the default route", hint
    elif address not in own:
        yield "fail", f"{_HOST}={address} is no fabric address of this node ({', '.join(own)})", hint


@dataclass(frozen=True, slots=True, kw_only=True)
class _Present:
    """What a node has: its interfaces, and its RDMA devices or why they are not known."""

    links: Links
    devices: tuple[Hca, ...] | Unread


def _read_present(facts: NodeFacts) -> _Present | Unread:
    links, hcas = facts.one(Links), facts.one(Hcas)
    if isinstance(links, Unread):
        return links
    return _Present(links=links, devices=hcas if isinstance(hcas, Unread) else hcas.ports)


def _judge_names(present: _Present, view: View) -> Seen:
    env = view.needs.environments.get(view.node.name, {})
    named = {name: value for name, value in env.items() if _is_list(name) and value.strip()}
    interfaces = {name: value for name, value in named.items() if name.endswith(_INTERFACES)}
    faults = [
        fault
        for name, value in interfaces.items()
        for fault in _interface_faults(name, value, present, view.node)
    ]
    told = ", ".join(f"{name}={value}" for name, value in named.items()) or "no interface is named"
    if not isinstance(present.devices, Unread):
        for name in (_DEVICES, _EITHER):
            faults += _device_faults(name, env.get(name), present, present.devices, view.node)
    elif not faults and not present.devices.is_left_out:
        hint = "run ibv_devinfo on the node"
        return Seen(verdict="unknown", measured=f"{told}: {describe(present.devices)}", hint=hint)
    return _seen(faults, told)


def _is_list(name: str) -> bool:
    return name in {_DEVICES, _EITHER} or (name.startswith(_OWNERS) and name.endswith(_INTERFACES))


def _interface_faults(name: str, value: str, present: _Present, node: Node) -> Iterator[_Fault]:
    names = Names.of(value, is_exact=not name.startswith("NCCL_"))
    there = [link.interface for link in present.links.interfaces]
    rails = [rail.interface for rail in node.rails]
    hint = f'name each node\'s own: env.{name}: "{{fabric_interface}}" ({", ".join(rails)} on {node.name})'
    for part in names.missing(there):
        yield "fail", f"{name}: no interface {part} on this node", hint
    chosen = [link for link in present.links.interfaces if link.interface in names.among(there)]
    for link in chosen:
        if not link.has_ipv4 and not names.leaves_out:
            yield "fail", f"{name}: {link.interface} has no IPv4 address", hint
    if chosen and not any(link.interface in rails for link in chosen):
        shown = ", ".join(link.interface for link in chosen[:3])
        yield "warn", f"{name}={value} takes {shown}, no rail of this node", hint


def _device_faults(
    name: str, value: str | None, present: _Present, devices: tuple[Hca, ...], node: Node
) -> Iterator[_Fault]:
    """Name devices that are not there, or that are no rail's: NCCL would pair a port that leads elsewhere."""
    own = ", ".join(rail.hca for rail in node.rails)
    hint = f'name each node\'s own: env.{name}: "{{hcas}}" or "{{hca}}" ({own} on {node.name})'
    is_ucx = name == _EITHER
    text = (value or "").strip()
    if is_ucx and text in {"", "all"}:
        return
    names = Names.of(text or "^", is_exact=is_ucx)
    there = [one.hca for one in devices]
    there += [link.interface for link in present.links.interfaces] if is_ucx else []
    for part in names.missing(there):
        yield "fail", f"{name}: no device {part} on this node", hint
    chosen = names.among(there)
    if there and not chosen and not names.missing(there):
        yield "fail", f"{name}={text} leaves no device", hint
    rails = {one for rail in node.rails for one in (rail.hca, rail.interface)}
    down = {one.hca for one in devices if one.state != "PORT_ACTIVE"}
    if strange := [one for one in chosen if one not in rails | down]:
        asked = f"{name}={text}" if text else f"{name} is not set, so NCCL"
        yield "warn", f"{asked} takes {', '.join(strange)}, no rail of this node", hint


GATES = (
    NodeGate(
        name="nccl-environment",
        section="fabric",
        about="nothing in a rank's environment is empty, means TCP, or names another address than the fabric's",
        demand=lambda _: Demand(
            wanted="NCCL_NET=IB, NCCL_IB_DISABLE=0, VLLM_HOST_IP of the fabric, no empty NCCL_, GLOO_, TP_ or UCX_ variable",
            origin="NCCL falls back to TCP unseen (Project-HAMi/HAMi-core#261, reported); vLLM takes the default route's address "
            "(eugr/spark-vllm-docker#227, reported)",
        ),
        remedy="mend the variable in the recipe's env, or with --set env.NAME=VALUE",
        troubles=(
            "mark-ramsey-ri/vllm-dgx-spark#1",
            "Project-HAMi/HAMi-core#261",
            "eugr/spark-vllm-docker#227",
            "spark-arena/sparkrun PR#219",
            "MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#16",
        ),
        reads=lambda facts: facts,
        judge=_judge_values,
    ),
    NodeGate(
        name="nccl-names",
        section="fabric",
        about="the interfaces and devices that a rank's environment names exist on that very node and are its rails",
        demand=lambda _: Demand(
            wanted="interfaces and devices of this node's rails",
            origin="a name that is right on one node only ends in `Unable to find address` "
            "(MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#4, reported)",
        ),
        remedy="name each node's own through {fabric_interface}, {hca} and {hcas} in the recipe's env",
        troubles=(
            "MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#4",
            "vllm-project/vllm PR#40991",
            "eugr/spark-vllm-docker#40",
        ),
        reads=_read_present,
        judge=_judge_names,
    ),
)
