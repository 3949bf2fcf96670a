"""A rack of hosts: raises them, hands out their inventory, changes their cables, and leaves nothing behind."""

import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from rehearsal.hosts import furniture, login, machine, network
from rehearsal.hosts.namespace import Namespace, start
from rehearsal.hosts.network import Cable
from rehearsal.layout import python
from rehearsal.node import Peer, Rail
from sparkctl.errors import Unclear

_INTERFACES = (("enp1s0f0np0", "rocep1s0f0"), ("enP2p1s0f0np0", "roceP2p1s0f0"))
_BLOCKS = 250
_TRIES = 8  # another rack may take a block between our look and our try
_MOST = 200  # host numbers that a /24 holds beside the controller


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host: how it is reached, its rails, its folder and its namespace."""

    rank: int
    peer: Peer
    folder: Path
    namespace: Namespace

    @property
    def name(self) -> str:
        """The host's name, which the inventory uses too."""
        return self.peer.name

    @property
    def key(self) -> str:
        """The public key that its sshd shows."""
        return login.host_key(self.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack:
    """Running hosts; `controller` is this machine's own interface to them.

    `cables` is what is plugged in now; a rail that it does not name is healthy.
    """

    home: Path
    key: Path
    hosts: tuple[Host, ...]
    switch: Namespace
    controller: str
    cables: dict[tuple[str, int], Cable] = field(default_factory=dict)

    def host(self, name: str) -> Host:
        """Return the host of that name."""
        return next(host for host in self.hosts if host.name == name)

    def plug(self, name: str, rail: int, cable: Cable) -> None:
        """Bring one rail of a host to what the cable says; 0 is rail 1."""
        host, before = self.host(name), self.cables.get((name, rail), Cable())
        own, far = host.peer.rails[rail], network.port(host.rank, rail)
        host.namespace.batch("tc", network.cap_lines(before, cable, own.interface))
        self.switch.batch("tc", network.cap_lines(before, cable, far))
        host.namespace.batch("ip", network.host_lines(cable, own.interface, own.address))
        self.switch.batch("ip", network.switch_lines(cable, host.rank, rail))
        furniture.wire(host.folder, rail, mtu=cable.mtu, is_up=cable.is_plugged)
        self.cables[name, rail] = cable

    @contextmanager
    def plugged(self, cables: Mapping[tuple[str, int], Cable]) -> Iterator[None]:
        """Plug other cables for the block, and the former ones after it; keys are (host, rail)."""
        before = {place: self.cables.get(place, Cable()) for place in cables}
        try:
            for (name, rail), cable in cables.items():
                self.plug(name, rail, cable)
            yield
        finally:
            for (name, rail), cable in before.items():
                self.plug(name, rail, cable)

    @contextmanager
    def refusing(self, name: str) -> Iterator[None]:
        """Let a host run without sshd for the block."""
        host = self.host(name)
        login.refuse(host.namespace, host.folder)
        try:
            yield
        finally:
            login.listen(host.namespace, host.folder)

    def inventory(
        self,
        name: str = "inventory",
        *,
        changes: Mapping[str, Mapping[str, object]] | None = None,
        keys: Mapping[str, str] | None = None,
        recipe: str = "v41-flash-exl3-tp4",
    ) -> Path:
        """Write an inventory of all hosts with a known_hosts of its own and return its path.

        `changes` replaces keys of hosts by name; `keys` adds or replaces host keys by place. Another name is another
        known_hosts file, so Ansible opens new connections for it.
        """
        known = self.home / f"{name}.known_hosts"
        every = {host.peer.management: host.key for host in self.hosts} | dict(keys or {})
        known.write_text(login.known_hosts(every), encoding="utf-8")
        everything = {
            "schema": 1,
            "ansible_user": login.USER,
            "ansible_python_interpreter": python(),
            "ansible_ssh_private_key_file": str(self.key),
            "known_hosts": str(known),
        }
        hosts = {host.name: _entry(host) | dict((changes or {}).get(host.name, {})) for host in self.hosts}
        line = {"vars": {"recipe": recipe}, "hosts": hosts}
        tree = {"all": {"vars": everything, "children": {"line_a": line}}}
        path = self.home / f"{name}.yml"
        path.write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
        return path


def _entry(host: Host) -> dict[str, object]:
    return {
        "rank": host.rank,
        "ansible_host": host.peer.management,
        "fabric": [
            {"interface": rail.interface, "address": rail.address, "hca": rail.hca}
            for rail in host.peer.rails
        ],
    }


@contextmanager
def raised(home: Path, count: int, engine: str = "") -> Iterator[Rack]:
    """Raise `count` hosts whose files lie in `home`, for the block; nothing of them is left after it.

    Their ranks run the practice engine, or the commands in the folder `engine`.

    Raises:
        Unclear: the machine refused something; `obstacle` says whether it can at all.

    """
    home = home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    if not 1 <= count <= _MOST:
        raise Unclear(f"{count} hosts; wanted 1 to {_MOST}", hint="a rack has one /24 network")
    with ExitStack() as left:
        switch = _start(left, "switch")
        switch.batch("ip", network.bridges())
        block = _connect(left, switch)
        peers = tuple(_peer(block, rank) for rank in range(count))
        key = login.user_key(home)
        furniture.furnish(home, peers, engine)
        hosts = tuple(_host(left, home, rank, peer, key) for rank, peer in enumerate(peers))
        wires = [
            line
            for host in hosts
            for line in network.ports(host.rank, host.namespace.pid, _interface_names(host.peer))
        ]
        switch.batch("ip", wires)
        for host in hosts:
            rails = tuple((rail.interface, rail.address) for rail in host.peer.rails)
            host.namespace.batch("ip", network.addresses(host.peer.management, rails))
            login.listen(host.namespace, host.folder)
        yield Rack(home=home, key=key, hosts=hosts, switch=switch, controller=network.controller_name(block))


def _start(left: ExitStack, name: str, folder: Path | None = None) -> Namespace:
    namespace = start(name, folder)
    left.callback(namespace.end)
    return namespace


def _connect(left: ExitStack, switch: Namespace) -> int:
    """Lead a wire to the switch in a block of addresses that no other rack of this machine has."""
    held = machine.command(("ip", "-4", "-o", "addr"))
    free = [block for block in range(_BLOCKS) if f" {network.management(block, 0)[:-1]}" not in held]
    for block in random.sample(free, min(len(free), _TRIES)):
        first, *rest = network.controller(block, switch.pid)
        try:
            machine.command(("ip", "-batch", "-"), said=f"{first}\n")
        except Unclear as fault:
            if "File exists" not in fault.message:
                raise
            continue
        left.callback(_disconnect, block)
        machine.command(("ip", "-batch", "-"), said="\n".join(rest) + "\n")
        switch.batch("ip", ("link set controller master management up",))
        return block
    raise Unclear("no block of addresses is free", hint="look at `ip addr` for spark77-* and 10.77.*")


def _disconnect(block: int) -> None:
    try:
        machine.command(("ip", "link", "del", network.controller_name(block)))
    except Unclear as fault:
        if "Cannot find device" not in fault.message:  # it goes with the switch, should that have died
            raise


def _peer(block: int, rank: int) -> Peer:
    rails = tuple(
        Rail(interface, f"{net}.{rank + 1}", hca, network.JUMBO)
        for (interface, hca), net in zip(_INTERFACES, network.RAIL_NETS, strict=True)
    )
    return Peer(f"spark-a{rank}", network.management(block, rank + 1), rails)


def _interface_names(peer: Peer) -> tuple[str, ...]:
    return tuple(rail.interface for rail in peer.rails)


def _host(left: ExitStack, home: Path, rank: int, peer: Peer, key: Path) -> Host:
    folder = home / peer.name
    login.furnish(folder, key)
    return Host(rank=rank, peer=peer, folder=folder, namespace=_start(left, peer.name, folder))
