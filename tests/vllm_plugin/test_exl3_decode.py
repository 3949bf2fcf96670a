"""The device's decoder of EXL3, compiled for a CPU, against the definition to the last bit; and the order in which the kernel reads words."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")

from sparkctl_vllm.exl3 import codebook, kernel_experts, kernel_pack, trellis
from sparkctl_vllm.exl3.kernel_experts import Exl3Experts, Stack, stacked
from sparkctl_vllm.exl3.kernel_operands import OPERANDS, Shape, check
from sparkctl_vllm.exl3.matrix import Exl3Matrix
from sparkctl_vllm.native import SOURCE


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    """The decoder as a library of this machine."""
    if not shutil.which("g++"):
        pytest.skip("no g++")
    built = tmp_path_factory.mktemp("host") / "decode.so"
    source = Path(__file__).with_name("exl3_host.cpp")
    argv = ["g++", "-O1", "-std=c++17", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{SOURCE.parent}"]
    subprocess.run([*argv, "-o", built, source], check=True)
    return ctypes.CDLL(str(built))


def random_words(*tiles, bits):
    """Random words: every pattern is a tile."""
    return torch.randint(-32768, 32768, (*tiles, 16 * bits), dtype=torch.int16)


@pytest.mark.parametrize("bits", kernel_experts.RATES)
def test_states_and_numbers_are_the_formats(device, bits):
    """Each state of a ring, and the number that its four bytes make: equal to trellis.py and codebook.py."""
    torch.manual_seed(bits)
    for words in random_words(64, bits=bits):
        states, sums = (torch.zeros(256, dtype=torch.int32) for _ in range(2))
        pointers = (ctypes.c_void_p(one.data_ptr()) for one in (states, sums))
        assert device.decode_tile(ctypes.c_void_p(words.data_ptr()), bits, *pointers) == 0
        wanted = trellis.states(words)
        assert torch.equal(states.long(), wanted)
        numbers = ((1774 * sums - 905_216).float() * 2.0**-18).half()
        assert torch.equal(numbers, codebook.table("mul1")[wanted])


def test_a_rate_that_is_not_compiled_is_told(device):
    """No silent decoding at another rate."""
    assert device.decode_tile(None, 5, None, None) == -1


def test_products_take_the_positions_that_the_format_has(device):
    """`position` in exl3_decode.cuh is the place of trellis.py, for lane 0's columns 0 and 8."""
    places = trellis.places()[:32]
    for row in range(16):
        for upper in (0, 1):
            assert places[device.place_of(row, upper)] == 16 * row + 8 * upper


@pytest.mark.parametrize("bits", kernel_experts.RATES)
def test_pieces_hold_every_word_in_its_place(bits):
    """Decoded by the layout that kernel_pack.py states, the pieces are the matrix, in order of inputs and outputs."""
    torch.manual_seed(bits)
    words = random_words(16, 24, bits=bits)
    scales = (torch.ones(256).half(), torch.ones(384).half())
    whole = Exl3Matrix(trellis=words, suh=scales[0], svh=scales[1], codebook="mul1").coded()
    pieces = kernel_pack.pieces(words)
    assert pieces.shape == (3, 4, 2, bits, 32, 4)
    assert pieces.numel() * 4 == words.numel() * 2
    # A lane's words, [block, step, half, lane, m, K], as bits behind the last 16 of the lane before it.
    lanes = pieces.permute(0, 1, 2, 4, 3, 5).reshape(3, 4, 2, 32, 4, bits).long() & 0xFFFFFFFF
    stream = (lanes[..., None] >> torch.arange(31, -1, -1) & 1).flatten(-2)
    stream = torch.cat((torch.roll(stream, 4, dims=3)[..., -16:], stream), -1)
    window = (torch.arange(32)[:, None] + 1) * bits + torch.arange(16)
    states = (stream[..., window] * (1 << torch.arange(15, -1, -1))).sum(-1)
    found = codebook.table("mul1")[states].permute(0, 1, 2, 4, 3, 5)  # [block, step, half, m, lane, position]
    places = kernel_pack.positions()
    inputs = torch.arange(4)[:, None, None, None, None] * 64 + places[..., 0]
    columns = torch.arange(24).view(3, 1, 2, 4, 1, 1) * 16 + places[..., 1]
    assert torch.equal(found, whole[inputs.expand(3, 4, 2, 4, 32, 32), columns.expand(3, 4, 2, 4, 32, 32)])


def stack(bits=3, inputs=256, outputs=128, count=2):
    """A stack of random words."""
    words = random_words(count, inputs // 16, outputs // 16, bits=1).repeat(1, 1, 1, 8)[..., : int(16 * bits)]
    return Stack(trellis=words, suh=torch.ones(count, inputs).half(), svh=torch.ones(count, outputs).half())


def experts(**changed):
    """Two small experts, with changes."""
    parts = {"gate": stack(), "up": stack(), "down": stack(inputs=128, outputs=256), "limit": 10.0}
    return Exl3Experts(**{**parts, **changed})


def test_experts_know_their_sizes():
    """Rates, blocks and bytes of one."""
    mixed = experts(up=stack(4), down=stack(2, 128, 256))
    assert mixed.bits == (3, 4, 2)
    assert mixed.tiles == 1
    assert mixed.tile_bytes == sum(one.trellis[0].numel() * 2 for one in (mixed.gate, mixed.up, mixed.down))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"gate": stack(3.5), "up": stack(3.5)}, r"gate rate: 3\.5 bits, allowed: 2, 3, 4 bits"),
        ({"gate": stack(5), "up": stack(5)}, r"gate rate: 5 bits, allowed: 2, 3, 4 bits"),
        ({"up": stack(outputs=256)}, "up: .*the shape of gate"),
        ({"down": stack()}, "down: "),
        (
            {"gate": stack(inputs=320), "up": stack(inputs=320)},
            "gate inputs: 320, allowed: a multiple of 128",
        ),
        ({"limit": 0.0}, "limit"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changed, says):
    """What was found, what is allowed."""
    with pytest.raises(ValueError, match=says):
        experts(**changed)


def test_other_kinds_of_matrices_are_refused():
    """Rank, codebook, bias, and rates that differ among the experts of a layer."""
    flat = stack().trellis[0]
    with pytest.raises(ValueError, match="rank 3"):
        experts(gate=Stack(trellis=flat, suh=torch.ones(1), svh=torch.ones(1)))
    one = stack().matrix(0)
    with pytest.raises(ValueError, match="codebook of expert 0: mcg, allowed: mul1"):
        stacked([Exl3Matrix(trellis=one.trellis, suh=one.suh, svh=one.svh, codebook="mcg")])
    with pytest.raises(ValueError, match="bias of expert 0"):
        stacked(
            [
                Exl3Matrix(
                    trellis=one.trellis,
                    suh=one.suh,
                    svh=one.svh,
                    codebook="mul1",
                    bias=torch.ones(128).half(),
                )
            ]
        )
    with pytest.raises(ValueError, match="trellis of expert 1"):
        stacked([one, stack(4).matrix(0)])
    assert stacked([one, one]).bits == 3


def operands(shape):
    """What a call of that shape takes."""
    rows, picks = shape.rows, (shape.rows, shape.top_k)
    made = (
        torch.zeros(shape.tiles, shape.experts),
        torch.zeros(1),
        torch.zeros(shape.experts, dtype=torch.int32),
        torch.zeros(rows, shape.hidden).bfloat16(),
        torch.zeros(picks, dtype=torch.int32),
        torch.zeros(picks),
        torch.zeros(1, dtype=torch.int32),
        torch.zeros(rows, shape.hidden),
    )
    return dict(zip(OPERANDS, made, strict=True))


@pytest.mark.parametrize("name", OPERANDS)
def test_operands_are_refused_by_name(name):
    """Each of another type, and each of another size; a whole set passes."""
    made = experts()
    shape = Shape.of(made, rows=2, top_k=2)
    packed, given = kernel_pack.packed(made), operands(shape)
    check(shape, packed, given)
    for wrong in (given[name].double(), torch.cat((given[name], given[name]))):
        with pytest.raises(ValueError, match=f"^{name}: "):
            check(shape, packed, given | {name: wrong})


def test_weights_of_another_rate_are_refused_by_name():
    """Pieces of 4 bits for a kernel of 3."""
    made = experts()
    shape = Shape.of(made, rows=2, top_k=2)
    with pytest.raises(ValueError, match=r"^up pieces: "):
        check(shape, kernel_pack.packed(experts(up=stack(4))), operands(shape))
