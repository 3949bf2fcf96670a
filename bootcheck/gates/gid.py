"""Gate on GIDs: the index that NCCL gets is RoCE v2 for the rail's address, on this node and on every device it may take."""

from collections.abc import Iterator

from bootcheck.facts import NodeFacts, Unread
from bootcheck.gates.gate import Demand, NodeGate, Seen, View
from bootcheck.gates.names import Names
from bootcheck.probes.rdma import GidTable
from sparkctl.line import Rail

_DEVICES, _INDEX = "NCCL_IB_HCA", "NCCL_IB_GID_INDEX"


def gid_tables(facts: NodeFacts) -> dict[str, GidTable] | Unread:
    """The GID tables of a node by device, or why there is none."""
    told = facts.all(GidTable) or (facts.one(GidTable),)
    read = {one.hca: one for one in told if not isinstance(one, Unread)}
    return read or next(one for one in told if isinstance(one, Unread))


def _judge_gids(tables: dict[str, GidTable], view: View) -> Seen:
    asked = view.needs.environments.get(view.node.name, {}).get(_INDEX)
    rails = list(_used(view))
    right = {rail.hca: tables[rail.hca].serving(rail.address) for rail in rails if rail.hca in tables}
    lacking = [
        f"no RoCE v2 GID of {rail.address} on {rail.hca}" for rail in rails if right.get(rail.hca) == ()
    ]
    unread = [rail.hca for rail in rails if rail.hca not in right]
    found = ", ".join(f"{hca} {_indices(indices)}" for hca, indices in right.items() if indices)
    if asked is not None and not _is_number(asked):
        what = "is empty" if not asked.strip() else f"is {asked!r}, not a number"
        return Seen(verdict="fail", measured=f"{_INDEX} {what}; right: {found or '?'}", hint=_gid_hint(view))
    if lacking:
        hint = (
            "give the interface its address, then take the link down and up: the kernel makes the GID of it"
        )
        return Seen(verdict="fail", measured="; ".join(lacking), hint=hint)
    if asked is not None and int(asked) >= 0 and any(int(asked) not in one for one in right.values()):
        return Seen(verdict="fail", measured=f"{_INDEX}={asked}; right: {found}", hint=_gid_hint(view))
    if unread:
        hint = "run the command of probe gids on the node"
        return Seen(verdict="unknown", measured=f"no GIDs read of {', '.join(unread)}", hint=hint)
    said = "unset" if asked is None else asked
    chosen = "" if asked is not None and int(asked) >= 0 else ", so NCCL chooses"
    return Seen(verdict="pass", measured=f"{_INDEX} {said}{chosen}; RoCE v2 for the rail's address: {found}")


def _used(view: View) -> Iterator[Rail]:
    """The rails whose device the node's NCCL_IB_HCA names; all of them where it is not set or names none of them."""
    named = view.needs.environments.get(view.node.name, {}).get(_DEVICES, "")
    chosen = Names.of(named).among(rail.hca for rail in view.node.rails) if named.strip() else ()
    return (rail for rail in view.node.rails if not chosen or rail.hca in chosen)


def _is_number(text: str) -> bool:
    return text.strip().removeprefix("-").isdecimal()


def _indices(indices: tuple[int, ...]) -> str:
    return " or ".join(map(str, indices))


def _gid_hint(view: View) -> str:
    """Name the right index of every device of every node: one value for the line is right only where they agree."""
    right: dict[str, list[str]] = {}
    common: set[int] | None = None
    for node, facts in view.scene.answering():
        tables = gid_tables(facts)
        if isinstance(tables, Unread):
            continue
        for rail in _used(View(node=node, facts=facts, scene=view.scene)):
            indices = tables[rail.hca].serving(rail.address) if rail.hca in tables else ()
            right.setdefault(node.name, []).append(f"{rail.hca} {_indices(indices) or '?'}")
            common = set(indices) if common is None else common & set(indices)
    told = "; ".join(f"{name}: {', '.join(said)}" for name, said in right.items())
    advice = (
        f"set env.{_INDEX} to {min(common)}" if common else f"set env.{_INDEX} to -1, so that NCCL chooses"
    )
    return f"{advice} (right now {told}); indices move between reboots"


GATES = (
    NodeGate(
        name="gid",
        section="fabric",
        about="NCCL_IB_GID_INDEX is the RoCE v2 GID of the rail's address on this very node",
        demand=lambda _: Demand(
            wanted="the index of RoCE v2 for the rail's IPv4 address, or -1 or none, so that NCCL chooses",
            origin="an empty index killed a worker after a minute (MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#16, reported); "
            "indices move between reboots and differ between nodes (tsw2k/Deepseek-4.1-Flash-Quad-DGX-Sparks, reported)",
        ),
        remedy="set env.NCCL_IB_GID_INDEX to the right index, or to -1 where the nodes differ",
        troubles=(
            "MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#16",
            "MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#72",
        ),
        reads=gid_tables,
        judge=_judge_gids,
    ),
)
