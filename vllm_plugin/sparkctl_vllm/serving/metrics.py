"""Metrics: what rank 0 counted, at /metrics of the API's process, together with the settings that it serves under.

Workers are processes of their own and vLLM has no way for them to add to /metrics, so rank 0 writes into a small file that this reads at
each scrape. Every rank computes the depths of all ranks, so rank 0 knows what each of them reads, also those on other nodes.
"""

import atexit
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from sparkctl_vllm import plan_file
from sparkctl_vllm.plan_file import Meaning
from sparkctl_vllm.serving import settings
from sparkctl_vllm.serving.figures import Figures
from sparkctl_vllm.serving.settings import Settings

NAME = "sparkctl_budget"


class Collector:
    """Reads the file at each scrape; shows nothing before rank 0 has begun."""

    def __init__(self, path: Path, asked: Settings, meaning: Meaning) -> None:
        self.path, self.asked, self.meaning = path, asked, meaning

    def describe(self) -> list[Metric]:
        """Return no names: they are not looked for before there is something to show."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        figures = Figures.found(self.path)
        if figures is None:
            return
        yield self._settings(figures)
        yield from _bytes(figures)
        yield from _steps(figures)
        yield GaugeMetricFamily(
            f"{NAME}_price", "price of the last budget step, mean over layers", figures.single("price")
        )
        read, whole = figures.single("tiles_read"), figures.single("tiles_whole")
        yield CounterMetricFamily(f"{NAME}_tiles_read", "tiles read in budget steps, all ranks", read)
        yield CounterMetricFamily(
            f"{NAME}_tiles_cut", "tiles left out in budget steps, all ranks", whole - read
        )
        deepened = figures.single("rows_deepened")
        yield CounterMetricFamily(f"{NAME}_rows_deepened", "rows of requests above h, read deeper", deepened)
        nats = figures.single("nats")
        yield CounterMetricFamily(
            f"{NAME}_damage_nats", "damage predicted of rows of budget steps, refused drafts too", nats
        )

    def _settings(self, figures: Figures) -> Metric:
        meaning = self.meaning
        told = {
            "plan": str(self.asked.plan), "tables": meaning.tables, "policy": self.asked.policy, "eps": f"{meaning.eps:g}", "h": f"{meaning.h:g}",
            "ranks": str(figures.ranks), "rows": str(figures.rows), "layers": str(meaning.layers), "floor_tiles": str(meaning.floor_tiles),
        }  # fmt: skip
        return InfoMetricFamily(NAME, "what experts are read by", told)


def _bytes(figures: Figures) -> Iterator[Metric]:
    read = CounterMetricFamily(
        f"{NAME}_bytes_read", "bytes of routed experts read in budget steps", labels=["rank"]
    )
    whole = CounterMetricFamily(
        f"{NAME}_bytes_whole", "bytes that whole reads of the same experts would take", labels=["rank"]
    )
    for rank in range(figures.ranks):
        read.add_metric([str(rank)], float(figures.read[rank]))
        whole.add_metric([str(rank)], float(figures.whole[rank]))
    yield from (read, whole)


def _steps(figures: Figures) -> Iterator[Metric]:
    steps = CounterMetricFamily(f"{NAME}_steps", "steps read by budget, by their rows", labels=["rows"])
    for rows, count in enumerate(figures.steps):
        if count:
            steps.add_metric([str(rows)], float(count))
    yield steps
    whole = CounterMetricFamily(f"{NAME}_whole_steps", "steps read whole, by why", labels=["why"])
    for why in ("prefill", "rows"):
        whole.add_metric([why], figures.single(f"steps_whole_{why}"))
    yield whole


def install(asked: Settings) -> None:
    """Name the file for this process's children, and let /metrics show it."""
    assert asked.plan is not None  # noqa: S101 - nothing is installed without one
    path = asked.figures
    if path is None:
        handle, name = tempfile.mkstemp(prefix="sparkctl-budget-")
        os.close(handle)
        path = Path(name)
        atexit.register(path.unlink, missing_ok=True)
        os.environ[settings.FIGURES] = name
    REGISTRY.register(Collector(path, asked, plan_file.meaning_of(asked.plan)))
