"""Scenarios: every file loads, and levers act where their condition is met."""

from pathlib import Path

import pytest

from rehearsal import layout
from rehearsal.engine import law
from rehearsal.scenario import levers, named, scenarios
from sparkctl import edge
from sparkctl.errors import UsageFault


def test_every_scenario_loads_and_is_named_as_its_file() -> None:
    """Each file fits its schema, says what it does, and names only nodes that exist."""
    found = scenarios()
    assert {"healthy", "slow-node"} <= {one.name for one in found}
    for one in found:
        assert named(one.name) == one
        assert one.about
        assert set(one.nodes) <= {name for line in one.lines for name in layout.names(line)}


def test_the_slow_node_is_slow_and_the_others_are_not() -> None:
    """Only spark-a2 differs from a healthy node."""
    told = named("slow-node")
    assert {name: traits.gemv_gb_s for name, traits in told.nodes.items()} == {"spark-a2": 70.0}


def test_an_unknown_scenario_lists_those_that_exist() -> None:
    """The fault names every scenario, so that the next try is right."""
    with pytest.raises(UsageFault, match=r"'stormy' is not one of .*healthy.*slow-node"):
        named("stormy")


@pytest.mark.parametrize(
    ("arguments", "environment", "effect"),
    [
        pytest.param({}, {}, (), id="base"),
        pytest.param({}, {"NCCL_MAX_NCHANNELS": "8"}, ((1.058, 1.107, ""),), id="channels"),
        pytest.param({}, {"NCCL_MAX_NCHANNELS": "4"}, (), id="other-value"),
        pytest.param({"async-scheduling": True}, {}, ((1.09, 1.0, ""),), id="bare-flag"),
        pytest.param({"async-scheduling": False}, {}, (), id="flag-off"),
        pytest.param({}, {"NCCL_NTHREADS": "256"}, ((1.0, 1.0, ""),), id="null-lever"),
        pytest.param(
            {},
            {"VLLM_DISABLED_KERNELS": "A,FlashInferCutlassMxfp8LinearKernel,B"},
            ((1.0, 1.0, "garble"),),
            id="one-of-a-list",
        ),
    ],
)
def test_levers_act_when_their_settings_are_seen(
    tmp_path: Path,
    arguments: dict[str, law.Plain],
    environment: dict[str, str],
    effect: tuple[tuple[float, float, str], ...],
) -> None:
    """A rank finds the levers that its own command line and environment pull."""
    told = named("healthy")
    written = edge.to_json({**edge.plain(told), "levers": edge.plain(levers(told))})
    (tmp_path / "law.json").write_text(written, encoding="utf-8")
    read = law.read(tmp_path)
    found = [read.levers[index] for index in law.pulled(read.levers, arguments, environment)]
    assert tuple((lever.effect.c1, lever.effect.c6, lever.breaks) for lever in found) == effect
