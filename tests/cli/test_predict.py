"""`sparkctl predict`: what it says, in how little room and time, and what it refuses."""

import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bootcheck.floors import Floors
from launcher.needs import needs
from sparkctl import cli, content, inventory
from sparkctl.cli import memory_table
from sparkctl.cli.served import read_recipe

from ..program import Ended

Called = Callable[..., Ended]

TP4 = ("--recipe", "v41-flash-exl3-tp4")


@pytest.fixture
def predict(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Called:
    """The verb in this process, as on a terminal of eighty columns and with an empty state folder."""
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments: str) -> Ended:
        code = cli.run(["predict", *arguments, "--state", str(tmp_path / "state")])
        said = capsys.readouterr()
        return Ended(code, said.out, said.err)

    return call


@pytest.mark.parametrize(
    "call",
    [
        ("kv", *TP4),
        ("kv", "--recipe", "v41-flash-mxfp4-tp4"),
        ("kv", "--recipe", "any-model", "--model", "deepseek-v3", "--set", "memory.kv_cache_gib=40"),
        ("memory", *TP4),
        ("memory", "--recipe", "v41-flash-mxfp4-tp8"),
        ("step", *TP4),
        ("experts", *TP4),
        (
            "experts",
            "--model",
            "deepseek-v41-flash-mxfp4",
            "--hardware",
            "gb200",
            "--ep",
            "64",
            "--draws",
            "1",
        ),
        ("experts", "--model", "kimi-k3", "--hardware", "b300"),
    ],
    ids=lambda call: " ".join(call[:3]),
)
def test_output_says_predicted_and_fits_eighty_columns(predict: Called, call: tuple[str, ...]) -> None:
    """Every verb says first that nothing was measured; no line is longer than eighty columns, and none was cut."""
    ended = predict(*call)
    assert ended.code == 0, ended.err
    assert "predicted" in ended.out.splitlines()[0]
    assert [line for line in ended.out.splitlines() if len(line.rstrip()) > 80] == []
    assert "…" not in ended.out
    assert predict(*call, "--json").document["predicted"] is True


def test_kv_of_the_shipped_recipe_is_what_its_boot_logged(predict: Called) -> None:
    """2,561,073 tokens at 300,000 and, with that set, 3,411,140 at 1,000,000: `GPU KV cache size` of two boots."""
    assert "  tokens    2,561,073 at 300,000 a request\n" in predict("kv", *TP4).out
    longer = predict("kv", *TP4, "--set", "args.max-model-len=1000000", "--json").document
    assert longer["pools"][0]["tokens"] == 3411140


def test_kv_loads_nothing_heavy() -> None:
    """It answers within half a second since nothing of the nodes, the bench or the plots is loaded."""
    code = (
        "import sys; from sparkctl.cli import run; run(['predict', 'kv', '--recipe', 'v41-flash-exl3-tp4', '-q']); "
        "print(*sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "scipy", "matplotlib", "httpx", "aiohttp", "asyncssh", "fabric", "ansible_runner"}
    assert heavy & {name.split(".")[0] for name in ran.stderr.split()} == set()


def test_memory_names_the_rank_that_binds(predict: Called) -> None:
    """Ranks 1 and 2 hold the wide slices; the table shows both kinds once, padding on a line of its own."""
    shown = predict("memory", *TP4).out
    assert "ranks 0,3  ranks 1,2" in shown
    assert "weights 56.5 and 68.8 GiB; rank 1 binds" in shown
    assert "their padding" in predict("memory", "--recipe", "v41-flash-mxfp4-tp4").out


@pytest.mark.parametrize(
    ("call", "code", "said"),
    [
        (("kv",), 2, "no recipe was named"),
        (("kv", "--recipe", "any-model"), 2, "no model in recipes/models has that folder"),
        (("kv", *TP4, "--config", "nowhere.json"), 2, "nowhere.json: there is no such file"),
        (
            ("kv", *TP4, "--hardware", "gb11", "--set", "memory.kv_cache_gib=null"),
            2,
            "hardware 'gb11' is not one",
        ),
        (("kv", *TP4, "--set", "memory.kv_cache_gib=0.5"), 1, "--set memory.kv_cache_gib=1.41"),
        (("kv", *TP4, "--set", "args.max-model-len=2000000"), 1, "positions for 1,048,576"),
        (("kv", *TP4, "--set", "parallel.pipeline=2"), 3, "not modelled"),
        (("memory", *TP4, "--set", "memory.kv_cache_gib=60"), 1, "does not fit, not even at the low end"),
        (("memory", *TP4, "--set", "memory.kv_cache_gib=30"), 4, "may fit"),
        (
            ("memory", "--recipe", "v41-flash-mxfp4-tp4", "--set", "parallel.tensor=5"),
            1,
            "one of 1, 2, 3, 4, 6",
        ),
        (("step", *TP4, "--measured-ms", "10"), 2, "less than the"),
        (("experts", "--model", "mixtral-8x7b", "--slots", "3"), 2, "wanted at least the 8 experts"),
        (("experts", "--model", "mixtral-8x7b", "--ep", "64"), 1, "--ep 8 at most"),
        (("experts", *TP4, "--plot", "x.pdf"), 2, "ends in .png or .svg"),
    ],
    ids=lambda value: " ".join(value[:4]) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_is_said_with_the_way_out(
    predict: Called, call: tuple[str, ...], code: int, said: str
) -> None:
    """2 for what is written wrongly, 1 for what cannot fit, 3 for what is not modelled, 4 for perhaps; with a remedy."""
    ended = predict(*call)
    assert ended.code == code
    assert said in ended.out + ended.err
    assert "Traceback" not in ended.err


def test_a_config_without_its_keys_names_them(predict: Called, tmp_path: Path) -> None:
    """All missing keys of a config.json at once, each with its place."""
    path = tmp_path / "config.json"
    path.write_text('{"num_hidden_layers": 80, "hidden_size": 8192}', encoding="utf-8")
    ended = predict("kv", *TP4, "--config", str(path))
    assert ended.code == 2
    assert "$.num_attention_heads: the key is missing" in ended.err
    assert "$.max_position_embeddings: the key is missing" in ended.err


def test_a_real_config_is_read(predict: Called, tmp_path: Path) -> None:
    """Llama 3 70B's shapes: 81,920 bytes a token at TP4, so a pin of 20 GiB holds two requests of 131,072."""
    path = tmp_path / "config.json"
    config = {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "hidden_size": 8192,
        "max_position_embeddings": 131072,
    }
    path.write_text(json.dumps(config), encoding="utf-8")
    call = (
        "--set",
        "parallel.tensor=4",
        "--set",
        "args.max-model-len=131072",
        "--set",
        "memory.kv_cache_gib=20",
    )
    ended = predict("kv", "--recipe", "any-model", "--config", str(path), *call, "--json")
    assert ended.code == 0, ended.err
    assert ended.document["pools"][0]["requests"] == 2.0


def _safetensors(path: Path, tensors: dict[str, Any]) -> None:
    header = json.dumps(tensors).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)


def test_weights_are_read_from_headers_alone(predict: Called, tmp_path: Path) -> None:
    """A header without its data is enough: 8 GiB of a projection are cut over two ranks, 1 GiB of a norm is not."""
    gib = 1024**3
    _safetensors(
        tmp_path / "model-00001-of-00001.safetensors",
        {
            "__metadata__": {"format": "pt"},
            "model.layers.0.self_attn.q_proj.weight": {
                "dtype": "BF16",
                "shape": [1],
                "data_offsets": [0, 8 * gib],
            },
            "model.norm.weight": {"dtype": "BF16", "shape": [1], "data_offsets": [8 * gib, 9 * gib]},
        },
    )
    config = tmp_path / "config.json"
    keys = ("num_hidden_layers", "num_attention_heads", "hidden_size")
    config.write_text(
        json.dumps({**dict.fromkeys(keys, 64), "max_position_embeddings": 32768}), encoding="utf-8"
    )
    call = ("--recipe", "any-model", "--config", str(config), "--weights", str(tmp_path), "--json")
    ended = predict("memory", *call)
    assert ended.code == 0, ended.err
    assert ended.document["weights_gib"] == [5.0, 5.0]


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 100, struct.pack("<Q", 2) + b"[]", struct.pack("<Q", 10**9)]
)
def test_what_is_no_safetensors_file_is_a_fault_of_the_file(
    predict: Called, tmp_path: Path, content: bytes
) -> None:
    """An empty, a broken and a cut file are named, never loaded."""
    (tmp_path / "model.safetensors").write_bytes(content)
    ended = predict("memory", *TP4, "--weights", str(tmp_path))
    assert ended.code == 2
    assert "model.safetensors: not a safetensors file" in ended.err


@pytest.mark.parametrize(("name", "begins"), [("roof.png", b"\x89PNG"), ("roof.svg", b"<?xml")])
def test_the_roofline_is_drawn(predict: Called, tmp_path: Path, name: str, begins: bytes) -> None:
    """PNG and SVG by the ending; the same call gives the same bytes."""
    path = tmp_path / name
    drawn = []
    for _ in range(2):
        ended = predict("experts", *TP4, "--plot", str(path))
        assert ended.code == 0, ended.err
        drawn.append(path.read_bytes())
    assert drawn[0].startswith(begins)
    assert drawn[0] == drawn[1]


def test_a_reported_step_of_six_sessions_lies_in_the_span(predict: Called) -> None:
    """107 ms at six sessions (6 x 3.57 accepted / 199.7 tok/s, reported) was not fitted to, and lies between low and high."""
    found = predict("step", *TP4, "--sessions", "6", "--json").document
    low, high = found["steps"]["stream"][0]["experts_ms"]
    assert low + found["static_ms"] < 107 < high + found["static_ms"]


def test_the_rest_of_a_step_is_that_of_the_reported_line(predict: Called) -> None:
    """It was fitted where every rank reads a slice: whole experts leave it as it is, another number of ranks has none."""
    whole = predict("step", *TP4, "--set", "args.enable-expert-parallel=true", "--json").document
    assert whole["expert_parallel"] is True
    assert whole["static_ms"] == predict("step", *TP4, "--json").document["static_ms"]
    assert predict("step", "--recipe", "v41-flash-exl3-tp3", "--json").document["static_ms"] is None


def test_half_depth_reads_half(predict: Called) -> None:
    """A budget read of half the neurons halves the bytes; the fitted rest stays that of full reads."""
    whole, half = (
        predict("step", *TP4, "--sessions", "1", "--depth", depth, "--json").document
        for depth in ("1", "0.5")
    )
    assert half["steps"]["stream"][0]["bytes"][1] == pytest.approx(
        whole["steps"]["stream"][0]["bytes"][1] / 2
    )
    assert half["static_ms"] == whole["static_ms"]


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Called:
    """`boot --plan` on the example inventory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPARKCTL_INVENTORY", raising=False)
    example = Path(__file__).parents[2] / "inventory.example.yml"
    (tmp_path / "inventory.yml").write_text(example.read_text(encoding="utf-8"), encoding="utf-8")

    def call(*arguments: str) -> Ended:
        code = cli.run(["boot", "--plan", *arguments])
        said = capsys.readouterr()
        return Ended(code, said.out, said.err)

    return call


def test_a_plan_shows_what_every_rank_will_hold(plan: Called) -> None:
    """The memory table stands below the steps, and in the document."""
    shown = plan()
    assert shown.code == 0, shown.err
    assert "memory: what every rank will hold, predicted" in shown.out
    assert "rank 1 binds" in shown.out
    memory = plan("--json").document["memory"]
    assert (memory["binding_rank"], memory["fits"]) == (1, "yes")


def test_a_boot_is_planned_whatever_the_arithmetic_cannot_follow(plan: Called) -> None:
    """A length in words that vLLM reads and these models do not: no prediction, and no fault."""
    shown = plan("--set", "args.max-model-len=300k")
    assert shown.code == 0, shown.err
    assert "memory: not predicted" in shown.out
    assert plan("--set", "args.max-model-len=300k", "--json").document["memory"] is None


def test_the_gate_asks_each_node_for_what_its_rank_will_hold(plan: Called) -> None:
    """What a plan predicts is what the memory gate demands of each node: more of those with the wide ranks."""
    recipe, _ = read_recipe("v41-flash-exl3-tp4")
    assert plan().code == 0
    line = inventory.read(Path("inventory.yml")).line("A")
    memory = memory_table.foreseen(recipe, Floors())
    asked = needs(recipe, line, memory).memory_gib
    assert [round(asked[node.name]) for node in line.nodes] == [77, 90, 90, 77]
    assert needs(recipe, line).memory_gib == {}


def test_a_plan_of_a_climb_shows_what_is_predicted_of_each_lever(
    plan: Called, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lever that the models cover has its range, one of NCCL's says that it is not modelled."""
    assert plan().code == 0
    ladder = (Path(content.ladder("demo"))).read_text(encoding="utf-8")
    own = ladder.replace('{env.NCCL_NTHREADS: "256"}', "{args.max-num-batched-tokens: 4096}")
    (tmp_path / "own.yml").write_text(own, encoding="utf-8")
    assert cli.run(["tune", "--plan", "--ladder", "./own.yml", "--json"]) == 0
    predicted = json.loads(capsys.readouterr().out)["predicted"]
    assert predicted["nccl-channels"] == []
    (effect,) = predicted["nccl-threads"]
    assert (effect["metric"], effect["low"]) == ("kv_tokens", effect["high"])
    assert effect["low"] > 1
    assert cli.run(["tune", "--plan", "--ladder", "./own.yml"]) == 0
    assert "not modelled" in capsys.readouterr().out
