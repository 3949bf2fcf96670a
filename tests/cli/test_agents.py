"""`sparkctl bench --agents`: on a practice line the cache's share grows over the turns; wrong input is told before anything is asked."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from ledger.journal import Journal
from sparkctl.cli import run

from .conftest import Program

DATA = Path(__file__).parents[1] / "tuner" / "agents" / "data"
SESSION = """
  - id: {name}
    about: a short one
    turns:
      - {{who: user, max_tokens: 80, text: "Look at the {name} and say what you would read first. {words}"}}
      - {{who: tool, tool: cat {name}.txt, wait_s: 3, max_tokens: 80, text: "{words}"}}
      - {{who: user, wait_s: 40, max_tokens: 80, text: "Go on with the {name}. {words}"}}
      - {{who: tool, tool: tail {name}.log, wait_s: 2, max_tokens: 80, text: "{words}"}}
"""
HEAD = """
schema: 1
name: short
source: a test
limit_s: 300
shares_system: true
body: {chat_template_kwargs: {thinking: false}}
system: You look after a harbour's machines and read their journals with care.
sessions:
"""
JOURNALS = (
    "The pump {n} began at dawn, drew {n} litres, and stopped when its filter was full of weed.",
    "Crane {n} lifted {n} crates, then its brake warmed up and the foreman let it rest for an hour.",
    "Lamp {n} flickered; the keeper changed a fuse and wrote down {n} volts at the far end of the pier.",
)


def words(seed: int) -> str:
    """Some hundred tokens of a journal, no two alike."""
    return " ".join(JOURNALS[n % 3].format(n=seed * 100 + n) for n in range(24))


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workload of two short sessions with pauses of tools and of people."""
    path = tmp_path_factory.mktemp("agents") / "short.yml"
    names = ("pump", "crane")
    path.write_text(
        HEAD + "".join(SESSION.format(name=name, words=words(n)) for n, name in enumerate(names, 1))
    )
    return path


@pytest.fixture(scope="module")
def serving(practice: Program) -> Program:
    """A healthy practice line that serves."""
    assert practice("boot", "--rehearsal", "--scenario", "healthy").code == 0
    return practice


@pytest.mark.cluster
def test_sessions_of_agents_on_a_practice_line(serving: Program, short: Path, tmp_path: Path) -> None:
    """Levels of 1, 2 and 4 sessions give figures, the cached share grows from turn to turn, and each level is a row."""
    out = tmp_path / "out.json"
    ended = serving(
        *("bench", "--rehearsal", "--agents", str(short), "--sessions", "1,2,4", "-o", str(out), "--json")
    )
    assert ended.code == 0, ended.out + ended.err
    document = ended.document
    assert (document["words"], document["simulated"], document["idle_cap_s"]) == ("own", True, 10.0)
    assert [level["live"] for level in document["levels"]] == [1, 2, 4]
    for level in document["levels"]:
        shares = [place["cached_share"] for place in level["positions"]]
        assert shares == sorted(shares), shares
        assert shares[0] < 0.2
        assert shares[-1] > 0.5
        assert level["failed"] == 0
        assert level["session_s"]["mean"] > level["busy_s"]["mean"] + 14, "3, 10 (capped) and 2 s are waited"
        assert level["uncached_tokens"] + level["cached_tokens"] == level["prompt_tokens"]
        assert level["per_user"]["p90"] <= level["per_user"]["p50"]
    rate = [level["sessions_per_min"] for level in document["levels"]]
    speed = [level["per_user"]["mean"] for level in document["levels"]]
    assert rate[0] < rate[1] < rate[2]
    assert speed[0] > speed[2] > 20
    kept = [row.body for row in Journal(serving.state / "ledger.jsonl").read().rows if row.kind == "bench"]
    names = [cast("Any", body)["metrics"][0]["name"] for body in kept]
    assert names == [f"agents_s{live}_per_user_tok_s" for live in (1, 2, 4)]
    written = json.loads(out.read_text())["levels"]
    assert [len(level["exchanges"]) for level in written] == [8, 8, 16]


@pytest.mark.cluster
def test_a_recorded_session_is_replayed_as_filler(serving: Program) -> None:
    """Forced lengths and shared blocks work on the line, and the answer says that the text means nothing."""
    path = str(DATA / "weka-subagents.json")
    ended = serving("bench", "--rehearsal", "--agents", path, "--sessions", "2", "--idle-cap", "1", "--json")
    assert ended.code == 0, ended.out + ended.err
    assert ended.document["words"] == "filler"
    assert "acceptance and Engram lookups mean nothing" in ended.document["meaning"]
    (level,) = ended.document["levels"]
    assert level["calls"] == 20
    assert level["acceptance"] is None
    assert level["cached_share"] > 0.2


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
