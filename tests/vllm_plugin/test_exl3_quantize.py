"""Quantising to EXL3: what is written is what the format asks and what was asked for, wherever it broke off; wrong input is told by name."""

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")

from safetensors.torch import load_file, save_file

import mini_moe
from sparkctl_vllm import plan_file
from sparkctl_vllm.calibration import checkpoint as source
from sparkctl_vllm.calibration.record import recorded
from sparkctl_vllm.cli import main
from sparkctl_vllm.exl3 import checkpoint, conversion, encoder, feedback, shards
from sparkctl_vllm.refusal import Refusal

from . import mini

SHAPE = mini_moe.Shape(
    vocab_size=24, hidden_size=128, num_hidden_layers=2, num_attention_heads=2, moe_intermediate_size=256, n_routed_experts=2,
    num_experts_per_tok=1,
)  # fmt: skip
PART = {"gate": "w1", "up": "w3", "down": "w2"}


@pytest.fixture(scope="module")
def owned(tmp_path_factory):
    """A checkpoint of MXFP4 experts with a file beside it, its recording, and plans with tiles of 128 and of 64."""
    folder = tmp_path_factory.mktemp("owned")
    mini_moe.saved(mini.model(shape=SHAPE), folder / "checkpoint", {})
    (folder / "checkpoint" / "tokenizer.json").write_text("{}", encoding="utf-8")
    model = mini_moe.loaded(folder / "checkpoint")
    recorded(model, model, list(mini.talks(rows=16, positions=24).split(8)), folder / "recording", prompt=4)
    for tile in (128, 64):
        words = ["plan", folder / "checkpoint", "--recording", folder / "recording", "--tile", tile, "-o", folder / f"plan{tile}"]  # fmt: skip
        assert main([str(word) for word in [*words, "--rows", 4, "--steps", 4]]) == 0
    return folder


@pytest.fixture(scope="module")
def made(owned):
    """The checkpoint in EXL3 at 2.5 bits, sorted."""
    words = [
        "exl3",
        "quantize",
        owned / "checkpoint",
        owned / "made",
        "--bits",
        2.5,
        "--rates",
        "2,3",
        "--sample",
        1,
    ]
    words += ["--recording", owned / "recording", "--plan", owned / "plan128"]
    assert main([str(word) for word in words]) == 0
    return owned / "made"


@pytest.fixture(scope="module")
def plain(owned):
    """The checkpoint in EXL3 at 4 bits, the fastest to search, with nothing but its weights."""
    words = ["exl3", "quantize", owned / "checkpoint", owned / "plain", "--bits", 4, "--together", 1]
    assert main([str(word) for word in words]) == 0
    return owned / "plain"


def said(capsys, *words):
    """Exit code, stdout and stderr of a call."""
    capsys.readouterr()
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def test_what_is_no_expert_stays_byte_for_byte(owned, made):
    """Other tensors, other files and other keys of config.json are as they were."""
    for file in ("tokenizer.json", "model.safetensors"):
        assert (made / file).read_bytes() == (owned / "checkpoint" / file).read_bytes()
    before = json.loads((owned / "checkpoint" / "config.json").read_text())
    after = json.loads((made / "config.json").read_text())
    assert {key: value for key, value in after.items() if key != "quantization_config"} == before
    assert not (made.with_name("made.part")).exists()
    assert [one.name for one in made.glob("*.safetensors")] == [one.name for one in (owned / "checkpoint").glob("*.safetensors")]  # fmt: skip


def test_the_configuration_is_the_formats(made):
    """The summary in config.json, the same with every module in quantization_config.json, as the headers have it."""
    block = json.loads((made / "config.json").read_text())["quantization_config"]
    table = json.loads((made / "quantization_config.json").read_text())
    storage = table.pop("tensor_storage")
    assert table == block
    assert (block["quant_method"], block["codebook"], block["bits"]) == ("exl3", "mul1", 2.5)
    tensors = {name: one for file in made.glob("*.safetensors") for name, one in load_file(str(file)).items()}
    listed = {name: one for module in storage.values() for name, one in module["stored_tensors"].items()}
    assert set(listed) == set(tensors)
    for name, one in listed.items():
        assert (one["shape"], one["dtype"]) == (list(tensors[name].shape), str(tensors[name].dtype))
        assert one["n_bytes"] == tensors[name].numel() * tensors[name].element_size()
    assert block["calibration"] == {"rows": 2, "cols": 160}
    for module, one in storage.items():
        if ".experts." in module and "shared" not in module:
            layer, part = module.split(".")[1], "down" if module.endswith("w2") else "gate_up"
            assert one["bits_per_weight"] == block["expert_bits"][layer][part]
            assert one["mul1_multiplier"] == int(tensors[f"{module}.mul1"]) & 0xFFFFFFFF == 0x83DCD12D
            assert len(one["stored_tensors"]) == 4
    rates = [bits for one in block["expert_bits"].values() for part, bits in one.items() for _ in range(1 + (part == "gate_up"))]  # fmt: skip
    assert sum(rates) / len(rates) == 2.5


def test_the_decoder_reads_sorted_neurons_back(owned, made):
    """Every matrix is the original with its neurons in the plan's order, as far off as the report says."""
    before, after = source.opened(owned / "checkpoint"), checkpoint.opened(made)
    plan = plan_file.read(owned / "plan128", before.hashes())
    report = json.loads((made / conversion.REPORT).read_text())
    for layer in after.layers:
        off = {"gate_up": [], "down": []}
        for expert in range(SHAPE.n_routed_experts):
            order = torch.from_numpy(plan.tables[f"perm.L{layer}"][expert].astype(np.int64))
            assert not torch.equal(order, order.sort().values)
            one = before.expert(layer, expert)
            gate_up = torch.cat((one.gate[order], one.up[order])).T.double()
            found = torch.cat([after.matrix(layer, expert, part).dense() for part in ("gate", "up")], dim=1)
            off["gate_up"].append(float((found - gate_up).norm() / gate_up.norm()))
            wanted = one.down[:, order].T.double()
            off["down"].append(
                float((after.matrix(layer, expert, "down").dense() - wanted).norm() / wanted.norm())
            )
        for part, each in off.items():
            assert sum(each) / len(each) == pytest.approx(report["layers"][layer]["error"][part], rel=1e-3)
            assert max(each) < 0.5
            assert 0 < report["layers"][layer]["proxy"][part] < sum(each) / len(each)


def test_show_tells_what_is_there(made, capsys):
    """Bits, bytes of ranks that add up to the files', and the energy that the plan keeps, 100 % at full depth."""
    code, out, _ = said(capsys, "exl3", "show", made, "--widths", "256", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["bits"]["trellis"] == 2.5
    tensors = {name: one for file in made.glob("experts-*") for name, one in load_file(str(file)).items()}
    assert sum(one["bytes"] for one in document["ranks"]) == sum(one.numel() * one.element_size() for one in tensors.values())  # fmt: skip
    for one in document["layers"]:
        assert len(one["kept"]) == 2
        assert 0.5 < one["kept"][0] < one["kept"][1] == pytest.approx(1)
    code, table, _ = said(capsys, "exl3", "show", made)
    assert code == 0
    assert "100.0" in table
    assert "rank 0: 256 neurons" in table
    assert said(capsys, "exl3", "show", made, "--ranks", "2", "--widths", "128,128")[0] == 0


def test_a_run_that_breaks_off_goes_on(owned, plain, tmp_path):
    """Killed after a layer there is nothing under the name; begun again it ends byte for byte as if it had not been; another wish is refused."""
    opened = source.opened(owned / "checkpoint")

    def conversion_of(bits, tell):
        wanted = conversion.Wanted(bits=bits, rates=(int(bits),), together=1)
        return conversion.Conversion(checkpoint=opened, recording=None, plan=None, wanted=wanted, out=tmp_path / "out", tell=tell)  # fmt: skip

    def killed(text):
        if text.startswith("layer 0"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        conversion_of(4, killed).run()
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.rglob("config.json"))
    with pytest.raises(Refusal, match="another checkpoint, recording, plan or wish"):
        conversion_of(3, print).run()
    done = tmp_path / "out.part" / "work" / "layer-000.json"
    stamp = done.stat().st_mtime_ns
    begun = []
    conversion_of(4, lambda text: begun.append((text, done.stat().st_mtime_ns))).run()
    assert [text[:7] for text, _ in begun] == ["layer 1"]
    assert begun[0][1] == stamp
    for file in plain.rglob("*"):
        if file.is_file() and file.suffix == ".safetensors":
            assert file.read_bytes() == (tmp_path / "out" / file.relative_to(plain)).read_bytes()


def test_some_experts_at_once_are_each_alone(owned, plain, tmp_path):
    """How many are coded together changes nothing."""
    wanted = conversion.Wanted(bits=4, rates=(4,), together=8)
    conversion.Conversion(
        checkpoint=source.opened(owned / "checkpoint"), recording=None, plan=None, wanted=wanted, out=tmp_path / "out", tell=print,
    ).run()  # fmt: skip
    for layer in (0, 1):
        file = f"experts-{layer}.safetensors"
        assert (plain / file).read_bytes() == (tmp_path / "out" / file).read_bytes()


def test_an_index_names_the_new_tensors(owned, tmp_path):
    """model.safetensors.index.json is written anew; a native quantisation block is kept inside ours."""
    folder = tmp_path / "indexed"
    folder.mkdir()
    for file in (owned / "checkpoint").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    names = {name: file.name for file in folder.glob("*.safetensors") for name in shards.entries(file)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))
    config = json.loads((folder / "config.json").read_text()) | {
        "quantization_config": {"quant_method": "fp8"}
    }
    (folder / "config.json").write_text(json.dumps(config))
    assert main(["exl3", "quantize", str(folder), str(tmp_path / "out"), "--bits", "4"]) == 0
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    found = {name: file.name for file in (tmp_path / "out").glob("*.safetensors") for name in shards.entries(file)}  # fmt: skip
    assert index["weight_map"] == found
    block = json.loads((tmp_path / "out" / "config.json").read_text())["quantization_config"]
    assert block["original_quantization_config"] == {"quant_method": "fp8"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("quantize", "CHECKPOINT", "OUT", "--bits", "3.5"), "3.5 without --recording, allowed: a whole number"),
        (("quantize", "CHECKPOINT", "OUT", "--bits", "3", "--rates", "1,3"), "--rates: [1, 3], allowed: of [2, 3, 4]"),
        (("quantize", "CHECKPOINT", "OUT", "--bits", "5", "--rates", "3,4"), "--bits: 5.0, allowed: 3 to 4"),
        (("quantize", "CHECKPOINT", "PLAIN", "--bits", "3"), "is there already"),
        (("quantize", "PLAIN", "OUT", "--bits", "3"), "EXL3 already, allowed: bf16 or MXFP4"),
        (("quantize", "CHECKPOINT", "OUT", "--bits", "3", "--plan", "PLAN64"), "$.tile: 64, allowed: a multiple of 128"),
        (("quantize", "NARROW", "OUT", "--bits", "3"), "neurons of an expert: 192, allowed: a multiple of 128"),
        (("quantize", "nowhere", "OUT", "--bits", "3"), "config.json: no such file"),
        (("quantize", "CHECKPOINT", "OUT", "--bits", "3", "--together", "0"), "--together, --sample: (0, 4)"),
        (("quantize", "CHECKPOINT", "OUT", "--bits", "3", "--factors", "1"), "--factors: [1.0], allowed: one for each of 2 layers"),
        (("show", "CHECKPOINT"), "no routed experts in EXL3"),
        (("show", "PLAIN", "--plan", "PLAN128"), "neurons not sorted yet, allowed: the plan that the quantiser wrote"),
        (("show", "PLAIN", "--ranks", "4"), "ranks: 4, allowed: at most 2"),
        (("show", "PLAIN", "--widths", "64,192"), "--widths: [64, 192], allowed: multiples of 128"),
    ],
)  # fmt: skip
def test_wrong_use_is_told(owned, plain, tmp_path, capsys, words, says):  # noqa: PLR0913, PLR0917 - fixtures and cases
    """Exit code 2, nothing on stdout, what was found and what is allowed on stderr; nothing is written."""
    mini_moe.saved(mini.model(), tmp_path / "narrow", {})
    places = {
        "CHECKPOINT": owned / "checkpoint", "PLAIN": plain, "OUT": tmp_path / "out", "NARROW": tmp_path / "narrow",
        "PLAN64": owned / "plan64", "PLAN128": owned / "plan128",
    }  # fmt: skip
    code, out, err = said(capsys, "exl3", *(places.get(word, word) for word in words))
    assert (code, out) == (2, "")
    assert says in err
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda one: one | {"trellis": torch.zeros(8, 16, 56, dtype=torch.int16)}, "the half rate 3.5, allowed: whole rates"),
        (lambda one: one | {"trellis": torch.zeros(8, 16, 30, dtype=torch.int16)}, "words of a tile: 30"),
        (lambda one: one | {"trellis": one["trellis"][0].clone()}, "rank 2, allowed: rank 3; rank 2 is a table"),
        (lambda one: one | {"mul1": torch.tensor(0x1234567, dtype=torch.int32)}, "mul1 marker: 0x1234567, allowed: 0x83dcd12d"),
        (lambda one: one | {"trellis": one["trellis"][:, :12].clone()}, "multiples of 128"),
        (lambda one: {kind: held for kind, held in one.items() if kind != "trellis"}, "no trellis"),
        (lambda one: one | {"trellis": one["trellis"][:, :8].clone()}, "down turned round"),
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_refused_by_name(plain, tmp_path, capsys, change, says):
    """Other rates, ranks, multipliers and widths in one matrix: exit code 2 with what would work."""
    for file in plain.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    path, module = tmp_path / "experts-1.safetensors", "layers.1.ffn.experts.0.w1"
    held = load_file(str(path))
    mine = {name.rsplit(".", 1)[1]: one for name, one in held.items() if name.startswith(f"{module}.")}
    rest = {name: one for name, one in held.items() if not name.startswith(f"{module}.")}
    save_file(rest | {f"{module}.{kind}": one for kind, one in change(mine).items()}, str(path))
    code, out, err = said(capsys, "exl3", "show", tmp_path)
    assert (code, out) == (2, "")
    assert says in err
    assert "layer 1, expert 0" in err or module in err or "words" in err or "marker" in err


def test_a_recording_of_another_model_is_told(owned, tmp_path, capsys):
    """Another hidden size, and other layers."""
    model = mini.model()
    recorded(model, model, [mini.talks()], tmp_path / "narrow", gradients=False)
    words = ("exl3", "quantize", owned / "checkpoint", tmp_path / "out", "--bits", "2", "--recording")
    code, out, err = said(capsys, *words, tmp_path / "narrow")
    assert (code, out) == (2, "")
    assert "hidden size 32, picks up to" in err
    head = json.loads((tmp_path / "narrow" / "recording.json").read_text())
    (tmp_path / "narrow" / "recording.json").write_text(json.dumps(head | {"layers": [0]}))
    code, _, err = said(capsys, *words, tmp_path / "narrow")
    assert code == 2
    assert "lacks layers [1], allowed: all of [0, 1]" in err


def test_files_that_are_no_json_are_told(owned, tmp_path, capsys):
    """The source's own table, and the work folder's head."""
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "quantization_config.json").write_text("{")
    code, _, err = said(capsys, "exl3", "quantize", tmp_path / "bad", tmp_path / "out", "--bits", "2")
    assert code == 2
    assert "quantization_config.json" in err
    (tmp_path / "out.part" / "work").mkdir(parents=True)
    (tmp_path / "out.part" / "work" / conversion.HEAD).write_text("{")
    code, _, err = said(capsys, "exl3", "quantize", owned / "checkpoint", tmp_path / "out", "--bits", "2")
    assert code == 2
    assert "a JSON document" in err


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_a_device_that_is_not_there_is_told(owned, tmp_path, capsys):
    """Not a traceback of the library."""
    words = ("exl3", "quantize", owned / "checkpoint", tmp_path / "out", "--bits", "2", "--device", "cuda")
    code, _, err = said(capsys, *words)
    assert code == 2
    assert "device: cuda, allowed: cpu" in err


def test_feedback_makes_up_for_what_was_missed():
    """Inputs that go together: with their Hessian the error of the output is a third of that without; with uncorrelated ones nothing changes."""
    chance = torch.Generator().manual_seed(0)
    weight = torch.randn(1, 128, 128, generator=chance)
    mixing = torch.randn(128, 128, generator=chance) * torch.logspace(0, -2, 128)[:, None]
    x = torch.randn(2000, 128, generator=chance) @ mixing
    seen = (x.T @ x / len(x))[None]
    told, alone = encoder.together(weight, 2, [1], seen)[0], encoder.together(weight, 2, [1])[0]
    off = [(x @ (one.matrix.dense().float() - weight[0])).square().sum() / (x @ weight[0]).square().sum() for one in (told, alone)]  # fmt: skip
    assert off[0] < off[1] / 3
    assert told.proxy == pytest.approx(float(off[0]), rel=1e-3)
    even = encoder.together(weight, 2, [1], torch.eye(128)[None])[0]
    assert torch.equal(even.matrix.trellis, alone.matrix.trellis)


def test_the_factor_is_that_of_the_hessian():
    """L D L' gives the damped Hessian again, with unit blocks of 16."""
    chance = torch.Generator().manual_seed(0)
    x = torch.randn(300, 64, generator=chance)
    seen = (x.T @ x / len(x))[None]
    lower = feedback.factor(seen)[0]
    damped = seen[0] + feedback.DAMPING * seen[0].diagonal().mean() * torch.eye(64)
    middle = torch.linalg.solve(lower, torch.linalg.solve(lower, damped).T)
    blocks = middle.unflatten(0, (4, 16)).unflatten(2, (4, 16))
    for row in range(4):
        assert torch.allclose(
            lower[16 * row : 16 * row + 16, 16 * row : 16 * row + 16], torch.eye(16), atol=1e-5
        )
        for column in range(4):
            assert row == column or blocks[row, :, column].abs().max() < 1e-4
    with pytest.raises(Refusal, match="all zero"):
        feedback.factor(torch.zeros(1, 16, 16))


def test_a_shard_is_a_safetensors_file(tmp_path):
    """What is put together reads with the library, numbers of every width aligned; what is cut short is refused."""
    held = {
        "a": torch.arange(3, dtype=torch.uint8),
        "b": torch.arange(4.0),
        "c": torch.arange(5, dtype=torch.int64),
    }
    held |= {"empty": torch.zeros(0, 7), "scalar": torch.tensor(7, dtype=torch.int32)}
    save_file(held, str(tmp_path / "one"))
    shards.written(tmp_path / "two.safetensors", shards.entries(tmp_path / "one"))
    again = load_file(str(tmp_path / "two.safetensors"))
    assert set(again) == set(held)
    assert all(torch.equal(again[name], one) for name, one in held.items())
    assert [one.name for one in tmp_path.iterdir() if one.suffix == ".writing"] == []
    for keep in (4, 60, -1):
        Path(tmp_path / "cut").write_bytes((tmp_path / "one").read_bytes()[:keep])
        with pytest.raises(Refusal, match="copy it again"):
            shards.entries(tmp_path / "cut")
