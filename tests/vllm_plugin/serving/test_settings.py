"""Settings and tested releases: off where nothing is asked, left alone where nobody tried."""

from pathlib import Path

import pytest

from sparkctl_vllm.refusal import Refusal
from sparkctl_vllm.serving import registration, settings, versions
from sparkctl_vllm.serving.settings import Settings


def test_an_empty_variable_is_none():
    """A container sets what is not wanted to nothing."""
    assert settings.read({"SPARKCTL_BUDGET_PLAN": ""}) == Settings()
    assert settings.read({"SPARKCTL_BUDGET_PLAN": "/p"}) == Settings(plan=Path("/p"))


def test_exl3_experts_are_asked_for_by_a_one():
    """Nothing and 0 leave EXL3 to others; any other word is told."""
    assert [settings.read({"SPARKCTL_EXL3_EXPERTS": one}).exl3 for one in ("", "0", "1")] == [
        False,
        False,
        True,
    ]
    with pytest.raises(Refusal, match="SPARKCTL_EXL3_EXPERTS: 'yes', allowed: 1"):
        settings.read({"SPARKCTL_EXL3_EXPERTS": "yes"})


@pytest.mark.parametrize("version", ["0.32.0", "0.32.0+cpu"])
def test_a_tried_release_is_taken(version):
    """What follows a + names a build."""
    assert versions.obstacle(version) == ""


@pytest.mark.parametrize("version", ["0.31.0", "0.32.1", "0.1.dev12+g0123", "1.0"])
def test_any_other_is_left_alone(version):
    """With a line that names both."""
    assert versions.obstacle(version) == f"vLLM {version} is not one of those tried: 0.32.0"


def test_an_unknown_release_is_left_alone_with_one_line(monkeypatch, caplog):
    """Nothing is imported, let alone installed; without a plan not even a word."""
    monkeypatch.setattr(registration, "version", lambda _: "0.31.0")
    monkeypatch.setattr(registration, "import_module", pytest.fail)
    monkeypatch.delenv("SPARKCTL_BUDGET_PLAN", raising=False)
    registration.register()
    assert caplog.messages == []
    monkeypatch.setenv("SPARKCTL_BUDGET_PLAN", "/plans/half")
    monkeypatch.setenv("SPARKCTL_EXL3_EXPERTS", "1")
    registration.register()
    wanted = "sparkctl: budget reads, EXL3 experts left off, vLLM serves as it is: vLLM 0.31.0 is not one of those tried: 0.32.0"
    assert caplog.messages == [wanted]
