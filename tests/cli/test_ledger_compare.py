"""`ledger compare` and `ledger drift` as a user calls them, on the demo's ledger and on result files."""

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.journal import Journal
from sparkctl.cli import run

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "tests" / "tuner" / "data" / "results"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder with the demo's ledger."""
    (tmp_path / "ledger.jsonl").write_bytes((ROOT / "docs" / "demo" / "ledger.jsonl").read_bytes())
    return tmp_path


def _told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = run([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_two_stacks(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A proven gain is a percentage, what is not shown is `~`; the JSON has the same figures and every value behind them."""
    both = ("base", "nccl-channels+async-scheduling")
    assert run(["ledger", "compare", *both, "--state", str(state)]) == 0
    table = capsys.readouterr().out
    assert "base (simulated), 6 boots" in table
    assert "+15.1 %" in table
    code, told = _told(capsys, "ledger", "compare", *both, "--state", str(state))
    metric = told["metrics"]["c1_per_stream_tok_s"]
    assert code == 0
    assert metric["differs"]
    assert metric["ratio"] == pytest.approx(1.151, abs=0.001)
    assert len(told["second"]["values"]["c1_per_stream_tok_s"]) == 6
    _, told = _told(capsys, "ledger", "compare", "base", "async-scheduling", "--state", str(state))
    assert not told["metrics"]["c6_agg_tok_s"]["differs"]


def test_two_files_and_an_imported_row(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Results of other tools are reported rows, compared under our metrics' names."""
    files = [path for path in sorted(RESULTS.glob("*.json")) if "batches" in json.loads(path.read_text())]
    assert files
    code, told = _told(capsys, "ledger", "compare", str(files[0]), "exl3-G0-A", "--state", str(state))
    assert code == 0
    assert told["first"]["label"] == "reported, v41bench"
    assert told["second"]["label"] == "reported"
    assert any("1 and 1 boots" in one for one in told["warnings"])


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_plot_on_request(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    """The picture is written, the same bytes for the same ledger."""
    paths = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for path in paths:
        assert (
            run(["ledger", "compare", "base", "nccl-channels", "--plot", str(path), "--state", str(state)])
            == 0
        )
    capsys.readouterr()
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("base", "nccl-chanels"), "near to it: nccl-channels"),
        (("base", "epoch:2"), "the line has 1 epochs"),
        (("base", "README.md"), "README.md"),
        (("base", "base", "--plot", "x.foo"), "cannot be drawn"),
    ],
)
def test_wrong_words(
    state: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    says: str,
) -> None:
    """What means nothing, a file that is no result, a picture of no kind: exit 2 with a remedy."""
    monkeypatch.chdir(ROOT)
    assert run(["ledger", "compare", *words, "--state", str(state)]) == 2
    told = capsys.readouterr().err
    assert says in told
    assert "hint:" in told


def test_drift_names_what_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten boots that become slower with another kernel: exit 1, the boot, the size, and the kernel by name."""
    monkeypatch.setenv("COLUMNS", "200")
    journal = Journal(tmp_path / "ledger.jsonl")
    for at, value in enumerate((60.0, 60.3, 59.8, 60.1, 59.9, 57.0, 57.2, 56.8, 57.1, 56.9)):
        kernel = "6.17" if at < 5 else "6.18"
        findings = [{"gate": "kernel-parity", "node": "n0", "measured": kernel}]
        body: dict[str, Any] = {"simulated": True, "boot": f"b{at}", "climb": None, "on": []}
        when = f"2026-10-{at + 1:02d}T00:00:00Z"
        journal.append("boot", "A", {**body, "ok": True, "why": "", "findings": findings}, when)
        metrics = [{"name": "c1_per_stream_tok_s", "value": value, "unit": "tok/s", "n": 5}]
        journal.append("bench", "A", {**body, "voids": [], "metrics": metrics}, when)
    assert run(["ledger", "drift", "--state", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "2026-10-06T00:00:00Z, b5" in shown
    assert "kernel: 6.17 before, 6.18 after" in shown
    code, told = _told(capsys, "ledger", "drift", "--state", str(tmp_path))
    assert code == 1
    assert told["changes"][0]["ratio"] == pytest.approx(0.95, abs=0.002)


def test_drift_of_too_few_boots_is_not_steadiness(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A few boots tell nothing: exit 4, and the words say how many are needed."""
    path = state / "ledger.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:60]))
    assert run(["ledger", "drift", "--state", str(state)]) == 4
    assert "needs 6 boots" in capsys.readouterr().out


def test_a_foreign_result_enters_as_a_reported_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its source it is one row that says reported, comparable by its name; the same file is taken once, none without a source."""
    path, state = RESULTS / "aiperf_profile.json", ("--state", str(tmp_path))
    assert run(["ledger", "import", str(path), *state]) == 2
    assert "--source" in capsys.readouterr().err
    given = ["ledger", "import", str(path), "--source", "made up", *state]
    assert run(given) == 0
    assert run(given) == 0
    assert "already in the ledger" in capsys.readouterr().out
    assert run(["report", *state]) == 0
    block = capsys.readouterr().out
    assert "aiperf_profile" in block
    assert "reported" in block
    code, told = _told(capsys, "ledger", "compare", "aiperf_profile", str(path), *state)
    assert code == 0
    assert told["metrics"]["c6_agg_tok_s"]["ratio"] == 1
