"""The plan file: what is written is read, and whatever does not fit is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("safetensors", reason="no safetensors here: run by scripts/check --engine")

from sparkctl_vllm import plan_file
from sparkctl_vllm.plan_file import Interval, Meaning, Plan
from sparkctl_vllm.refusal import Refusal

CHECKPOINT = {"config.json": "aa", "layers.0.ffn.experts.0.w1.weight": "bb"}


def plan(**changes):
    """A plan for two ranks of uneven width."""
    rng = np.random.default_rng(0)
    widths, experts = (128, 192), 3
    first = np.stack([rng.permutation(128) for _ in range(experts)])
    second = np.stack([128 + rng.permutation(192) for _ in range(experts)])
    important = [-np.sort(-rng.random((experts, width // 64)), axis=1) for width in widths]
    meaning = Meaning(
        model="deepseek_v41", checkpoint=CHECKPOINT, experts=experts, layers=1, widths=widths, tile=64, format="mxfp4", applied=False,
        eps=1e-3, h=0.1, d_max=0.02, floor_tiles=2, min_tiles=1, corpus="cc", corpus_tokens=1000, commit="0123",
        predicted={"16": Interval(estimate=1e-4, low=8e-5, high=2e-4)},
    )  # fmt: skip
    tables = {
        "perm.L0": np.concatenate([first, second], axis=1).astype(np.uint16),
        "D.L0": np.concatenate(important, axis=1).astype(np.float32),
        "count.L0": np.arange(3, dtype=np.uint32),
        "price": np.ones((1, 65), dtype=np.float32),
        "fisher": np.ones(1, dtype=np.float32),
    }
    return Plan(meaning=replace(meaning, **changes), tables=tables)


def test_what_is_written_is_read(tmp_path):
    """Meaning and tables come back; a rank gets its own tiles."""
    made = plan()
    plan_file.write(made, tmp_path / "plan")
    found = plan_file.read(tmp_path / "plan", {**CHECKPOINT, "more": "dd"})
    assert replace(found.meaning, tables="") == made.meaning
    assert all((found.tables[name] == table).all() for name, table in made.tables.items())
    assert (found.importance(0, 1) == made.tables["D.L0"][:, 2:]).all()
    assert found.price(0, 64) == 1


def laddered(depths):
    """The plan with ladders of two ranks at every step size."""
    made = plan()
    table = np.broadcast_to(np.array(depths, dtype=np.uint8), (1, 65, 2)).copy()
    return replace(made, tables={**made.tables, "ladder": table})


def test_ladders_come_back_where_there_are_any(tmp_path):
    """Depths by router rank; a plan without them says so, and one is refused whose ladder rises or drops an expert."""
    plan_file.write(laddered([2, 1]), tmp_path / "plan")
    assert plan_file.read(tmp_path / "plan", CHECKPOINT).ladder(0, 64) == (2, 1)
    with pytest.raises(Refusal, match="ladder: not in the file"):
        plan().ladder(0, 1)
    for depths, says in (([1, 2], "rising"), ([2, 0], "1 to 2 tiles"), ([3, 1], "1 to 2 tiles")):
        with pytest.raises(Refusal, match=says):
            plan_file.write(laddered(depths), tmp_path / "plan")


def test_a_step_beyond_the_plan_is_refused():
    """The table of prices ends where calibration ended."""
    with pytest.raises(Refusal, match="rows of a step: 65, allowed: 1 to 64"):
        plan().price(0, 65)


@pytest.mark.parametrize(
    ("checkpoint", "says"),
    [
        ({**CHECKPOINT, "config.json": "ee"}, "config.json: ee, allowed: aa"),
        ({"config.json": "aa"}, "not in this checkpoint"),
    ],
)
def test_another_checkpoint_is_refused(tmp_path, checkpoint, says):
    """Every hash of the plan must be that of the checkpoint."""
    plan_file.write(plan(), tmp_path / "plan")
    with pytest.raises(Refusal, match=says):
        plan_file.read(tmp_path / "plan", checkpoint)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tile": 96}, "multiple of 64"),
        ({"format": "exl3"}, "multiple of 128 for exl3"),
        ({"format": "int8"}, "mxfp4, bf16, exl3"),
        ({"widths": (128, 128)}, "D.L0"),
        ({"widths": (192, 128)}, "non-increasing"),
        ({"widths": ()}, "widths"),
        ({"experts": 4}, "D.L0"),
        ({"eps": 0.0}, "eps"),
        ({"min_tiles": 3}, "min_tiles"),
        ({"layers": 2}, "D.L1: not in the file"),
    ],
)
def test_a_plan_that_contradicts_itself_is_not_written(tmp_path, changes, says):
    """Widths, tile, format and tables must agree."""
    with pytest.raises(Refusal, match=says):
        plan_file.write(plan(**changes), tmp_path / "plan")


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("schema", 2, "schema: 2, allowed: 1"),
        ("surprise", 1, "keys off: .'surprise'."),
        ("predicted", {"16": 3}, "estimate, low, high"),
    ],
)
def test_another_document_is_refused(tmp_path, key, value, says):
    """Unknown keys, another schema and wrong shapes are named."""
    plan_file.write(plan(), tmp_path / "plan")
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(Refusal, match=says):
        plan_file.read(tmp_path / "plan", CHECKPOINT)


def test_changed_tables_are_refused(tmp_path):
    """One changed byte of the tables, or none of them at all."""
    plan_file.write(plan(), tmp_path / "plan")
    blob = tmp_path / "plan.safetensors"
    blob.write_bytes(blob.read_bytes()[:-1] + b"!")
    with pytest.raises(Refusal, match="SHA-256"):
        plan_file.read(tmp_path / "plan", CHECKPOINT)
    blob.unlink()
    with pytest.raises(Refusal, match="no such file"):
        plan_file.read(tmp_path / "plan", CHECKPOINT)


@pytest.mark.parametrize(("text", "says"), [("{", "a JSON document"), ("[]", "a JSON object")])
def test_what_is_no_plan_is_refused(tmp_path, text, says):
    """Not JSON, or not an object."""
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(Refusal, match=says):
        plan_file.read(tmp_path / "plan", CHECKPOINT)


def test_rising_importances_are_refused(tmp_path):
    """A plan whose tiles are not sorted would not be a prefix read."""
    made = plan()
    made.tables["D.L0"][0] = [1, 2, 3, 2, 1]
    with pytest.raises(Refusal, match="non-increasing"):
        plan_file.write(made, tmp_path / "plan")
