"""Settings and tested releases: off where nothing is asked, left alone where nobody tried."""

from pathlib import Path

import pytest

from sparkctl_vllm.serving import settings, versions
from sparkctl_vllm.serving.settings import Settings


def test_an_empty_variable_is_none():
    """A container sets what is not wanted to nothing."""
    assert settings.read({"SPARKCTL_BUDGET_PLAN": ""}) == Settings()
    assert settings.read({"SPARKCTL_BUDGET_PLAN": "/p"}) == Settings(plan=Path("/p"))


@pytest.mark.parametrize("version", ["0.32.0", "0.32.0+cpu"])
def test_a_tried_release_is_taken(version):
    """What follows a + names a build."""
    assert versions.obstacle(version) == ""


@pytest.mark.parametrize("version", ["0.31.0", "0.32.1", "0.1.dev12+g0123", "1.0"])
def test_any_other_is_left_alone(version):
    """With a line that names both."""
    assert versions.obstacle(version) == f"vLLM {version} is not one of those tried: 0.32.0"
