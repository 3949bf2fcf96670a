"""The quality battery on real vLLM: a reference, its floor after a restart, and counters that agree with the client."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .conftest import RealLine

pytestmark = pytest.mark.engine

PARTS = ("tools", "counting", "json", "code", "repeat", "garble")
BATTERY = str(Path(__file__).parent / "quality.yml")


@pytest.mark.parametrize("restarts", [1, pytest.param(2, marks=pytest.mark.full)])
def test_the_floor_after_restarts_and_a_run_that_stays_under_it(
    two: "RealLine", capsys: pytest.CaptureFixture[str], restarts: int
) -> None:
    """Every answer is what was taught, the texts are scored alone and among other requests, and a restart changes little."""
    runs = [_asked(two, role) for role in ("--keep", *["--floor"] * restarts)]
    assert [one["verdict"] for one in runs] == ["kept"] * (1 + restarts)
    for one in runs:
        counted = one["counters"]
        assert counted["server_prompt"] == pytest.approx(counted["prompt"], rel=0.005)
        assert counted["server_made"] == pytest.approx(counted["made"], rel=0.005)
        assert not one["warnings"]
        assert [part["part"] for part in one["parts"]] == list(PARTS)
        assert not [part["wrong"] for part in one["parts"] if part["wrong"]]
    floor = runs[-1]["floor"]
    assert floor["restart"]["kl_nats"]["high"] < 0.001, "float32 on a CPU repeats itself over restarts"
    again = two("quality", "--battery", BATTERY, "--json", "--only", "probe").document
    assert (again["verdict"], again["floor_boots"]) == ("passes", 1 + restarts)
    sea = {one["text"]: one for one in again["texts"]}["sea"]
    assert sea["perplexity"] < 10 < {one["text"]: one for one in again["texts"]}["brot"]["perplexity"]
    with capsys.disabled():
        print(f"\nfloor of real vLLM 0.32.0 on the CPU over {restarts} restarts (2 ranks):")  # noqa: T201
        for name, measures in floor.items():
            told = ", ".join(
                f"{key} {one['mean']:.6f} ({one['low']:.6f} to {one['high']:.6f})"
                for key, one in measures.items()
            )
            print(f"  {name}: {told}")  # noqa: T201


def _asked(line: "RealLine", role: str) -> dict[str, Any]:
    """Boot anew and run the battery."""
    booted = line("boot", "--json")
    assert booted.code == 0, booted.out + booted.err
    ended = line("quality", "--battery", BATTERY, role, "--json")
    assert ended.code == 0, ended.out + ended.err
    document: dict[str, Any] = ended.document
    return document
