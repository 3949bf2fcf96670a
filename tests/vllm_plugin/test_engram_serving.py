"""Engram rows inside vLLM's own modules: the bytes of its path in memory, for every rank, and nothing at all from files that do not fit."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from sparkctl_vllm.engram import folder, steps
from sparkctl_vllm.engram.tables import v41_flash
from sparkctl_vllm.refusal import Refusal

np = pytest.importorskip("numpy")

ROWS, RESIDENT, FORMAT = folder.ROWS, folder.RESIDENT, folder.FORMAT


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    """What the tiny program found, once for all tests: importing vLLM takes most of its time."""
    if find_spec("vllm") is None or not find_spec("vllm.models"):
        pytest.skip("no vLLM with vllm.models here: run by scripts/check --engine")
    pytest.importorskip("safetensors", reason="no safetensors here: run by scripts/check --engine")
    plugin = Path(folder.__file__).parents[2]
    done = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).with_name("engram_tiny.py")),
            str(tmp_path_factory.mktemp("tiny")),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{plugin}:{os.environ.get('PYTHONPATH', '')}"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_rows_are_those_of_vllms_path_in_memory(answer):
    """Both tables, one, two and four ranks, rows from disk and resident ones: ids, staged rows and what the gate gets, to the bit.

    No row is a parameter, and every place was written.
    """
    found = answer["compared"]
    wanted = {"ids": True, "rows": True, "keys": True, "spoken": True, "parameters": 0}
    assert {name: one for name, one in found.items() if one != wanted} == {}
    assert len(found) == 8


@pytest.mark.parametrize(
    ("spoiled", "says"),
    [
        ("hole", "rows-1: a hole"),
        ("rank", "$.rank: 1, allowed: 0"),
        ("checkpoint", "$.checkpoint"),
        ("hot row", "SHA-256 of its rows"),
        ("no rows", "no such file"),
        ("no hot rows", "hot-1-1000-fp8: no such file"),
        ("no steps", "steps-1.npy: no such file"),
        ("cut", "rows-1: size"),
        ("table", "allowed: (2946, 256)"),
    ],
)
def test_what_does_not_fit_ends_the_start(answer, spoiled, says):
    """A hole, another rank's or checkpoint's file, a changed row, a missing or cut file, another table in the checkpoint."""
    assert answer["refused"]["nothing"] == ""
    assert says in answer["refused"][spoiled]


def test_vllm_takes_its_own_model_with_our_module_in_it(answer):
    """Registered under its own name, twice without harm; the class is vLLM's, its Engram module ours."""
    assert answer["registered"] == [True, True]


def test_the_log_says_what_is_read_and_what_is_kept(answer):
    """Once for each table of a rank; the choice with both figures."""
    lines = answer["log"]
    assert any(one.startswith("Engram layer 14 reads rows 0 to ") for one in lines)
    kept = [one for one in lines if " keeps " in one]
    assert kept
    assert all("us resident" in one and "us all from disk" in one and "8 steps" in one for one in kept)


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({RESIDENT: "5"}, "SPARKCTL_ENGRAM_ROWS: not set, beside SPARKCTL_ENGRAM_RESIDENT"),
        ({ROWS: "/r", RESIDENT: "many"}, "a whole number"),
        ({ROWS: "/r", RESIDENT: "-1"}, "a whole number"),
        ({ROWS: "/r", FORMAT: "fp2"}, "fp8 or fp4"),
    ],
)
def test_settings_that_mean_nothing_are_refused(environment, says):
    """A count without a folder, no number, no format."""
    with pytest.raises(Refusal, match=says):
        folder.asked(environment)


def test_settings_name_a_folder():
    """Nothing asked is nothing done; what is left out has a value."""
    assert folder.asked({}) is None
    assert folder.asked({ROWS: ""}) is None
    found = folder.asked({ROWS: "/r", RESIDENT: "20000000", FORMAT: "fp4"})
    assert found is not None
    assert str(found.hot_rows(14)) == "/r/hot-14-20000000-fp4"
    assert str(found.all_rows(1)) == "/r/rows-1"


def test_steps_are_read_as_they_were_written(tmp_path):
    """Rows of the whole table; a rank takes its columns, counted from its first row."""
    table = v41_flash()[0]
    begin = np.array(table.offsets)
    taken = [np.stack([begin, begin + 5]), np.stack([begin + 1, begin + 2])]
    steps.write(tmp_path / "steps", taken)
    found = steps.read(tmp_path / "steps", table, 2)
    assert (found == np.stack(taken)).all()
    own = steps.of_rank(found, table.slices(4)[1])
    assert own[0].tolist() == [*(begin[6:12] - begin[6]), *(begin[6:12] - begin[6] + 5)]


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros((2, 2, 24), dtype=np.int64), "rows of another table"),
        (np.zeros((2, 2, 6), dtype=np.int64), "int64"),
        (np.zeros((2, 2, 24), dtype=np.int32), "int64"),
        (np.zeros((1, 2, 24), dtype=np.int64), "2 or more"),
    ],
    ids=["other rows", "other columns", "other type", "too few"],
)
def test_steps_of_something_else_are_refused(tmp_path, array, says):
    """Another table, another shape, too few, and no array at all."""
    with (tmp_path / "steps").open("wb") as file:
        np.save(file, array)
    with pytest.raises(Refusal, match=says):
        steps.read(tmp_path / "steps", v41_flash()[0], 2)
    (tmp_path / "steps").write_bytes(b"no array")
    with pytest.raises(Refusal, match="a steps file"):
        steps.read(tmp_path / "steps", v41_flash()[0], 2)
