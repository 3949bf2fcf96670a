"""Netplan: what a node's configuration should say, as text for a hint. Nothing here or anywhere else writes it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What one interface should get; an address as `10.10.1.1/24`, empty or None where that is well as it is."""

    address: str = ""
    mtu: int | None = None


def drop_in(wishes: Mapping[str, Wish]) -> str:
    """Return the lines of a netplan drop-in as one line of YAML, by interface."""
    inner = ", ".join(f"{name}: {{{_settings(wish)}}}" for name, wish in wishes.items())
    return f"network: {{version: 2, ethernets: {{{inner}}}}}"


def _settings(wish: Wish) -> str:
    parts = []
    if wish.address:
        parts.append(f"addresses: [{wish.address}]")
    if wish.mtu is not None:
        parts.append(f"mtu: {wish.mtu}")
    return ", ".join(parts)


def advice(node: str, wishes: Mapping[str, Wish]) -> str:
    """Say what to put where."""
    return f"on {node}, in a file of its own under /etc/netplan: {drop_in(wishes)}; then netplan apply"
