"""The command line on hosts, as on a line of one's own."""

from pathlib import Path

from rehearsal.hosts import Rack

from .conftest import check


def test_four_healthy_hosts_may_boot(rack: Rack, tmp_path: Path) -> None:
    """With every reading probe and every gate nothing is wrong, and nobody calls it a practice line."""
    ran = check(rack.inventory(), tmp_path, limit_s=60)
    assert [one for one in ran.findings if one["verdict"] in {"fail", "unknown"}] == []
    assert (ran.code, ran.document["ok"], ran.document["simulated"]) == (0, True, False)
    assert {one["node"] for one in ran.findings} == {host.name for host in rack.hosts}
