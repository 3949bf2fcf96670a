"""What a user can get wrong without any node: one clear message with a place and a remedy, and exit 2 or 1."""

import json
from importlib import import_module
from pathlib import Path

import pytest

from sparkctl.cli import VERBS, Verb, build, run
from sparkctl.cli.boot_plan import SETTLE

ROOT = Path(__file__).parents[2]
EXAMPLE = (ROOT / "inventory.example.yml").read_text()
RECIPE = (ROOT / "recipes" / "v41-flash-exl3-tp4.yml").read_text()
BUNDLE = (Path(__file__).parent / "bundles" / "healthy.json").read_text()
LADDER = (ROOT / "recipes" / "ladders" / "demo.yml").read_text()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a good inventory in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPARKCTL_INVENTORY", raising=False)
    (tmp_path / "inventory.yml").write_text(EXAMPLE)
    (tmp_path / "cut.json").write_text(BUNDLE[: len(BUNDLE) // 2])
    (tmp_path / "later.json").write_text(BUNDLE.replace('"schema": 1', '"schema": 2', 1))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["chekc"], 2, "No such command 'chekc'"),
        (["check", "--lien", "A"], 2, "No such option: --lien"),
        (["check", "-i", "nowhere.yml"], 2, "nowhere.yml: there is no such file"),
        (["check", "--line", "B"], 2, "line 'B' is not in inventory.yml, which has: A"),
        (["check", "--scenario", "healthy"], 2, "add --rehearsal"),
        (["check", "--list-probes", "--quick"], 2, "--list-probes is given with --quick; it asks no node"),
        (["check", "--replay", "b.json", "--line", "A"], 2, "a bundle brings its own line"),
        (["check", "--replay", "cut.json"], 2, "wanted a whole bundle as sparkctl bundle writes it"),
        (["check", "--replay", "later.json"], 2, "one of a newer sparkctl wants that sparkctl"),
        (["boot", "--plan", "--resume"], 2, "a plan touches none"),
        (["recipes", "show", "v42"], 2, "recipe 'v42' is not one that ships with sparkctl"),
        (["recipes", "check", "v41-flash-mxfp4-tp8", "--line", "A"], 1, "wants 8 nodes"),
        (["recipes", "import", "nowhere.yml"], 2, "nowhere.yml: there is no such file"),
        (["boot", "--plan", "--recipe", "v42"], 2, "recipe 'v42' is not one that ships with sparkctl"),
        (["boot", "--plan", "--set", "memory.utilisation"], 2, "wanted KEY=VALUE"),
        (["boot", "--plan", "--set", "args.max-model-length=8"], 2, "did you mean max-model-len?"),
        (["boot", "--plan", "--set", "args.max-model-len=abc"], 2, "wanted a whole number, one such as 256k"),
        (["boot", "--plan", "--set", "memory.utilisation=high"], 2, "wanted float, found 'high'"),
        (
            ["boot", "--plan", "--set", "parallel.tensor=2"],
            1,
            "wants 2 nodes (tensor 2 x pipeline 1); line A has 4",
        ),
        (["tune", "--plan", "--ladder", "ladder.yml"], 2, "ladder.yml: there is no such file"),
        (["tune", "--plan", "--budget", "12"], 2, "'12' is no span of time, wanted one such as 12h or 90m"),
        (["tune", "--plan", "--budget", "3h", "--boots", "9"], 2, "both say when to stop"),
        (["tune", "--plan", "--design", "ladders"], 2, "ladders"),
        (["tune", "--plan", "--rule", "seed", "--design", "factorial"], 2, "asks for blocks"),
        (["tune", "--resume", "--seed", "4"], 2, "goes on by the design, rule and seed it began with"),
        (["tune", "--judge-only"], 2, "holds no figures of others"),
        (["bench", "--url", "http://127.0.0.1:9"], 2, "--url goes with --model"),
        (["bench", "--prompts", "slow"], 2, "workload 'slow' is not one that ships"),
        (
            ["boot", "--plan", "--set", "ready.poll_s=5", "--set", "ready.poll_s=6"],
            2,
            "ready.poll_s is given twice",
        ),
        (["status", "--rehearsal"], 2, "no practice cluster runs"),
        (["check", "--rehearsal", "--scenario", "sunny"], 2, "sunny"),
        (["report", "--check"], 2, "add --readme"),
        (["report", "--readme", "inventory.yml"], 2, "ledger.jsonl: there is no ledger"),
        (["ledger", "verify"], 2, "ledger.jsonl: there is no ledger"),
        (["ledger", "list"], 2, "ledger.jsonl: there is no ledger"),
        (["ledger", "show", "7"], 2, "ledger.jsonl: there is no ledger"),
        (["ledger", "text", "7"], 2, "ledger.jsonl: there is no ledger"),
        (["ledger", "import", "inventory.yml"], 2, "inventory.yml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_is_told_with_its_remedy(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    """The message names what was found and wanted, a hint follows, and nothing is written."""
    before = sorted(path.name for path in folder.iterdir())
    assert run(arguments) == code
    told = capsys.readouterr()
    assert said in told.err
    assert "\nhint: " in told.err
    assert told.out == ""
    assert sorted(path.name for path in folder.iterdir() if path.name != ".sparkctl") == before


@pytest.mark.parametrize(
    "case",
    [
        (
            "r.yml",
            RECIPE.replace("tensor: 4", 'tensor: "4"'),
            ["boot", "--plan", "--recipe", "./r.yml"],
            "$.parallel.tensor: wanted a whole number",
        ),
        (
            "r.yml",
            RECIPE + "colour: red\n",
            ["boot", "--plan", "--recipe", "./r.yml"],
            "$: unknown key colour",
        ),
        (
            "r.yml",
            RECIPE.replace("  block-size: 128", "  blocksize: 128"),
            ["boot", "--plan", "--recipe", "./r.yml"],
            "$.args.blocksize: unknown key",
        ),
        (
            "r.yml",
            RECIPE.replace('"{hca}"', '"{hac}"'),
            ["boot", "--plan", "--recipe", "./r.yml"],
            "unknown placeholder {hac}",
        ),
        (
            "r.yml",
            RECIPE.replace("version: 0.33.0", "version: 0.12.0"),
            ["boot", "--plan", "--recipe", "./r.yml"],
            "$.engine.version: vllm-0.12.0 is not an engine that sparkctl knows: vllm-0.32.0, vllm-0.33.0",
        ),
        (
            "l.yml",
            LADDER.replace("env.NCCL_NTHREADS", "envi.NCCL_NTHREADS"),
            ["tune", "--plan", "--ladder", "./l.yml"],
            "$.levers[2].set: envi.NCCL_NTHREADS: unknown recipe key",
        ),
        (
            "l.yml",
            LADDER.replace("args.async-scheduling: true", "args.async-schedule: true"),
            ["tune", "--plan", "--ladder", "./l.yml"],
            "did you mean async-scheduling?",
        ),
        (
            "l.yml",
            LADDER.replace("min_gain: 0.02", "min_gain: some"),
            ["tune", "--plan", "--ladder", "./l.yml"],
            "$.min_gain: wanted a number",
        ),
    ],
    ids=[
        "recipe type",
        "recipe key",
        "recipe flag",
        "placeholder",
        "engine",
        "ladder key",
        "ladder flag",
        "ladder type",
    ],
)
def test_a_wrong_file_is_told_with_its_place(
    folder: Path, capsys: pytest.CaptureFixture[str], case: tuple[str, str, list[str], str]
) -> None:
    """The message starts with the file, names the place in it, and the exit code is 2."""
    name, text, arguments, said = case
    (folder / name).write_text(text)
    assert run(arguments) == 2
    told = capsys.readouterr()
    assert name in told.err
    assert said in told.err
    assert "\nhint: " in told.err


def test_a_readme_without_markers_is_left_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message shows the two lines to put in, and the file stays as it was."""
    readme = folder / "README.md"
    readme.write_text("# mine\n")
    assert run(["ledger", "import"]) == 0
    assert run(["report", "--readme", "README.md"]) == 2
    assert "<!-- sparkctl:best:start --> is missing" in capsys.readouterr().err
    assert readme.read_text() == "# mine\n"


@pytest.mark.parametrize(
    "arguments", [["check", "--json", "--bogus"], ["nosuch", "--json"], ["ledger", "show", "--json"]]
)
def test_a_wrong_call_is_a_document_too(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """Also what the parser refuses is one document on stdout."""
    assert run(arguments) == 2
    assert json.loads(capsys.readouterr().out)["error"]["exit_code"] == 2


def test_an_error_is_a_document_under_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json stdout holds one document even when the call was wrong."""
    assert run(["check", "--json", "-i", str(folder / "no.yml")]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    assert document["error"]["exit_code"] == 2
    assert "no.yml" in document["error"]["message"]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_the_list_of_verbs_says_what_each_verb_says(verb: Verb) -> None:
    """The table that stands in for verbs not yet imported has the first line of each verb's own docstring."""
    module = import_module(f"sparkctl.cli.{verb.module}")
    if verb.group:
        assert verb.about
        assert module.app.registered_commands
    else:
        assert (getattr(module, verb.name).__doc__ or "").splitlines()[0] == verb.about


def test_every_verb_takes_the_shared_options() -> None:
    """--json, --state and the others are on every verb, groups included."""
    app = build([verb.name for verb in VERBS])
    commands = list(app.registered_commands)
    groups = [
        command for group in app.registered_groups for command in group.typer_instance.registered_commands
    ]
    assert len(commands) + len(groups) >= len(VERBS)
    for command in (*commands, *groups):
        assert command.callback is not None
        assert {"as_json", "state", "inventory_path", "quiet", "no_color"} <= set(
            command.callback.__annotations__
        )


def test_a_plan_prints_every_command_and_touches_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`boot --plan` shows stages, nodes and commands in launch order, and no state folder appears."""
    before = {path.name for path in folder.iterdir()}
    assert run(["boot", "--plan"]) == 0
    out = capsys.readouterr().out
    assert [out.index(f"spark-a{rank} (rank {rank}): docker run") for rank in (3, 2, 1, 0)] == sorted(
        out.index(f"spark-a{rank} (rank {rank}): docker run") for rank in range(4)
    )
    assert {path.name for path in folder.iterdir()} == before
    assert out.index("check: ") < out.index("settle: ") < out.index("launch: ") < out.index("ready: ")
    assert f"sudo -n sh -c '{SETTLE}'" in out
    module = (ROOT / "playbooks" / "library" / "spark_cache.py").read_text()
    assert f'SETTLE = "{SETTLE}"' in module, "the plan tells what the module runs"


def test_a_plan_tells_what_would_be_applied(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only under --apply, each at its time: what takes from free memory comes after the line is ready."""
    text = EXAMPLE.replace(
        "recipe: ", "sysctls: {vm.swappiness: 1, vm.min_free_kbytes: 1048576}\n        recipe: ", 1
    )
    (folder / "inventory.yml").write_text(text)
    assert run(["boot", "--plan"]) == 0
    assert "sysctl" not in capsys.readouterr().out
    assert run(["boot", "--plan", "--apply"]) == 0
    out = capsys.readouterr().out
    assert "spark-a0: sudo -n ip link set dev enp1s0f0np0 mtu 9000, where it is less" in out
    assert out.index("vm.swappiness=1") < out.index("ready: ") < out.index("vm.min_free_kbytes=1048576")


def test_list_probes_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """`check --list-probes` needs no inventory and prints each probe with its command."""
    assert run(["check", "--list-probes"]) == 0
    out = capsys.readouterr().out
    assert "jumbo-ping" in out
    assert "cat /proc/meminfo" in out
