"""What every verb answers with, as far as no node is needed for it: each code that can be had, and a remedy beside each mistake."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from ledger.journal import Journal
from sparkctl.cli import VERBS, build, run

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
RESULTS = ROOT / "tests" / "tuner" / "data" / "results"
MISTAKES: list[dict[str, Any]] = json.loads((HERE / "mistakes.json").read_text(encoding="utf-8"))
CODES: dict[str, list[list[Any]]] = json.loads((HERE / "exit_codes.json").read_text(encoding="utf-8"))
MTU = r"""\"mtu\":9000"""
HEAVY = (
    "numpy",
    "scipy",
    "pandas",
    "matplotlib",
    "ansible",
    "ansible_runner",
    "fabric",
    "paramiko",
    "asyncssh",
    "aiohttp",
    "msgspec",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder: the example's inventory, the demo's ledger and a forged one, bundles, results, a stale README."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SPARKCTL_INVENTORY", raising=False)
    (tmp_path / "inventory.yml").write_bytes((ROOT / "inventory.example.yml").read_bytes())
    ledger = (ROOT / "docs" / "demo" / "ledger.jsonl").read_bytes()
    for state, content in (("demo", ledger), ("forged", ledger.replace(b"spark-a1", b"spark-a9", 1))):
        (tmp_path / state).mkdir()
        (tmp_path / state / "ledger.jsonl").write_bytes(content)
    for path in (*(HERE / "bundles").glob("*.json"), *RESULTS.glob("*.json")):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    healthy = (HERE / "bundles" / "healthy.json").read_text(encoding="utf-8")
    (tmp_path / "low-mtu.json").write_text(
        healthy.replace(MTU, MTU.replace("9000", "1500"), 1), encoding="utf-8"
    )
    for name, metric in (("ttft.json", "mean_ttft_ms"), ("per_user.json", "output_throughput")):
        told = {"completed": 3, "output_throughput": 0.0, "duration": 1.0, metric: 12.5}
        (tmp_path / name).write_text(json.dumps(told))
    (tmp_path / "stale.md").write_text("<!-- sparkctl:best:start -->\n<!-- sparkctl:best:end -->\n")
    return tmp_path


def _verbs() -> Iterator[str]:
    app = build([verb.name for verb in VERBS])
    yield from (one.name or "" for one in app.registered_commands)
    for group in app.registered_groups:
        told = group.typer_instance
        assert isinstance(told, typer.Typer)
        yield from (
            f"{group.name} {one.name or getattr(one.callback, '__name__', '').replace('_', '-')}"
            for one in told.registered_commands
        )


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: " ".join(one["arguments"]))
def test_a_mistake_is_met_by_what_solves_it(
    folder: Path, capsys: pytest.CaptureFixture[str], mistake: dict[str, Any]
) -> None:
    """What a newcomer mistypes or misplaces gives the words that mend it, a hint, and no traceback."""
    del folder
    assert run(mistake["arguments"]) == mistake["code"]
    told = capsys.readouterr()
    assert told.out == ""
    assert "hint:" in told.err
    assert "Traceback" not in told.err
    for words in mistake["says"]:
        assert words in told.err


@pytest.mark.parametrize(
    ("verb", "words", "code"), [(verb, words, code) for verb, cases in CODES.items() for words, code in cases]
)
def test_exit_codes(
    folder: Path, capsys: pytest.CaptureFixture[str], *, verb: str, words: str, code: int
) -> None:
    """The code is what the table says, with and without --json, which gives one document either way."""
    del folder
    arguments = [*verb.split(), *shlex.split(words)]
    assert run(arguments) == code, capsys.readouterr().err
    capsys.readouterr()
    again = run([*arguments, "--json"])
    assert again == code
    json.loads(capsys.readouterr().out)


def test_the_table_has_every_verb() -> None:
    """A verb without a row has no tested answer."""
    assert sorted(CODES) == sorted(set(_verbs()))


@pytest.mark.parametrize("verb", sorted(CODES))
def test_an_unknown_option_is_used_wrongly(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    """Every verb refuses what it does not know with 2 and a hint."""
    assert run([*verb.split(), "--no-such-option"]) == 2
    assert "hint:" in capsys.readouterr().err


def test_help_imports_nothing_heavy() -> None:
    """`sparkctl --help` stays quick because no library beyond the command line's own is imported for it."""
    told = "import sys; from sparkctl.cli import run; run(['--help']); print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert not set(HEAVY) & set(ran.stderr.split())
    assert "tune" in ran.stdout


def test_the_doctor_says_what_to_mend(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key that others read, host keys that are not known and a forged ledger are each a failure with its remedy; whole, it is 0."""
    key = folder / ".ssh" / "id_ed25519"
    key.parent.mkdir()
    key.write_text("made up")
    key.chmod(0o644)
    assert run(["doctor", "--state", "forged"]) == 1
    told = capsys.readouterr().out
    for words in (
        "has mode 0644",
        "chmod 600",
        "has no key of spark-a0, spark-a1",
        "ssh-keyscan",
        "ledger.jsonl: line",
    ):
        assert words in told
    key.chmod(0o600)
    made = subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "host"], check=True)
    assert made.returncode == 0
    public = " ".join((folder / "host.pub").read_text().split()[:2])
    inventory = (folder / "inventory.yml").read_text()
    hosts = {
        line.split(":")[1].split("#")[0].strip() for line in inventory.splitlines() if "ansible_host:" in line
    }
    (key.parent / "known_hosts").write_text("".join(f"{host} {public}\n" for host in sorted(hosts)))
    assert Journal(folder / "demo" / "ledger.jsonl").verify().breaks == ()
    assert run(["doctor", "--state", "demo"]) == 0
    assert "has a key of every node" in capsys.readouterr().out
