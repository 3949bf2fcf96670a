"""Recording and surveying: hooks against the model's own arithmetic, the Fisher information, and runs that were killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")

from torch import nn

import mini_moe
from sparkctl_vllm.calibration import checkpoint, moments, recording, survey, taps
from sparkctl_vllm.calibration.record import recorded
from sparkctl_vllm.refusal import Refusal

from . import mini

HERE = Path(__file__).parent


def files_of(folder):
    """Name to bytes of every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class Plain(nn.Module):
    """A mixture that calls each expert by itself, as transformers did before 5.0."""

    def __init__(self):
        super().__init__()
        block = nn.Module()
        block.experts = nn.ModuleList(
            nn.ModuleDict({"up_proj": nn.Linear(4, 6), "down_proj": nn.Linear(6, 4)}) for _ in range(3)
        )
        self.layers = nn.ModuleList([nn.Module()])
        self.layers[0].mlp = block

    def forward(self, x, picks):
        """Return the sum of the picked experts' outputs, one pick a row."""
        out = torch.zeros_like(x)
        for expert, one in enumerate(self.layers[0].mlp.experts):
            mine = picks == expert
            out[mine] = one["down_proj"](torch.relu(one["up_proj"](x[mine])))
        return out


def test_hooks_catch_what_each_expert_computes():
    """Counts and squares at the down projections are those of the rows that were sent there."""
    torch.manual_seed(0)
    model, x, picks = Plain(), torch.randn(20, 4), torch.arange(20) % 3
    with taps.tapped_down(model) as caught:
        model(x, picks)
        model(x[:5], picks[:5])
    for expert, one in enumerate(model.layers[0].mlp.experts):
        rows = torch.cat((x[picks == expert], x[:5][picks[:5] == expert]))
        h = torch.relu(one["up_proj"](rows)).detach().double()
        assert caught.count[0, expert] == len(rows)
        assert torch.allclose(caught.square[0, expert], h.square().sum(0))
    assert not any(one["down_proj"]._forward_pre_hooks for one in model.layers[0].mlp.experts)


def test_what_is_no_mixture_is_refused():
    """No module fits, or a call that is not that of experts."""
    with pytest.raises(Refusal, match="experts modules: none"), taps.tapped(nn.Linear(2, 2)):
        pass
    with pytest.raises(Refusal, match="down projections: none"), taps.tapped_down(nn.Linear(2, 2)):
        pass
    model = Plain()
    with (
        taps.tapped(model, r"layers\.(0)\.mlp\.experts\.0\.up_proj$"),
        pytest.raises(Refusal, match="picks: 0"),
    ):
        model(torch.randn(3, 4), torch.zeros(3, dtype=torch.int64))


def test_only_replies_are_recorded(tmp_path):
    """Prompt positions leave no token, no gradient and no conversation mark."""
    model, talks = mini.model(), mini.talks(rows=3)
    held = recorded(model, model, [talks[:2], talks[2:]], tmp_path, prompt=5)
    routed = held.routed(1)
    assert routed.x.shape == (3 * 7, 32)
    with taps.tapped(model) as caught:
        model(talks)
    wanted = caught.routed[1].x.view(3, 12, 32)[:, 5:].flatten(0, 1)
    assert torch.equal(routed.x, wanted)
    assert held.routing().conversation.tolist() == sorted([0, 1, 2] * 7)


def test_sampled_labels_estimate_the_fisher_information(tmp_path):
    """The mean of g^2 over draws is, channel by channel, the sum over labels of p times g^2, which a tiny model lets us compute whole."""
    shape = mini_moe.Shape(
        vocab_size=5, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, moe_intermediate_size=64,
        n_routed_experts=3, num_experts_per_tok=2,
    )  # fmt: skip
    model, talk = mini.model(shape=shape), torch.tensor([[1, 2, 3, 4]])
    exact = torch.zeros(32, dtype=torch.float64)
    for place in range(1, 4):
        for label in range(5):
            with taps.tapped(model) as caught:
                logs = model(talk).log_softmax(-1)[0, place, label]
                gradient = caught.gradients(logs)[0][1:].double()
            exact += float(logs.detach().exp()) * gradient.square().sum(0)
    draws = [
        recorded(model, model, [talk.repeat(64, 1)], tmp_path / str(seed), prompt=1, seed=seed)
        .routed(0)
        .fisher
        for seed in range(6)
    ]
    assert np.mean(draws, axis=0) == pytest.approx(exact.numpy() / 3, rel=0.25)
    assert np.mean(draws) == pytest.approx(float(exact.mean()) / 3, rel=0.05)


def test_a_recording_that_broke_off_ends_the_same(tmp_path):
    """Stopped in the third batch, with half a file left, then run again: byte for byte the undisturbed one; no batch is run twice."""
    model, text = mini.model(), list(mini.talks(rows=10).split(2))
    recorded(model, model, text, tmp_path / "whole", prompt=3)
    calls = []

    def failing(tokens):
        calls.append(len(tokens))
        if len(calls) == 4:  # the first call only looks for the layers
            raise KeyboardInterrupt
        return model(tokens)

    with pytest.raises(KeyboardInterrupt):
        recorded(model, failing, text, tmp_path / "broken", prompt=3)
    (tmp_path / "broken" / "batch-00002.part").write_bytes(b"half")
    with pytest.raises(Refusal, match="3 of 5 batches are not recorded"):
        recording.opened(tmp_path / "broken").routed(0)
    before = files_of(tmp_path / "broken")["batch-00000.safetensors"]
    calls.clear()
    recorded(model, lambda tokens: calls.append(1) or model(tokens), text, tmp_path / "broken", prompt=3)
    assert len(calls) == 1 + 3
    assert files_of(tmp_path / "broken")["batch-00000.safetensors"] == before
    assert files_of(tmp_path / "broken") == files_of(tmp_path / "whole")


def test_another_text_is_not_mixed_in(tmp_path):
    """The folder belongs to its text, seed and layers."""
    model = mini.model()
    recorded(model, model, [mini.talks()], tmp_path)
    with pytest.raises(Refusal, match="another recording lies there"):
        recorded(model, model, [mini.talks(seed=2)], tmp_path)
    with pytest.raises(Refusal, match="another recording lies there"):
        recorded(model, model, [mini.talks()], tmp_path, seed=1)


KILLED = """
import os, signal, sys
from pathlib import Path
from sparkctl_vllm.calibration import checkpoint, recording, survey

files, held = checkpoint.opened(Path(sys.argv[1])), recording.opened(Path(sys.argv[2]))
for layer, _ in survey.surveyed(files, held, files.layers, Path(sys.argv[3])):
    if layer == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_survey_that_was_killed_ends_the_same(tmp_path):
    """Killed by signal 9 after the first layer, then run again: byte for byte the undisturbed one, and the first layer is not measured again."""
    model = mini.model()
    mini_moe.saved(model, tmp_path / "checkpoint", {})
    held = recorded(model, model, [mini.talks()], tmp_path / "recording")
    files = checkpoint.opened(tmp_path / "checkpoint")
    whole = dict(survey.surveyed(files, held, files.layers, tmp_path / "whole"))
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            KILLED,
            *(str(tmp_path / name) for name in ("checkpoint", "recording", "broken")),
            "0",
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert set(files_of(tmp_path / "broken")) == {"survey.json", "moments-000.safetensors"}
    stamp = (tmp_path / "broken" / "moments-000.safetensors").stat().st_mtime_ns
    again = dict(survey.surveyed(files, held, files.layers, tmp_path / "broken"))
    assert (tmp_path / "broken" / "moments-000.safetensors").stat().st_mtime_ns == stamp
    assert files_of(tmp_path / "broken") == files_of(tmp_path / "whole")
    for layer, one in whole.items():
        assert all(np.array_equal(table, again[layer].tables()[name]) for name, table in one.tables().items())


def test_a_survey_of_another_checkpoint_is_refused(tmp_path):
    """The work folder belongs to one checkpoint and one recording."""
    model = mini.model()
    held = recorded(model, model, [mini.talks()], tmp_path / "recording")
    for name, seed in (("one", 0), ("other", 5)):
        mini_moe.saved(mini.model(seed), tmp_path / name, {})
    one, other = (checkpoint.opened(tmp_path / name) for name in ("one", "other"))
    list(survey.surveyed(one, held, one.layers, tmp_path / "work"))
    with pytest.raises(Refusal, match="made from another checkpoint or recording"):
        list(survey.surveyed(other, held, other.layers, tmp_path / "work"))
    (tmp_path / "work" / "moments-001.safetensors").write_bytes(b"cut short")
    with pytest.raises(Refusal, match="delete it and run again"):
        list(survey.surveyed(one, held, one.layers, tmp_path / "work"))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda folder: (folder / "config.json").unlink(), "config.json: no such file"),
        (lambda folder: (folder / "config.json").write_text("{"), "a JSON document"),
        (lambda folder: (folder / "experts-1.safetensors").write_bytes(b"\0" * 20), "a safetensors file"),
        (lambda folder: [one.unlink() for one in folder.glob("experts-*")], "no routed experts"),
        (lambda folder: [one.unlink() for one in folder.glob("*.safetensors")], "no safetensors file"),
    ],
)
def test_a_spoilt_checkpoint_is_refused(tmp_path, spoil, says):
    """Each with the file and what is allowed."""
    mini_moe.saved(mini.model(), tmp_path, {})
    spoil(tmp_path)
    with pytest.raises(Refusal, match=says):
        checkpoint.opened(tmp_path)


def test_one_layer_is_in_memory_at_a_time(tmp_path):
    """A survey of eight layers holds no more than it says, and far less than the experts."""
    shape = mini_moe.Shape(
        vocab_size=24, hidden_size=256, num_hidden_layers=8, num_attention_heads=2, moe_intermediate_size=512,
        n_routed_experts=12, num_experts_per_tok=2,
    )  # fmt: skip
    model = mini.model(shape=shape)
    mini_moe.saved(model, tmp_path / "checkpoint", {})
    held = recorded(
        model, model, list(mini.talks(rows=8, positions=64).split(4)), tmp_path / "recording", gradients=False
    )
    files = checkpoint.opened(tmp_path / "checkpoint")
    stated = max(moments.needed_bytes(files, layer, held.header.tokens) for layer in files.layers)
    whole = 8 * 12 * 3 * 512 * 256 * 4
    del model
    most = _grown(tmp_path)
    assert most <= stated
    assert stated < whole / 2


GROWN = """
import sys
from pathlib import Path
import torch
from sparkctl_vllm.calibration import checkpoint, moments, recording, survey

def held():
    # Anonymous memory: files that are mapped are the kernel's to drop.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))

files, kept = checkpoint.opened(Path(sys.argv[1])), recording.opened(Path(sys.argv[2]))
survey._layer(files, kept, 0)  # libraries load what they need
before, most, read = held(), 0, checkpoint.Expert.hidden

def hidden(self, x):
    global most
    answer = read(self, x)
    most = max(most, held() - before)
    return answer

checkpoint.Expert.hidden = hidden
for _ in survey.surveyed(files, kept, files.layers, Path(sys.argv[3])):
    most = max(most, held() - before)
print(most)
"""


def _grown(folder):
    done = subprocess.run(
        [sys.executable, "-c", GROWN, *(str(folder / name) for name in ("checkpoint", "recording", "work"))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)
