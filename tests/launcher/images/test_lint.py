"""What a Containerfile may not do: one data file a case, and the one that ships."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from launcher.images import containerfile, lint
from launcher.images.manifest import Manifest
from sparkctl import content, edge
from sparkctl.cli.image_files import find_files, read_files
from sparkctl.errors import FileFault

CASES = sorted((Path(__file__).parent / "lint").glob("*.yml"))


def manifest(**more: Any) -> Manifest:
    """Return a manifest with a few other keys."""
    told = {"schema": 1, "name": "one", "about": "x", "image": "example/one:1", "platform": "linux/arm64"}
    told |= {"sources": ["x"], "base": {"about": "x"}, "space_gib": 1, "arguments": {}}
    return edge.structure({**told, **more}, Manifest, source="case")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_breaks_exactly_these_rules(path: Path) -> None:
    """Rule, line and what stands there, and nothing beside it."""
    case = yaml.safe_load(path.read_text(encoding="utf-8"))
    known = manifest(**case["manifest"])
    found = lint.lint(case["containerfile"], known, dict.fromkeys(known.files, ""))
    assert [f"{one.rule} {one.line}: {one.measured}" for one in found] == case["breaches"]
    assert all(one.wanted and one.remedy for one in found)


def test_every_rule_has_a_case() -> None:
    """A rule that no case breaks is untested."""
    broken = {
        one.split()[0]
        for path in CASES
        for one in yaml.safe_load(path.read_text(encoding="utf-8"))["breaches"]
    }
    assert broken == {rule.name for rule in lint.RULES}


@pytest.mark.parametrize("name", content.images())
def test_what_ships_keeps_every_rule(name: str) -> None:
    """Each image that ships is read, keeps the rules, is called as its folder, and is found by what recipes call it."""
    files = read_files(name)
    assert files.manifest.name == name
    assert find_files(files.manifest.image) == files


def test_a_breach_is_a_wrong_file(tmp_path: Path) -> None:
    """Every breach is named with its line before any node is touched."""
    text = (content.image("vllm-dsv41-exl3").parent / "Containerfile").read_text(encoding="utf-8")
    for name in ("image.yml", "requirements.txt"):
        whole = (content.image("vllm-dsv41-exl3").parent / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(whole, encoding="utf-8")
    (tmp_path / "Containerfile").write_text(
        text.replace("--require-hashes ", "").replace("${BASE}", "ubuntu")
    )
    with pytest.raises(FileFault) as fault:
        read_files(str(tmp_path / "image.yml"))
    assert "base: FROM ubuntu" in fault.value.message
    assert "pip: pip install /opt/sparkctl/requirements.txt without --require-hashes" in fault.value.message


@given(st.text(max_size=300))
def test_any_text_is_judged_and_never_raises(text: str) -> None:
    """Whatever stands in a Containerfile, the answer is a list of breaches."""
    for one in containerfile.read(text):
        containerfile.pairs(one)
    assert all(one.line >= 1 for one in lint.lint(text, manifest(), {}))
