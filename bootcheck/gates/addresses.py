"""Gates on fabric addresses: a network of their own for each rail, and configured so that a reboot keeps them."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from bootcheck.gates.ends import End, ends, of_node
from bootcheck.gates.gate import Demand, NodeGate, Seen, View, reading
from bootcheck.gates.netplan import Wish, advice
from bootcheck.probes.fabric import Link, Links
from bootcheck.probes.ports import Profile, Profiles

# NetworkManager's volatile profiles; netplan writes its own there too, anew at every boot.
_VOLATILE, _NETPLAN = "/run/", "netplan-"


def _judge_addresses(links: Links, view: View) -> Seen:
    own = of_node(ends(view.scene), view.node.name)
    strange = [*_one_network(own), *_link_local(own), *_management(own, links, view.node.host)]
    return Seen(
        verdict="warn" if strange else "pass",
        measured="; ".join(said for said, _ in strange)
        or ", ".join(f"{end.rail.address} in {end.network or 'no network'}" for end in own),
        hint="; ".join(dict.fromkeys(hint for _, hint in strange)),
    )


def _one_network(own: tuple[End, ...]) -> Iterator[tuple[str, str]]:
    for place, end in enumerate(own):
        for other in own[place + 1 :]:
            if end.network and end.network == other.network:
                first = IPv4Interface(f"{end.rail.address}/24").network
                second = IPv4Network((int(first.network_address) + 256, 24))
                yield (
                    f"{end.rail.interface} and {other.rail.interface} are both in {end.network}",
                    f"either may answer ARP for the other: give each rail a /24 of its own, {first} and {second} for example",
                )


def _link_local(own: tuple[End, ...]) -> Iterator[tuple[str, str]]:
    for end in own:
        if IPv4Address(end.rail.address).is_link_local:
            yield (
                f"{end.rail.address} on {end.rail.interface} is link-local",
                "it may be another one after a reboot: give the rail a static address",
            )


def _management(own: tuple[End, ...], links: Links, host: str) -> Iterator[tuple[str, str]]:
    """Name each rail on the interface, or in the network, that holds the address which SSH uses."""
    link = links.holding(host)
    if link is None:  # a name, or an address behind a router
        return
    for end in own:
        if end.link == link or _shares(end, link, host):
            yield (
                f"{end.rail.address} lies in the management network of {host} on {link.interface}",
                "the fabric needs a network of its own: SSH and the ranks' traffic must not share one",
            )


def _shares(end: End, link: Link, host: str) -> bool:
    return end.network is not None and end.network == link.network(host)


def _judge_profiles(profiles: Profiles, view: View) -> Seen:
    used = [one for rail in view.node.rails for one in profiles.found if one.device == rail.interface]
    volatile = [one for one in used if one.path.startswith(_VOLATILE) and not one.name.startswith(_NETPLAN)]
    return Seen(
        verdict="warn" if volatile else "pass",
        measured=", ".join(f"{one.name} on {one.device} in {one.path}" for one in volatile or used)
        or "no profile of NetworkManager on a rail",
        hint=_profile_hint(volatile, view),
    )


def _profile_hint(volatile: list[Profile], view: View) -> str:
    own = {end.rail.interface: end for end in of_node(ends(view.scene), view.node.name)}
    wishes = {}
    for one in volatile:
        end = own[one.device]
        prefix = end.network.prefixlen if end.network else 24
        mtu = max(end.link.mtu if end.link else 0, round(view.floors.mtu_recommended.value))
        wishes[one.device] = Wish(address=f"{end.rail.address}/{prefix}", mtu=mtu)
    return f"it is gone after a reboot; {advice(view.node.name, wishes)}"


GATES = (
    NodeGate(
        name="addresses",
        section="fabric",
        about="each rail has a static address in a network of its own",
        demand=lambda _: Demand(
            wanted="a static address and a network of its own for each rail, none of them the management network",
            origin="two interfaces in one network answer ARP for each other (eugr/spark-vllm-docker#270, reported); "
            "link-local addresses change (mark-ramsey-ri/vllm-dgx-spark#7, reported)",
        ),
        remedy="give each rail a static address in a /24 of its own, in the node's netplan and in the inventory",
        troubles=(
            "eugr/spark-vllm-docker#270",
            "mark-ramsey-ri/vllm-dgx-spark#7",
            "spark-arena/sparkrun#67",
        ),
        reads=reading(Links),
        judge=_judge_addresses,
        worst="warn",
    ),
    NodeGate(
        name="network-profiles",
        section="fabric",
        about="what configures the rails outlives a reboot",
        demand=lambda _: Demand(
            wanted="netplan's own profile on each rail, or none of NetworkManager",
            origin="DGX OS keeps its network in netplan, and what nmcli wrote under /run was gone after a reboot "
            "(tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#38, reported)",
        ),
        remedy="put the rail's address and MTU into netplan",
        troubles=("tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#38",),
        reads=reading(Profiles),
        judge=_judge_profiles,
        is_optional=True,
        worst="warn",
    ),
)
