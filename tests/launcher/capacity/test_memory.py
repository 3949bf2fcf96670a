"""Weights and memory of a rank: totals to the byte, ranks as boots printed them, and what would fit."""

from dataclasses import replace
from typing import Any

import pytest

from launcher.capacity import config, weights
from launcher.capacity.memory import Table, weights_gib
from launcher.capacity.preset import Hardware, Inventory, Model
from launcher.capacity.weights import Tensors, Totals
from launcher.overlay import overlay
from sparkctl import content, edge
from sparkctl.cli import memory_table, presets
from sparkctl.cli.served import read_recipe
from sparkctl.errors import FileFault, Refused
from sparkctl.units import GIB

INVENTORY = edge.read(content.tensors("deepseek-v41-flash"), Inventory)
GB10 = edge.read(content.hardware("gb10"), Hardware)


def totals() -> Totals:
    """What the checkpoint's tensors add up to."""
    return weights.totals(weights.tensors(INVENTORY))


def table(name: str, **settings: Any) -> Table:
    """The memory table of a recipe that ships, with some keys changed."""
    recipe, engine = read_recipe(name)
    changed = overlay(recipe, {key.replace("__", "."): value for key, value in settings.items()}, engine)
    model = presets.of_recipe(changed, None)
    attention = config.attention(model.config, name)
    return memory_table.table(changed, attention, model, GB10)


def line(found: Table, name: str) -> tuple[tuple[float, float], ...]:
    """One line of a table, as low and high of each rank."""
    return next(tuple((span.low, span.high) for span in one.gib) for one in found.lines if one.name == name)


@pytest.mark.parametrize(
    ("said", "found", "gigabytes"),
    [
        ("the checkpoint", sum(one.size for one in weights.tensors(INVENTORY)), 510.29),
        ("routed experts", totals().experts, 288.78),
        ("Engram's tables", totals().tables, 202.76),
    ],
)
def test_totals_close_to_the_byte(said: str, found: int, gigabytes: float) -> None:
    """510,286,023,000 bytes of tensors, 288,777,830,400 of experts and 202,758,032,400 of tables, from names and shapes alone."""
    exact = {
        "the checkpoint": 510286023000,
        "routed experts": 288777830400,
        "Engram's tables": 202758032400,
    }
    assert found == exact[said]
    assert round(found / 1e9, 2) == gigabytes


def test_nothing_is_counted_twice() -> None:
    """What is cut, whole, expert, the drafter's or a table is all there is."""
    found = totals()
    parts = (found.cut, found.whole, found.experts, found.drafter_experts, found.tables)
    assert sum(parts) == INVENTORY.total_bytes


def test_an_inventory_that_does_not_add_up_is_refused() -> None:
    """A shape that lost a row is found by the total."""
    row = replace(INVENTORY.rows[0], shape=(129279, 5120))
    with pytest.raises(
        FileFault, match="its tensors add up to 510,286,012,760 bytes, wanted 510,286,023,000"
    ):
        weights.tensors(replace(INVENTORY, rows=(row, *INVENTORY.rows[1:])))


def test_release_takes_what_fleets_printed() -> None:
    """81.6 GiB a rank (`Model loading took 81.58 GiB`, two fleets) within 0.1, 7.47 of it padding from 576 to 640 neurons."""
    found = table("v41-flash-mxfp4-tp4")
    sizes = weights_gib(memory_table.weights_of(found))
    assert len(set(sizes)) == 1
    assert sizes[0] == pytest.approx(81.6, abs=0.1)
    assert line(found, "their padding")[0][0] == pytest.approx(67.236 * 64 / 576, abs=0.01)
    assert weights.even(totals().experts, 2304, 4)[0].width == 576


def test_exl3_takes_what_the_card_says() -> None:
    """56.6 GiB on the narrow ranks and 68.9 on the wide ones (model card) within 0.5: 512, 640, 640 and 512 neurons.

    Within 0.1 even, since a rank holds whole what scales the uncut side of a matrix.
    """
    sizes = weights_gib(memory_table.weights_of(table("v41-flash-exl3-tp4")))
    assert sizes == pytest.approx((56.6, 68.9, 68.9, 56.6), abs=0.1)
    assert weights.widths(2304, 4) == (512, 640, 640, 512)


def test_the_wide_rank_binds() -> None:
    """Of four ranks the second holds most beside its cache; what it has left decides."""
    found = table("v41-flash-exl3-tp4")
    assert found.binding == 1
    assert found.left(1).low < found.left(0).low
    assert found.fits == "yes"


def test_largest_pin_leaves_the_guard_its_floor() -> None:
    """The pin that is called safe fits at the high ends, a quarter GiB more does not; above the hopeful one nothing fits."""
    found = table("v41-flash-exl3-tp4")
    for pin, verdict in (
        (found.safe_pin_gib, "yes"),
        (found.safe_pin_gib + 0.25, "perhaps"),
        (found.hopeful_pin_gib, "perhaps"),
        (found.hopeful_pin_gib + 0.25, "no"),
    ):
        assert table("v41-flash-exl3-tp4", memory__kv_cache_gib=pin).fits == verdict


def test_cache_that_vllm_sizes_is_what_utilisation_leaves() -> None:
    """Reported boots of the release at 0.80 and 300,000 tokens found 1,070,168 to 1,374,757 tokens, 5.0 to 6.4 GiB: in the span."""
    found = table("v41-flash-mxfp4-tp4")
    low, high = line(found, "KV cache")[0]
    assert low < 5.0
    assert high > 6.4
    # The engine takes its whole budget, so what is left is what lies outside of it.
    assert found.left(0).high == pytest.approx(121.69 * 0.2 - 4.7 - 2.2)


def test_workspace_of_the_indexer_grows_with_the_length() -> None:
    """5.2 GiB at 1,048,576 tokens, as reported (tonyd2wild)."""
    found = table("v41-flash-exl3-tp4", **{"args__max-model-len": 1048576})
    assert line(found, "index workspace")[0][0] == pytest.approx(5.2, abs=0.05)


def test_engram_rows_on_disk_cost_a_batch_and_resident_ones_a_quarter_of_the_tables() -> None:
    """47.2 GiB a rank where the tables are not read from disk."""
    assert line(table("v41-flash-exl3-tp4"), "Engram staging")[0][0] < 0.05
    resident = table("v41-flash-exl3-tp4", env__DSV41_ENGRAM_DISK="0")
    assert line(resident, "Engram rows")[0][0] == pytest.approx(47.2, abs=0.05)
    assert resident.fits == "no"


def test_a_width_that_tears_scales_is_refused() -> None:
    """MXFP4 has a scale for 32 weights: five ranks cannot share 2304 neurons; nineteen cannot share 18 blocks."""
    with pytest.raises(Refused, match="2304 neurons of an expert over 5 ranks tear the scales"):
        table("v41-flash-mxfp4-tp4", parallel__tensor=5)
    with pytest.raises(Refused, match="18 blocks of 128"):
        table("v41-flash-exl3-tp4", parallel__tensor=19)


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        ("model.layers.3.self_attn.q_proj.weight", True),
        ("model.layers.3.mlp.down_proj.weight", True),
        ("model.embed_tokens.weight", True),
        ("lm_head.weight", True),
        ("model.layers.3.self_attn.kv_a_proj_with_mqa.weight", False),
        ("model.layers.3.self_attn.kv_b_proj.weight", True),
        ("model.layers.3.input_layernorm.weight", False),
        ("model.layers.3.mlp.gate.weight", False),
        ("layers.2.attn.indexer.wq_b.weight", False),
        ("layers.2.attn.wq_b.weight", True),
        ("mtp.2.markov_head.head.weight", False),
    ],
)
def test_names_tell_what_is_cut(name: str, cut: bool) -> None:  # noqa: FBT001
    """Projections, embedding and head are cut over the ranks; norms, routers, latents' down projections and the indexer are whole."""
    found = weights.totals([Tensors(name=name, kind="", size=8)])
    assert (found.cut, found.whole) == ((8, 0) if cut else (0, 8))


def test_memory_is_in_gib() -> None:
    """The table counts in GiB, as vLLM prints."""
    found = table("v41-flash-exl3-tp4")
    assert line(found, "KV cache")[0] == (12.0, 12.0)
    assert 12.0 * GIB == 12884901888


def test_model_presets_and_hardware_are_sound() -> None:
    """Every file under recipes/models and recipes/hardware is read, and names its sources."""
    for name in content.models():
        assert edge.read(content.model(name), Model).sources
    for name in ("gb10", "gb200", "b200", "b300", "h200"):
        assert edge.read(content.hardware(name), Hardware).sources
