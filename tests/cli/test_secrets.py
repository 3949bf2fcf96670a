"""No secret reaches a terminal, a document or a bundle, wherever a node or a recipe has one."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from bootcheck.facts import Bundle
from launcher import tails
from sparkctl import edge
from sparkctl.cli import bundle, run
from sparkctl.shell import Said

ROOT = Path(__file__).parents[2]
BUNDLES = Path(__file__).parent / "bundles"
LOG = (
    "INFO non-default args: {'api_key': ['Zq7first'], 'port': 8000}\n"
    "-----BEGIN PRIVATE KEY-----\nZq7second\n-----END PRIVATE KEY-----\n"
    'WANDB_KEY=Zq7third\n{"hf_token": "Zq7fourth"}\nready\n'
)


class Nodes:
    """Stands for the shell: every rank's log holds secrets, and the last node does not answer."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run_each(self, commands: Mapping[str, Sequence[str]]) -> tuple[Said, ...]:
        """Answer as Shell.run_each does."""
        *asked, last = commands
        lost = Said(node=last, rc=None, stdout="", stderr="lost: --api-key Zq7lost")
        return (*(Said(node=node, rc=0, stdout=LOG, stderr="--token Zq7said") for node in asked), lost)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPARKCTL_INVENTORY", raising=False)
    (tmp_path / "inventory.yml").write_text((ROOT / "inventory.example.yml").read_text())


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_plan_withholds_secrets(form: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The commands are shown without the values of telling names, for people and for programs."""
    changed = (
        "env.HF_TOKEN=Zq7first",
        'args.additional-config={"auth_token": "Zq7second", "mask_token_id": 7}',
        "env.NCCL_PROTO=Simple",
    )
    assert run(["boot", "--plan", *form, *(word for one in changed for word in ("--set", one))]) == 0
    out = capsys.readouterr().out
    assert "Zq7" not in out
    assert "HF_TOKEN=<withheld>" in out
    assert "NCCL_PROTO=Simple" in out
    if form:
        document = json.loads(out)
        assert document["recipe"]["env"]["HF_TOKEN"] == "<withheld>"
        assert document["recipe"]["env"]["NCCL_PROTO"] == "Simple"
        words = document["commands"][0]["argv"]
        config = json.loads(words[words.index("--additional-config") + 1])
        assert config == {"auth_token": "<withheld>", "mask_token_id": 7}


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_logs_withhold_secrets(
    form: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that take several lines, and those in what is said of a node that does not answer."""
    monkeypatch.setattr(tails, "Shell", Nodes)
    assert run(["logs", *form]) == 3
    out = capsys.readouterr().out
    assert "Zq7" not in out
    assert "ready" in out
    if form:
        first = json.loads(out)["logs"][0]["lines"]
        assert json.loads(first[-3]) == {"hf_token": "<withheld>"}


def test_a_bundle_withholds_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """In records, in the recipe's part of the context, in rows and in logs, which are read as a whole; the rest stays."""
    monkeypatch.setattr(tails, "Shell", Nodes)
    told: dict[str, Any] = json.loads((BUNDLES / "healthy.json").read_text(encoding="utf-8"))
    node, records = next(iter(told["nodes"].items()))
    told["context"]["needs"]["environments"][node] = {"HF_TOKEN": "Zq7env", "NCCL_PROTO": "Simple"}
    told["context"]["needs"]["arguments"][node] = ["--api-key", "Zq7argument", "--port", "8000"]
    records["probes"][0]["stdout"] = '{"Env": ["WANDB_KEY=Zq7record", "OPENAI_API_KEY="]}'
    told["rows"] = [{"why": "ended with --api-key Zq7row"}]
    found = edge.structure(told, Bundle, source="healthy")
    logs = {one.node: one.lines or (one.fault,) for one in tails.read(found.context.line)}
    raw = {name: tuple(LOG.splitlines()) for name in logs}
    for one in (logs, raw):
        written = bundle.document(edge.structure({**told, "logs": one}, Bundle, source="healthy"))
        assert "Zq7" not in json.dumps(written)
        assert written["logs"][node][-1] in {"ready", "--token <withheld>"}
        assert written["context"]["needs"]["environments"][node]["NCCL_PROTO"] == "Simple"
        assert written["context"]["needs"]["arguments"][node] == ["--api-key", "<withheld>", "--port", "8000"]
        assert written["nodes"][node]["probes"][0]["stdout"].endswith('"OPENAI_API_KEY="]}')
        edge.structure(written, Bundle, source="written")
