"""The command line: what each verb answers, its exit code, and how wrong input reads."""

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")

import mini_moe
from sparkctl_vllm import damage, plan_file, waterfill
from sparkctl_vllm.calibration import checkpoint, recording
from sparkctl_vllm.calibration.record import recorded
from sparkctl_vllm.cli import VERBS, main
from sparkctl_vllm.loads import squared

from . import mini


@pytest.fixture(scope="module")
def owned(tmp_path_factory):
    """A checkpoint with a recording, and one without gradients."""
    folder = tmp_path_factory.mktemp("owned")
    mini_moe.saved(mini.model(), folder / "checkpoint", {})
    model = mini_moe.loaded(folder / "checkpoint")
    text = list(mini.talks(rows=16, positions=24).split(8))
    recorded(model, model, text, folder / "recording", prompt=4)
    recorded(model, model, text, folder / "forward", prompt=4, gradients=False)
    return folder


def said(capsys, *words):
    """Exit code, stdout and stderr of a call."""
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def test_probe_answers_from_a_recording(owned, capsys):
    """One JSON document; the yes is that of the figure; the table tells the same."""
    code, out, err = said(capsys, "probe", owned / "checkpoint", "--recording", owned / "forward", "--json")
    document = json.loads(out)
    assert [one["layer"] for one in document["layers"]] == [0, 1]
    assert document["pays"] == (document["kept_at_half"] >= document["wanted"])
    assert code == (0 if document["pays"] else 1)
    assert "2 layers, one after the other" in err
    for one in document["layers"]:
        assert one["kept"]["neurons"]["0.5"] >= one["kept"]["groups of 32"]["0.5"]
    code_again, table, _ = said(capsys, "probe", owned / "checkpoint", "--recording", owned / "forward")
    assert code_again == code
    assert f"{100 * document['kept_at_half']:.1f} %" in table


def test_probe_without_text_is_inconclusive(owned, capsys):
    """Weights alone decide nothing: exit code 4 and what to do."""
    code, out, _ = said(capsys, "probe", owned / "checkpoint", "--layers", "1")
    assert code == 4
    assert "inconclusive" in out
    assert "hint: record" in out


def test_some_experts_are_a_sample_of_all(owned, capsys):
    """Every second expert: their own figures, half as many."""
    words = ("probe", owned / "checkpoint", "--recording", owned / "recording", "--json", "--layers", "0")
    _, out, _ = said(capsys, *words, "--experts", "3")
    one = json.loads(out)["layers"][0]
    assert one["experts"] == 3
    assert 0 < one["kept"]["natural"]["0.5"] < 1


def test_a_probe_resumed_is_the_same(owned, tmp_path, capsys):
    """Layers in the work folder are not measured again and answer alike."""
    words = ("probe", owned / "checkpoint", "--recording", owned / "recording", "--work", tmp_path, "--json")
    _, first, _ = said(capsys, *words)
    (tmp_path / "moments-001.safetensors").unlink()
    _, second, _ = said(capsys, *words)
    assert first == second


@pytest.mark.parametrize("slices", [("--ranks", "3"), ("--widths", "64,128"), ("--tile", "192")])
def test_a_plan_is_written_and_fits(owned, tmp_path, capsys, slices):
    """The plan file is read again for its checkpoint, holds eps at every size, and no other checkpoint takes it."""
    words = (
        "--recording",
        owned / "recording",
        "-o",
        tmp_path / "plan",
        "--rows",
        "8",
        "--steps",
        "16",
        "--eps",
        "0.002",
    )
    code, out, _ = said(capsys, "plan", owned / "checkpoint", *words, *slices, "--json")
    assert code == 0
    document = json.loads(out)
    hashes = checkpoint.opened(owned / "checkpoint").hashes()
    plan = plan_file.read(tmp_path / "plan", hashes)
    assert set(plan.meaning.predicted) == {"1", "2", "3", "4", "6", "8"} == set(document["prices"])
    assert all(one.estimate <= 0.002 for one in plan.meaning.predicted.values())
    assert all(one.low <= one.estimate <= one.high for one in plan.meaning.predicted.values())
    assert plan.price(0, 5) == min(plan.price(0, 4), plan.price(0, 6))
    assert plan.meaning.corpus_tokens == 16 * 20
    assert int(np.sum(plan.tables["count.L1"])) == 16 * 20 * 2
    with pytest.raises(plan_file.Refusal, match="allowed"):
        plan_file.read(tmp_path / "plan", {**hashes, "config.json": "other"})


def test_rare_experts_are_read_whole_at_every_price(owned, tmp_path, capsys):
    """With two conversations most experts are rare; no price of the plan cuts one, and the account of damages takes the table."""
    model = mini_moe.loaded(owned / "checkpoint")
    recorded(model, model, [mini.talks(rows=2, positions=12)], tmp_path / "recording", prompt=4)
    words = ("--recording", tmp_path / "recording", "-o", tmp_path / "plan", "--rows", "2", "--share", "0.34")
    assert said(capsys, "plan", owned / "checkpoint", *words, "--eps", "1000")[0] == 0
    plan = plan_file.read(tmp_path / "plan", checkpoint.opened(owned / "checkpoint").hashes())
    rare = plan.tables["count.L0"] < 8
    assert rare.any()
    weights = np.concatenate([recording_of(tmp_path, layer) for layer in (0, 1)])
    lightest = np.full(6, squared(weights).min(), dtype=np.int32)
    for rows in (1, 2):
        depths = waterfill.cleared(lightest, plan.importance(0, 0), plan.price(0, rows))
        assert (depths[rare] == 3).all()
    damage.tails(plan.importance(0, 0))


def recording_of(folder, layer):
    """The router weights that were recorded of a layer."""
    return recording.opened(folder / "recording").routed(layer).weights.numpy()


def test_a_plan_needs_gradients(owned, tmp_path, capsys):
    """Without them no damage is in nats."""
    code, _, err = said(
        capsys, "plan", owned / "checkpoint", "--recording", owned / "forward", "-o", tmp_path / "plan"
    )
    assert code == 2
    assert "without gradients" in err
    assert "hint:" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("probe", "nowhere"), "config.json: no such file"),
        (("probe", "CHECKPOINT", "--recording", "nowhere"), "recording.json: no such file"),
        (("probe", "CHECKPOINT", "--layers", "7"), "--layers: [7], allowed: some of [0, 1]"),
        (("probe", "CHECKPOINT", "--tile", "100"), "--tile: 100, allowed: a multiple of 64"),
        (("probe", "CHECKPOINT", "--widths", "64,64"), "add up to 192"),
        (("probe", "CHECKPOINT", "--ranks", "4"), "ranks: 4, allowed: 1 to 3"),
        (("probe", "CHECKPOINT", "--experts", "7"), "--experts: 7, allowed: 1 to 6"),
        (("plan", "CHECKPOINT", "--recording", "RECORDING", "-o", "PLAN"), "rows of a step: 24, allowed: at most 16"),
        (("plan", "CHECKPOINT", "--recording", "RECORDING", "-o", "PLAN", "--rows", "8", "--share", "2"), "share of the bytes: 2.0"),
        (("plan", "CHECKPOINT", "--recording", "RECORDING", "-o", "PLAN", "--rows", "8", "--eps", "0"), "eps: 0.0"),
        (("record", "nowhere", "--text", "t", "-o", "r", "--context", "600"), "--context: 600, allowed: 0 to 511"),
    ],
)  # fmt: skip
def test_wrong_use_is_told(owned, tmp_path, capsys, words, says):
    """Exit code 2, nothing on stdout, what was found and what is allowed on stderr."""
    places = {"CHECKPOINT": owned / "checkpoint", "RECORDING": owned / "recording", "PLAN": tmp_path / "plan"}
    code, out, err = said(capsys, *(places.get(word, word) for word in words))
    assert (code, out) == (2, "")
    assert says in err


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_a_device_that_is_not_there_is_told(owned, capsys):
    """Not a traceback of the library."""
    code, _, err = said(capsys, "probe", owned / "checkpoint", "--device", "cuda")
    assert code == 2
    assert "device: cuda, allowed: cpu" in err


@pytest.mark.parametrize("words", [(), ("unknown",), ("probe",), ("probe", "x", "--layers", "a")])
def test_wrong_words_are_usage(capsys, words):
    """Argparse's own answer, exit code 2."""
    with pytest.raises(SystemExit) as left:
        main(list(words))
    assert left.value.code == 2
    assert "usage: sparkctl-vllm" in capsys.readouterr().err


def test_every_verb_helps(capsys):
    """Each has options of its own and says what it answers."""
    for verb, told in VERBS.items():
        with pytest.raises(SystemExit) as left:
            main([verb, "--help"])
        assert left.value.code == 0
        assert told.split()[0] in capsys.readouterr().out


def test_a_model_of_transformers_is_recorded_and_probed(tmp_path, capsys):
    """Another architecture, with its own names and its own experts: Qwen3-MoE as transformers has it."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    torch.manual_seed(0)
    config = transformers.Qwen3MoeConfig(
        vocab_size=300, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, head_dim=32,
        intermediate_size=64, moe_intermediate_size=128, num_experts=8, num_experts_per_tok=2, max_position_embeddings=512,
    )  # fmt: skip
    transformers.Qwen3MoeForCausalLM(config).save_pretrained(tmp_path / "model")
    words = tokenizers.ByteLevelBPETokenizer()
    text = Path(__file__).read_text(encoding="utf-8")
    words.train_from_iterator([text], vocab_size=300, show_progress=False)
    transformers.PreTrainedTokenizerFast(tokenizer_object=words._tokenizer).save_pretrained(
        tmp_path / "model"
    )
    (tmp_path / "text").write_text(text, encoding="utf-8")
    capsys.readouterr()
    code, out, _ = said(
        capsys, "record", tmp_path / "model", "--text", tmp_path / "text", "-o", tmp_path / "recording",
        "--positions", "48", "--context", "16", "--conversations", "12", "--json",
    )  # fmt: skip
    assert code == 0
    assert json.loads(out)["tokens"] == 12 * 32
    code, out, _ = said(capsys, "probe", tmp_path / "model", "--recording", tmp_path / "recording", "--json")
    assert code in {0, 1}
    assert [one["experts"] for one in json.loads(out)["layers"]] == [8, 8]
    words = ("--recording", tmp_path / "recording", "--rows", "8", "--ranks", "2", "-o", tmp_path / "plan")
    assert said(capsys, "plan", tmp_path / "model", *words)[0] == 0
