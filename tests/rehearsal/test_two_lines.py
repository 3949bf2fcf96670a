"""A cluster of two lines as it lies on disk: nodes, addresses, law and ports of each, and one inventory of both."""

from itertools import chain
from pathlib import Path

import yaml

from rehearsal import layout, node
from rehearsal.engine import law
from rehearsal.scenario import named
from sparkctl import inventory


def test_each_line_has_its_own_nodes_law_and_ports(tmp_path: Path) -> None:
    """Line B is as fast, as noisy and drawn from such a seed as its scenario says; line A is what it is without a second."""
    told = named("two-lines")
    layout.furnish(tmp_path, told, "no-token")
    roots = layout.roots(tmp_path)
    assert [root.name for root in roots] == [f"spark-{line}{rank}" for line in "ab" for rank in range(4)]
    first, second = (law.read(layout.folder(tmp_path, line)) for line in told.lines)
    assert told.second
    assert (first.speed.c1, second.speed) == (1.0, told.second.speed)
    assert (first.noise, second.noise) == (told.noise, told.second.noise)
    assert first.seed != second.seed
    law.next_boot(layout.folder(tmp_path, "B"))
    assert law.next_boot(tmp_path) == 1, "a line's boots are counted by themselves"


def test_no_address_of_a_line_is_the_others(tmp_path: Path) -> None:
    """Neither management nor fabric; a node's peers are those of its own line."""
    layout.furnish(tmp_path, named("two-lines"), "no-token")
    nodes = [node.read(root) for root in layout.roots(tmp_path)]
    for one in nodes:
        assert {peer.name[:7] for peer in one.peers} == {one.name[:7]}
        assert one.self.name == one.name
    held = [
        {one.self.management, *(rail.address.rpartition(".")[0] for rail in one.self.rails)} for one in nodes
    ]
    first, second = set(chain(*held[:4])), set(chain(*held[4:]))
    assert not first & second


def test_one_inventory_names_both_lines(tmp_path: Path) -> None:
    """The product reads two lines of four nodes from it; a cluster of one line names one."""
    for name, lines in (("two-lines", ["A", "B"]), ("healthy", ["A"])):
        home = tmp_path / name
        home.mkdir()
        layout.furnish(home, named(name), "no-token")
        node.write_json(home / "cluster.json", {"recipe": "v41-flash-exl3-tp4"})
        nodes = [node.read(root) for root in layout.roots(home)]
        text = layout.inventory(home, nodes, tuple(range(2200, 2200 + len(nodes))))
        groups = yaml.safe_load(text)["all"]["children"]
        assert [host["rank"] for group in groups.values() for host in group["hosts"].values()] == [
            *range(4)
        ] * len(lines)
        path = home / "inventory.yml"
        path.write_text(text, encoding="utf-8")
        read = inventory.read(path)
        assert [line.name for line in read.lines] == lines
        assert len({line.identity for line in read.lines}) == len(lines)


def test_what_two_lines_left_is_cleared_for_one(tmp_path: Path) -> None:
    """Raising a cluster of one line in the same home leaves no node of line B."""
    layout.furnish(tmp_path, named("two-lines"), "no-token")
    layout.clear(tmp_path)
    assert list(tmp_path.iterdir()) == []
