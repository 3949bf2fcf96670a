"""Figures and metrics: what one process counts another shows."""

from pathlib import Path

import numpy as np
import pytest

from sparkctl_vllm.serving.figures import Figures


def test_another_view_of_the_file_sees_what_is_counted(tmp_path):
    """Nothing is shown before a rank has begun; then every number is."""
    path = tmp_path / "figures"
    assert Figures.found(path) is None
    path.touch()
    assert Figures.found(path) is None
    mine = Figures.made(path, 2, 8)
    its = Figures.found(path)
    mine.step(3, (5, 4), (9, 9), 1000)
    mine.step(3, (1, 1), (9, 9), 1000)
    mine.add("steps_whole_prefill", 1)
    mine.put("price", 7.5)
    assert (its.ranks, its.rows) == (2, 8)
    assert its.read.tolist() == [6000, 5000]
    assert its.whole.tolist() == [18000, 18000]
    assert its.steps.tolist() == [0, 0, 0, 2, 0, 0, 0, 0, 0]
    assert (its.single("tiles_read"), its.single("tiles_whole")) == (11, 36)
    assert (its.single("price"), its.single("steps_whole_prefill")) == (7.5, 1)


def test_metrics_are_what_was_counted(tmp_path):
    """As Prometheus reads them, with rank and rows as labels."""
    prometheus = pytest.importorskip(
        "prometheus_client", reason="no prometheus_client here: run by scripts/check --engine"
    )
    from sparkctl_vllm.plan_file import Meaning
    from sparkctl_vllm.serving import metrics
    from sparkctl_vllm.serving.settings import Settings

    meaning = Meaning(
        model="m", checkpoint={}, experts=1, layers=1, widths=(64, 64), tile=64, format="bf16", applied=False, eps=0.01, h=1.0, d_max=1.0,
        floor_tiles=1, min_tiles=1, corpus="", corpus_tokens=0, predicted={}, commit="", tables="ab",
    )  # fmt: skip
    registry = prometheus.CollectorRegistry()
    collector = metrics.Collector(tmp_path / "figures", Settings(plan=Path("/p")), meaning)
    registry.register(collector)
    assert prometheus.generate_latest(registry) == b""
    Figures.made(tmp_path / "figures", 2, 8).step(3, (5, 4), (9, 9), 1000)
    said = prometheus.generate_latest(registry).decode()
    found = dict(row.rsplit(" ", 1) for row in said.splitlines() if not row.startswith("#"))
    assert found['sparkctl_budget_bytes_read_total{rank="1"}'] == "4000.0"
    assert found['sparkctl_budget_bytes_whole_total{rank="0"}'] == "9000.0"
    assert found["sparkctl_budget_tiles_cut_total"] == "9.0"
    assert found['sparkctl_budget_steps_total{rows="3"}'] == "1.0"
    assert any(name.startswith("sparkctl_budget_info{") and 'h="1"' in name for name in found)
    assert np.isclose(float(found["sparkctl_budget_price"]), 0)
