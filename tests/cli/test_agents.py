"""`sparkctl bench --agents`: wrong input is told before anything is asked. What it measures is tested on the healthy line."""

from pathlib import Path

import pytest

from sparkctl.cli import run

from .short_sessions import HEAD, SESSION

DATA = Path(__file__).parents[1] / "tuner" / "agents" / "data"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sessions", "2"], "--sessions goes with --agents"),
        (["--idle-cap", "2", "--take", "1"], "--idle-cap, --take goes with --agents"),
        (["--agents", "coding", "--prompts", "tiny"], "--agents goes without --prompts and --format"),
        (["--agents", "coding", "--sessions", "1,x"], "--sessions 1,x: wanted whole numbers from 1 to 256"),
        (["--agents", "coding", "--sessions", "0"], "wanted whole numbers from 1 to 256"),
        (["--agents", "coding", "--sessions", "2,2"], "a number stands twice"),
        (["--agents", "coding", "--idle-cap", "-1"], "--idle-cap -1: wanted a number of at least 0"),
        (["--agents", "coding", "--minutes", "nan"], "--minutes nan: wanted a number"),
        (["--agents", "coding", "--take", "0"], "--take 0: wanted a number of at least 1"),
        (["--agents", "cooking"], "'cooking' is not one that ships with sparkctl: coding"),
        (["--agents", "nowhere.jsonl"], "nowhere.jsonl: there is no such file"),
        (["--agents", "bad.jsonl"], "bad.jsonl:2: $.in: wanted a whole number of 1 or more, found 0"),
        (["--agents", "bad.yml"], "bad.yml: $.sessions[0].turns[0]: "),
        (["--agents", "empty.yml"], "empty.yml"),
    ],
)
def test_wrong_input_is_told_before_anything_is_asked(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A wrong option or file ends with exit 2, what is wrong, and a remedy."""
    monkeypatch.chdir(tmp_path)
    example = (DATA / "example.agent.jsonl").read_text().splitlines()
    (tmp_path / "bad.jsonl").write_text("\n".join([example[0], example[1].replace("8192", "0")]))
    (tmp_path / "bad.yml").write_text(
        HEAD + SESSION.format(name="x", words="y").replace("max_tokens: 80", "max_tokens: 1")
    )
    (tmp_path / "empty.yml").write_text("")
    assert run(["bench", *arguments]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "\nhint: " in told
