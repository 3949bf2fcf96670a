"""playbooks/library/spark_link.py and spark_sysctl.py: what runs is changed, once, and the answer is honest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import spark_link
import spark_sysctl

if TYPE_CHECKING:
    from conftest import Node


def _rail(node: Node, mtu: int) -> None:
    """Give the node an interface enp1 whose MTU a permitted sudo can change."""
    state = node.home / "mtu"
    state.write_text(str(mtu))
    node.tool(
        "ip",
        f'[ "$1 $2" = "link set" ] && {{ echo "$6" >{state}; exit 0; }}\n'
        f'echo "[{{\\"ifname\\": \\"enp1\\", \\"mtu\\": $(cat {state})}}]"',
    )
    node.tool("sudo", 'shift; exec "$@"')


def test_a_small_mtu_is_raised_and_a_large_one_left(node: Node) -> None:
    """The first call changes it, the second has nothing to do, and a larger MTU stays."""
    _rail(node, 1500)
    first = spark_link.settle("enp1", 9000, 5, check_mode=False)
    second = spark_link.settle("enp1", 9000, 5, check_mode=False)
    assert (first["changed"], first["before"], first["after"]) == (True, 1500, 9000)
    assert (second["changed"], second["before"]) == (False, 9000)
    assert spark_link.settle("enp1", 4200, 5, check_mode=False)["after"] == 9000


def test_check_mode_changes_no_link(node: Node) -> None:
    """Check mode says what it would do and leaves the interface."""
    _rail(node, 1500)
    assert spark_link.settle("enp1", 9000, 5, check_mode=True)["changed"] is True
    assert spark_link.read_mtu("enp1", 5) == 1500


def test_a_link_that_is_not_there_or_may_not_be_changed_is_named(node: Node) -> None:
    """Both faults say what was wanted and what the tool said."""
    _rail(node, 1500)
    with pytest.raises(spark_link.LinkFault, match=r"no interface enp9"):
        spark_link.settle("enp9", 9000, 5, check_mode=False)
    node.tool("sudo", "echo 'sudo: a password is required' >&2; exit 1")
    with pytest.raises(spark_link.LinkFault, match=r"MTU 1500, wanted 9000.*a password is required"):
        spark_link.settle("enp1", 9000, 5, check_mode=False)


def _kernel(node: Node, value: str) -> None:
    """Give the node one kernel setting."""
    state = node.home / "setting"
    state.write_text(value)
    node.tool(
        "sysctl",
        f'[ "$1" = -w ] && {{ echo "${{2#*=}}" >{state}; exit 0; }}\n'
        f'[ "$2" = vm.min_free_kbytes ] || {{ echo "sysctl: cannot stat /proc/sys/$2" >&2; exit 255; }}\n'
        f"cat {state}",
    )
    node.tool("sudo", 'shift; exec "$@"')


def test_a_setting_is_given_its_value_once(node: Node) -> None:
    """What differs is changed, what is right is left, and check mode changes nothing."""
    _kernel(node, "67584")
    assert spark_sysctl.settle("vm.min_free_kbytes", "1048576", 5, check_mode=True)["changed"] is True
    first = spark_sysctl.settle("vm.min_free_kbytes", "1048576", 5, check_mode=False)
    second = spark_sysctl.settle("vm.min_free_kbytes", "1048576", 5, check_mode=False)
    assert (first["changed"], first["before"], first["after"]) == (True, "67584", "1048576")
    assert second["changed"] is False


def test_a_setting_that_cannot_be_had_is_named(node: Node) -> None:
    """An unknown setting, and a refused sudo."""
    _kernel(node, "67584")
    with pytest.raises(spark_sysctl.SettingFault, match=r"vm\.nope cannot be read"):
        spark_sysctl.settle("vm.nope", "1", 5, check_mode=False)
    node.tool("sudo", "echo 'sudo: a password is required' >&2; exit 1")
    with pytest.raises(spark_sysctl.SettingFault, match=r"is 67584, wanted 1048576.*password"):
        spark_sysctl.settle("vm.min_free_kbytes", "1048576", 5, check_mode=False)
