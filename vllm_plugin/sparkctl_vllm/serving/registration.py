"""Registration: what vLLM calls in each of its processes; every feature that a setting asks for installs itself, or none on an unknown vLLM."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version

from sparkctl_vllm.serving import settings, versions
from sparkctl_vllm.serving.settings import Settings

log = logging.getLogger("vllm.sparkctl")
"""Below vLLM's own logger, whose handler and level it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One thing that can be switched on: when it is wanted, and the module whose `install(settings)` does it, imported only then.

    `install` may be called more than once in a process and must do nothing the second time.
    """

    name: str
    wanted: Callable[[Settings], bool]
    module: str


FEATURES = (
    Feature(
        name="budget reads",
        wanted=lambda asked: asked.plan is not None,
        module="sparkctl_vllm.serving.installation",
    ),
    Feature(
        name="EXL3 experts",
        wanted=lambda asked: asked.exl3,
        module="sparkctl_vllm.serving.exl3_experts",
    ),
    Feature(
        name="Engram rows",
        wanted=lambda asked: asked.rows is not None,
        module="sparkctl_vllm.serving.engram_rows",
    ),
)


def register() -> None:
    """Install what the environment asks for; the entry point of the group vllm.general_plugins."""
    asked = settings.read(os.environ)
    wanted = [one for one in FEATURES if one.wanted(asked)]
    why = versions.obstacle(version("vllm")) if wanted else ""
    if why:
        log.warning(
            "sparkctl: %s left off, vLLM serves as it is: %s", ", ".join(one.name for one in wanted), why
        )
        return
    for one in wanted:
        import_module(one.module).install(asked)
