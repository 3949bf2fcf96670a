"""Row ids: definition, NumPy and Triton say the same of any text, and what the public vectors say; ranks' boundaries are the published ones."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")
pytest.importorskip("triton", reason="no Triton here: run by scripts/check --engine")

from hypothesis import given, settings
from hypothesis import strategies as st

from sparkctl_vllm.engram import definition, device_lookup, row_format, row_ids
from sparkctl_vllm.engram.tables import DEAD, boundaries, tables, v41_flash
from sparkctl_vllm.refusal import Refusal

VECTORS = json.loads(Path(__file__).with_name("engram").joinpath("vectors.json").read_text(encoding="utf-8"))
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
TABLES = v41_flash()
BY_LAYER = {str(one.layer): one for one in TABLES}
SEQUENCES = [pytest.param(one, id=one["name"]) for one in VECTORS["sequences"]]


def on_device(table, history, ids, ranks=1):
    """Rows by the Triton kernel, the ranks' columns put side by side again."""
    flat = torch.tensor([*history, *ids], dtype=torch.int64, device=DEVICE)
    at = torch.arange(len(history), len(flat), device=DEVICE)
    parts = []
    for owned in table.slices(ranks):
        found = device_lookup.Hash(owned, DEVICE)(flat, at, torch.zeros_like(at))
        parts.append(found.cpu().numpy() + owned.begin)
    return np.concatenate(parts, axis=1)


@pytest.mark.parametrize("layer", ["1", "14"])
def test_the_tables_are_the_published_ones(layer):
    """Primes, offsets, multipliers and rows of both tables."""
    table = BY_LAYER[layer]
    assert list(table.primes) == [prime for order in VECTORS["primes"][layer] for prime in order]
    assert list(table.offsets) == VECTORS["offsets"][layer]
    assert list(table.multipliers) == VECTORS["multipliers"][layer]
    assert table.rows == VECTORS["rows_check"][layer]


@pytest.mark.parametrize("ranks", [int(one) for one in VECTORS["tp_boundaries"]])
def test_row_boundaries_of_ranks(ranks):
    """Where the rows of each rank begin, for every number of ranks that divides the columns."""
    for layer, wanted in VECTORS["tp_boundaries"][str(ranks)].items():
        assert list(boundaries(BY_LAYER[layer], ranks)) == wanted


def test_tp4_boundaries_as_owners_use_them():
    """Four ranks: the figures of tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark, tools/engram_ranges.py."""
    assert boundaries(BY_LAYER["1"], 4) == (0, 96000564, 192001740, 288003654, 384006168)
    assert boundaries(BY_LAYER["14"], 4) == (0, 96003054, 192007016, 288011564, 384016682)


@pytest.mark.parametrize("one", SEQUENCES)
def test_every_vector(one):
    """Definition, NumPy and Triton equal the vector's rows in both tables, and its digest."""
    whole = []
    for layer, wanted in one["rows"].items():
        table = BY_LAYER[layer]
        assert definition.rows_of(table, one["history"], one["ids"]) == wanted
        fast = row_ids.of_sequence(table, one["ids"], one["history"])
        assert fast.tolist() == wanted
        assert on_device(table, one["history"], one["ids"]).tolist() == wanted
        whole.append(fast)
    told = np.stack(whole, axis=1).astype("<i8").tobytes()
    assert sha256(told).hexdigest() == one["sha256_i64le_pos_layer_col"]


IDS = st.lists(
    st.one_of(st.integers(0, 99_091), st.sampled_from([DEAD, 0, 2, 99_091])), min_size=1, max_size=12
)


@settings(max_examples=40, deadline=None)
@given(history=st.one_of(st.just([]), IDS), ids=IDS, ranks=st.sampled_from([1, 4, 24]))
def test_all_three_agree(history, ids, ranks):
    """Random and adversarial ids: dead ones anywhere, pads, both ends of the range, short histories."""
    for table in TABLES:
        slow = definition.rows_of(table, history, ids)
        assert row_ids.of_sequence(table, ids, history).tolist() == slow
        assert on_device(table, history, ids, ranks).tolist() == slow


@settings(max_examples=30, deadline=None)
@given(texts=st.lists(IDS, min_size=1, max_size=4), data=st.data())
def test_a_batch_of_sequences_keeps_them_apart(texts, data):
    """Tokens of several sequences in one buffer, in any order, read nothing of their neighbours."""
    table = TABLES[0]
    begins = np.cumsum([0, *map(len, texts)])
    flat = np.array([one for text in texts for one in text], dtype=np.int64)
    start = np.repeat(begins[:-1], [len(text) for text in texts])
    at = np.array(data.draw(st.permutations(range(len(flat)))), dtype=np.int64)
    wanted = [row for text in texts for row in definition.rows_of(table, [], text)]
    assert row_ids.of_batch(table, flat, at, start[at]).tolist() == [wanted[one] for one in at]
    moved = [torch.from_numpy(one).to(DEVICE) for one in (flat, at, start[at])]
    (owned,) = table.slices(1)
    assert device_lookup.Hash(owned, DEVICE)(*moved).cpu().tolist() == [wanted[one] for one in at]


def test_an_empty_batch_reads_nothing():
    """No token, no row, on both paths."""
    (owned,) = TABLES[0].slices(1)
    nothing = np.zeros(0, dtype=np.int64)
    assert row_ids.of_batch(TABLES[0], nothing, nothing, nothing).shape == (0, 24)
    none = torch.zeros(0, dtype=torch.int64, device=DEVICE)
    assert device_lookup.Hash(owned, DEVICE)(none, none, none).shape == (0, 24)


def test_a_rank_sees_its_own_columns_from_zero():
    """Rank 1 of 4: columns 6 to 11, counted from its first row, all inside its range."""
    table = TABLES[0]
    owned = table.slices(4)[1]
    whole = row_ids.of_sequence(table, [5, 6, 7])
    own = row_ids.of_rank(whole, owned)
    assert (own + owned.begin == whole[:, 6:12]).all()
    assert ((own >= 0) & (own < owned.rows)).all()


@pytest.mark.parametrize("wrong", [-2, 99_092])
def test_an_id_that_is_not_compressed_is_refused(wrong):
    """A raw token id would read a row of something else, without an error."""
    with pytest.raises(Refusal, match="compressed ids"):
        row_ids.of_sequence(TABLES[0], [1, wrong])


def test_ranks_that_cut_a_column_are_refused():
    """Five ranks would need padding that no engine of ours makes."""
    with pytest.raises(Refusal, match="divisor of the 24"):
        TABLES[0].slices(5)


@pytest.mark.parametrize("multiplier", [4, 2**62 + 1])
def test_multipliers_that_would_overflow_or_lose_bits_are_refused(multiplier):
    """Even, or so large that a product leaves 63 bits."""
    with pytest.raises(Refusal, match="multipliers"):
        tables(
            layers=(0,), least=7, most_order=2, heads=1, pad=0, vocabulary=9, multipliers=((1, multiplier),)
        )


@pytest.mark.parametrize(
    "one", [pytest.param(one, id=one["name"]) for one in VECTORS["row_format"]["worked_rows"]]
)
def test_every_worked_row(one):
    """A row's bytes to the bits of bfloat16: the digest of the vector, and the definition's products to the last bit."""
    row = bytes.fromhex(one["weight_hex"] + one["scale_hex"])
    packed = np.frombuffer(row, dtype=np.uint8)[None]
    assert sha256(row_format.decode(packed).astype("<u2").tobytes()).hexdigest() == one["bf16_le_sha256"]
    with np.errstate(over="ignore"):
        defined = np.array(definition.values_of(row)).astype(np.float32)
    assert np.array_equal(row_format.numbers(packed)[0], defined, equal_nan=True)
