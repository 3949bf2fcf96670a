"""What --apply changes, when, and what is told of it."""

import dataclasses

from launcher import applying
from sparkctl.line import Line

SYSCTLS = {"vm.min_free_kbytes": "1048576", "net.core.rmem_max": "8388608"}


def test_what_takes_memory_waits_until_the_line_is_ready(line: Line) -> None:
    """A reserve raised before the start makes vLLM's own check fail; links and the rest come before the second look."""
    changed = dataclasses.replace(line, sysctls=SYSCTLS)
    before = applying.before(changed, 4200)
    after = applying.after(changed)
    assert before["apply_settings"] == {"net.core.rmem_max": "8388608"}
    assert before["apply_links"] == {node.name: ["enp1s0f0np0", "enP2p1s0f0np0"] for node in changed.nodes}
    assert after is not None
    assert after["apply_settings"] == {"vm.min_free_kbytes": "1048576"}


def test_without_settings_only_links_change(line: Line) -> None:
    """A line that names no sysctls has no host on which one is set."""
    assert applying.before(line, 4200)["apply_settings_on"] == []
    assert applying.after(line) is None


def test_every_change_is_told_and_nothing_else() -> None:
    """One line a change: host, what, before and after; what stayed is not told."""
    items = [
        {"changed": True, "interface": "enp1", "before": 1500, "after": 9000},
        {"changed": False, "interface": "enp2", "before": 9000, "after": 9000},
        {"changed": True, "name": "vm.x", "before": "1", "after": "2"},
    ]
    assert list(applying.told([("spark-a1", {"results": items}), ("spark-a2", {"msg": "no loop"})])) == [
        "spark-a1: MTU of enp1 1500 -> 9000, until its next reboot",
        "spark-a1: vm.x 1 -> 2, until its next reboot",
    ]
