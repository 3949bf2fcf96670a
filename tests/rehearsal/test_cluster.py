"""A practice cluster's life: side by side with another, found again, lowered without a trace."""

import json
import os
import signal
import statistics
from pathlib import Path

import pytest

from rehearsal import cluster, model, processes
from sparkctl.errors import UsageFault

from .conftest import Line, lateness, raised, settles, token

pytestmark = pytest.mark.cluster


def test_a_second_raise_in_one_home_is_refused(line: Line) -> None:
    """The fault says what runs there; find sees the same cluster."""
    with pytest.raises(UsageFault, match="already runs"):
        cluster.raise_cluster(line.cluster.home, "healthy")
    assert cluster.find(line.cluster.home) == line.cluster


def test_a_slow_node_shows_and_holds_its_line_back_beside_another_cluster(line: Line, tmp_path: Path) -> None:
    """Two clusters run side by side; the probe's 70 GB/s and the served 94/63 come from one variable."""
    with raised(tmp_path / "slow", "slow-node") as slow:
        mark = token(slow)
        assert slow.url != line.url
        probe = (
            "docker run --rm --label sparkctl.probe=gemv --gpus all --entrypoint python3 sparkctl/vllm:1 -c x"
        )
        said = [json.loads(slow.ssh(name, probe).out)["gb_s"] for name in ("spark-a1", "spark-a2")]
        assert statistics.median(said[0]) == pytest.approx(230, rel=0.03)
        assert statistics.median(said[1]) == pytest.approx(70, rel=0.03)
        line.up()
        slow.up()
        for one, gemv_gb_s in ((line, model.GEMV_FAST_GB_S), (slow, model.GEMV_SLOW_GB_S)):
            earliest, best = lateness(one, gemv_gb_s)
            assert earliest > -0.005
            assert abs(best) < 0.02
        line.down()
    assert processes.marked(mark) == ()
    assert cluster.find(slow.cluster.home) is None
    assert line.ssh("spark-a0", "hostname").out == "spark-a0\n", "the other cluster goes on"


def test_a_killed_daemon_leaves_nothing_that_lowering_does_not_find(tmp_path: Path) -> None:
    """Ranks that outlive their daemon are ended by pid and start time; lowering twice is no fault."""
    with raised(tmp_path / "left", "healthy") as left:
        left.ssh("spark-a3", left.rank_command(3))
        mark = token(left)
        os.kill(left.cluster.pid, signal.SIGKILL)
        assert settles(lambda: cluster.find(left.cluster.home) is None)
        assert settles(lambda: len(processes.marked(mark)) == 1)
        cluster.lower(left.cluster.home)
        assert processes.marked(mark) == ()


def test_an_idle_daemon_ends_by_itself(tmp_path: Path) -> None:
    """With no connection and no rank for the time given, the daemon goes."""
    idle = cluster.raise_cluster(tmp_path / "idle", "healthy", idle_s=0.5)
    assert settles(lambda: cluster.find(idle.home) is None, limit_s=6)
