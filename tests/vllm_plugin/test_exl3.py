"""EXL3: the decoder equals every vector; prefixes of whole 128-blocks are dropped neurons, 64 are not; the encoder closes the circle."""

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")

from sparkctl_vllm.exl3 import codebook, encoder, matrix, search, trellis
from sparkctl_vllm.exl3.matrix import Exl3Matrix
from sparkctl_vllm.refusal import Refusal

VECTORS = json.loads((Path(__file__).parent / "exl3" / "vectors.json").read_text(encoding="utf-8"))
ULP = 2.0**-23


def bits16(numbers):
    """Patterns of float16 numbers as a list."""
    return (numbers.view(torch.int16).to(torch.int64) & 0xFFFF).tolist()


def half(patterns):
    """Float16 numbers from patterns."""
    return torch.tensor([one - (one >> 15 << 16) for one in patterns], dtype=torch.int16).view(torch.float16)


def stored(vector):
    """The matrix of a vector."""
    words = torch.tensor(vector["trellis"], dtype=torch.int16).reshape(vector["trellis_shape"])
    return Exl3Matrix(
        trellis=words,
        suh=half(vector["suh_fp16_bits"]),
        svh=half(vector["svh_fp16_bits"]),
        codebook=vector["codebook"],
    )


def close(got, wanted):
    """Within one unit in the last place of float32."""
    wanted = torch.tensor(wanted, dtype=torch.float64)
    return bool(((got.flatten() - wanted).abs() <= ULP * wanted.abs().clamp(min=1e-30) + 1e-12).all())


@pytest.mark.parametrize("name", codebook.NAMES)
def test_codebooks_equal_the_vectors(name):
    """The named codes and the digest of all 65536, to the bit."""
    wanted = VECTORS["codebooks"][name]
    table = codebook.table(name)
    assert bits16(table[torch.tensor(wanted["codes"])]) == wanted["fp16_bits"]
    assert table[torch.tensor(wanted["codes"])].tolist() == wanted["value"]
    assert sha256(table.numpy().astype("<f2").tobytes()).hexdigest() == wanted["all_65536_le_fp16_sha256"]
    assert table.double().std(correction=0).item() == pytest.approx(wanted["stats"]["std"], abs=1e-7)
    assert len(table.unique()) == wanted["stats"]["distinct"]


def test_mul1_depends_on_the_byte_sum():
    """Every reachable sum of bytes gives the number of the table."""
    wanted = VECTORS["mul1_by_byte_sum"]
    products = torch.arange(1 << 16) * codebook.MARKERS["mul1"] & 0xFFFFFFFF
    sums = sum(products >> shift & 255 for shift in (0, 8, 16, 24))
    found = bits16(codebook.table("mul1"))
    assert [wanted["fp16_bits"][one] for one in sums.tolist()] == found
    assert (sums.min(), sums.max(), len(sums.unique())) == (
        wanted["reachable_min"], wanted["reachable_max"], wanted["reachable_count"],
    )  # fmt: skip


def test_the_order_inside_a_tile():
    """Row and column of every position."""
    wanted = VECTORS["tile_order"]
    assert (trellis.places() // 16).tolist() == wanted["row"]
    assert (trellis.places() % 16).tolist() == wanted["col"]


@pytest.mark.parametrize("vector", VECTORS["tiles"], ids=lambda one: f"K={one['K']}")
def test_tiles_equal_the_vectors(vector):
    """Words to states to numbers to the 16x16 tile, and the states back to the same words."""
    words = torch.tensor(vector["words_int16"], dtype=torch.int16)
    assert trellis.rate_of(len(words)) == vector["K"]
    states = trellis.states(words)
    assert states.tolist() == vector["states"]
    assert trellis.words(states, vector["K"]).tolist() == vector["words_int16"]
    for name, patterns in vector["fp16_bits"].items():
        assert bits16(codebook.table(name)[states]) == patterns
    for name, patterns in (vector.get("tile_row_major_fp16_bits") or {}).items():
        assert bits16(trellis.tile(codebook.table(name)[states]).flatten()) == patterns


def test_the_hadamard_matrix():
    """The rows of the vectors; symmetric and its own inverse."""
    made = matrix.hadamard(torch.float64)
    for row, signs in VECTORS["hadamard128"]["sign_rows"].items():
        assert "".join("+" if one > 0 else "-" for one in made[int(row)].tolist()) == signs
    assert torch.allclose(made @ made, torch.eye(128, dtype=torch.float64), atol=1e-15)
    assert torch.equal(made, made.T)


def test_a_matrix_equals_its_vector():
    """What to the bit, W and y within one unit in the last place, in float32 within 1e-6 of the largest; the dead output is 0."""
    vector = VECTORS["matrix"]
    one = stored(vector)
    x = torch.tensor(vector["x"], dtype=torch.float64)
    assert one.rate == vector["K"]
    assert bits16(one.coded().flatten()) == vector["what_fp16_bits"]
    assert close(one.dense(), vector["w_fp32"])
    assert close(one(x), vector["y_fp32"])
    wanted = torch.tensor(vector["y_fp32"])
    assert (one(x.float()) - wanted).abs().max() <= 1e-6 * wanted.abs().max()
    assert (one.dense()[:, vector["dead_output_channel"]] == 0).all()
    staged = half(vector["y_staged_fp16_bits"]).double()
    assert ((one(x) - staged).square().mean() / staged.square().mean()).sqrt() < 1e-3


def test_a_prefix_of_columns_is_exact():
    """The first 128 outputs need exactly their own eight columns of tiles: neurons of gate and up left unread."""
    vector = VECTORS["matrix"]
    one = stored(vector)
    x = torch.tensor(vector["x"], dtype=torch.float64)
    assert torch.equal(one.columns(128)(x), one(x)[:128])
    assert torch.equal(one.columns(128).dense(), one.dense()[:, :128])


def test_a_prefix_of_rows_is_exact():
    """The first 128 inputs need exactly their own rows of tiles: neurons of down that are 0 are left unread."""
    vector = VECTORS["row_prefix"]
    one = stored(vector)
    x = torch.tensor(vector["x"], dtype=torch.float64)
    assert close(one(x), vector["y_full_fp32"])
    assert close(one.rows(128)(x[:128]), vector["prefix_128"]["y_fp32"])
    dropped = x.clone()
    dropped[128:] = 0
    assert torch.allclose(one(dropped), one.rows(128)(x[:128]), atol=1e-14)


@pytest.mark.parametrize("cut", [64, 192])
def test_64_is_no_cut(cut):
    """Half a block is no prefix: what 64 more columns or rows of tiles hold is a mixture of 128 neurons, so the result is garbage."""
    one = stored(VECTORS["row_prefix"])
    with pytest.raises(Refusal, match="multiple of 128"):
        one.rows(cut)
    with pytest.raises(Refusal, match="multiple of 128"):
        stored(VECTORS["matrix"]).columns(cut)
    x = torch.tensor(VECTORS["row_prefix"]["x"], dtype=torch.float64)
    kept = one.trellis.clone()
    kept[cut // 16 :] = 0
    numbers = replace(one, trellis=kept).coded().double()
    numbers[cut:] = 0
    dropped = x.clone()
    dropped[cut:] = 0
    read = matrix.turned(matrix.turned(dropped * one.suh.double()) @ numbers) * one.svh.double()
    assert (read - one(dropped)).norm() / one(dropped).norm() > 0.3


def test_whole_blocks_may_change_places():
    """Permuting blocks of 128 inputs with their scales is exact."""
    one = stored(VECTORS["row_prefix"])
    swapped = replace(
        one,
        trellis=torch.cat((one.trellis[8:], one.trellis[:8])),
        suh=torch.cat((one.suh[128:], one.suh[:128])),
    )
    assert torch.equal(swapped.dense(), torch.cat((one.dense()[128:], one.dense()[:128])))


def test_old_signs_and_uneven_slices():
    """The sign words of old files, and the widths that public recipes use."""
    wanted = VECTORS["legacy_sign_pack"]
    assert matrix.signs(torch.tensor(wanted["int16"], dtype=torch.int16)).tolist() == wanted["signs"]
    for one in VECTORS["uneven_split"]:
        assert list(matrix.uneven(one["intermediate"], one["tp"])) == one["widths"]


def test_a_checkpoints_tensors_make_a_matrix():
    """Marker, bias and new or old scales; foreign tensors of the module are refused, those of others are not seen."""
    one = stored(VECTORS["matrix"])
    tensors = {
        "a.w1.trellis": one.trellis, "a.w1.suh": one.suh, "a.w1.svh": one.svh, "a.w1.bias": torch.ones(256).half(),
        "a.w1.mul1": torch.tensor(VECTORS["markers"]["mul1"]["i32"], dtype=torch.int32), "a.w10.trellis": one.trellis,
    }  # fmt: skip
    found = matrix.gathered(tensors, "a.w1")
    x = torch.randn(3, 128, dtype=torch.float64)
    assert torch.allclose(found(x), one(x) + 1, atol=1e-14)
    old = {name: tensor for name, tensor in tensors.items() if name != "a.w1.suh"} | {
        "a.w1.su": torch.zeros(8, dtype=torch.int16)
    }
    assert (matrix.gathered(old, "a.w1").suh == 1).all()
    with pytest.raises(Refusal, match="surprise"):
        matrix.gathered({**tensors, "a.w1.surprise": one.suh}, "a.w1")
    with pytest.raises(Refusal, match="mul1 marker"):
        matrix.gathered({**tensors, "a.w1.mul1": torch.tensor(7)}, "a.w1")
    with pytest.raises(Refusal, match="one of mcg and mul1"):
        matrix.gathered({**tensors, "a.w1.mcg": torch.tensor(VECTORS["markers"]["mcg"]["i32"])}, "a.w1")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda one: {"trellis": one.trellis[0]}, "rank 2 is a table"),
        (lambda one: {"trellis": one.trellis.int()}, "int16"),
        (lambda one: {"trellis": one.trellis[..., :30]}, "16, 24, 32"),
        (lambda one: {"trellis": one.trellis[..., :24]}, "mul1 at the half rate"),
        (lambda one: {"trellis": one.trellis[:4], "suh": one.suh[:64]}, "multiple of 8"),
        (lambda one: {"suh": one.suh.float()}, "float16"),
        (lambda one: {"svh": one.svh[:128]}, "svh"),
        (lambda one: {"bias": one.svh[:128]}, "bias"),
        (lambda _: {"codebook": "4inst"}, "3inst, mcg, mul1"),
    ],
)
def test_what_is_not_this_format_is_refused(change, says):
    """Each with its name and what is allowed."""
    one = replace(stored(VECTORS["matrix"]), codebook="mcg")
    with pytest.raises(Refusal, match=says):
        replace(one, **change(one))


@pytest.mark.parametrize(
    ("name", "bits", "level"),
    [("mul1", 2, 0.068), ("3inst", 2, 0.070), ("mcg", 3, 0.0169), ("mul1", 4, 0.0043)],
)
def test_the_search_is_near_the_known_level(name, bits, level):
    """Gaussian tiles: the walks close, and their normalised error is near the trellis' known level; a wrong order or window gives 1."""
    torch.manual_seed(bits)
    table = codebook.table(name).float()
    numbers = torch.randn(64, 256) * table.std() / encoder.SIZE[bits]
    found = search.walks(numbers, bits, name)
    assert torch.equal(trellis.states(trellis.words(found, bits)), found)
    assert ((table[found] - numbers).square().sum() / numbers.square().sum()) < 1.08 * level


@pytest.mark.parametrize("bits", search.RATES)
def test_the_fast_search_is_the_plain_one(bits):
    """The C search walks as the definition in torch does."""
    numbers = torch.randn(2, 256, generator=torch.Generator().manual_seed(bits))
    table = codebook.table("mul1").float()
    fast, plain = search.walks(numbers, bits), search.plain(numbers, bits)
    off = [(table[one] - numbers).double().square().sum(1) for one in (fast, plain)]
    assert torch.allclose(*off, rtol=1e-5)  # sums in another order may find another walk of the same cost


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is here")
@pytest.mark.parametrize("bits", search.RATES[1:])
def test_the_search_on_a_device_costs_as_little(bits):
    """On the device numbers are rounded to float16 and costs to some 20 bits: no walk may cost a thousandth more."""
    numbers = torch.randn(64, 256, generator=torch.Generator().manual_seed(bits))
    table = codebook.table("mul1").float()
    there, here = search.walks(numbers.cuda(), bits).cpu(), search.walks(numbers, bits)
    assert torch.equal(trellis.states(trellis.words(there, bits)), there)
    off = [(table[one] - numbers).double().square().sum(1) for one in (there, here)]
    assert (off[0] / off[1]).max() < 1.05  # a seam's guess may fall otherwise, for one tile
    assert off[0].sum() / off[1].sum() < 1.001


@pytest.mark.parametrize(
    ("numbers", "bits", "says"),
    [
        (torch.zeros(1, 256), 5, "bits: 5, allowed: 1, 2, 3, 4"),
        (torch.zeros(1, 255), 3, "256"),
        (torch.full((1, 256), torch.nan), 3, "NaN or infinite"),
    ],
)
def test_what_cannot_be_searched_is_refused(numbers, bits, says):
    """Each with its name and what is allowed."""
    with pytest.raises(Refusal, match=says):
        search.walks(numbers, bits)


@pytest.mark.parametrize(("bits", "level"), [(2, 0.264), (3, 0.133), (4, 0.067)])
def test_the_error_per_weight_is_the_known_one(bits, level):
    """A Gaussian weight without a Hessian: relative error at the level of the format's specification."""
    weight = torch.randn(1, 256, 128, generator=torch.Generator().manual_seed(bits))
    one = encoder.together(weight, bits, [7])[0]
    assert one.error == pytest.approx(level, rel=0.02)
    assert one.proxy == pytest.approx(one.error**2)
    dense = one.matrix.dense().float()
    assert ((dense - weight[0]).norm() / weight.norm()) == pytest.approx(one.error, rel=1e-3)


def test_an_encoded_matrix_comes_back():
    """A matrix whose outputs differ in size a thousandfold, at 1 bit: relative error of every output at the known level, a dead one exactly 0."""
    torch.manual_seed(1)
    weight = torch.randn(128, 128, dtype=torch.float64) * torch.logspace(-2, 1, 128, dtype=torch.float64)
    weight[:, 5] = 0
    again = encoder.encoded(weight, 1).dense()
    alive = torch.arange(128) != 5
    off = (again - weight).square().sum(0)[alive] / weight.square().sum(0)[alive]
    assert 0.2 < off.mean() < 0.32
    assert off.max() < 0.6
    assert (again[:, 5] == 0).all()


def test_a_walk_that_does_not_close_is_refused():
    """States of which one does not continue the one before cannot be packed."""
    states = torch.tensor(VECTORS["tiles"][4]["states"])
    states[7] ^= 1 << 15
    with pytest.raises(Refusal, match="no walk"):
        trellis.words(states, VECTORS["tiles"][4]["K"])
