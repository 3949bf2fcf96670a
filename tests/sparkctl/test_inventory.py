"""Inventories: the example loads, and each wrong one says what is wrong and where."""

from pathlib import Path

import pytest

from sparkctl import inventory
from sparkctl.errors import FileFault, UsageFault

ROOT = Path(__file__).parents[2]
WRONG = sorted((Path(__file__).parent / "inventories").glob("*.yml"))


def test_the_example_loads() -> None:
    """The example inventory is a whole line of four nodes with two rails each."""
    line = inventory.read(ROOT / "inventory.example.yml").line(None)
    assert line.name == "A"
    assert [node.rank for node in line.nodes] == [0, 1, 2, 3]
    assert [node.name for node in line.workers_first] == ["spark-a3", "spark-a2", "spark-a1", "spark-a0"]
    assert {len(node.rails) for node in line.nodes} == {2}
    assert line.url == "http://192.0.2.10:8000"
    assert line.head.user == "spark"


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_a_wrong_inventory_says_where(path: Path) -> None:
    """Every fault of the file is in one message, with the path of the file and the place in it."""
    wanted = [line.removeprefix("#: ") for line in path.read_text().splitlines() if line.startswith("#: ")]
    with pytest.raises(FileFault) as caught:
        inventory.read(path)
    assert wanted
    for text in wanted:
        assert text in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.hint


def test_a_line_is_found_by_name_in_any_case() -> None:
    """`--line a` and `--line A` mean the same; an unknown line lists the known ones."""
    found = inventory.read(ROOT / "inventory.example.yml")
    assert found.line("a") == found.line("A")
    with pytest.raises(UsageFault, match=r"line 'B' is not in .* which has: A"):
        found.line("B")


def test_the_nearest_connection_variable_wins(tmp_path: Path) -> None:
    """As for Ansible: a host's own variable beats the group's, which beats all's."""
    path = tmp_path / "inventory.yml"
    path.write_text(
        """
all:
  vars: {schema: 1, ansible_user: everyone, ansible_port: 1}
  children:
    line_a:
      vars: {ansible_port: 2}
      hosts:
        n0: {rank: 0, ansible_host: h0, fabric: [{interface: e, address: 10.0.0.1, hca: r}]}
        n1: {rank: 1, ansible_host: h1, ansible_port: 3, fabric: [{interface: e, address: 10.0.0.2, hca: r}]}
"""
    )
    nodes = inventory.read(path).line("A").nodes
    assert [(node.user, node.port) for node in nodes] == [("everyone", 2), ("everyone", 3)]


def test_known_hosts_is_relative_to_the_inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A known_hosts or a key beside the inventory is found from any folder, by a child process elsewhere too."""
    text = (ROOT / "inventory.example.yml").read_text()
    text = text.replace("# known_hosts: known_hosts", "known_hosts: known_hosts").replace(
        "~/.ssh/id_ed25519", "key"
    )
    (tmp_path / "inventory.yml").write_text(text)
    monkeypatch.chdir(tmp_path)
    line = inventory.read(Path("inventory.yml")).line("A")
    assert line.known_hosts == str(tmp_path / "known_hosts")
    assert line.head.key_file == str(tmp_path / "key")
