"""Arguments reach a rank as the recipe has them: quotes, braces, templates and any letter survive SSH, Ansible and docker."""

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher import launch
from launcher.command import RankCommand, rank_commands
from sparkctl import inventory
from sparkctl.cli.served import read_recipe
from sparkctl.clock import PacedClock
from sparkctl.line import Line
from sparkctl.shell import Shell

if TYPE_CHECKING:
    from .conftest import Program

pytestmark = pytest.mark.cluster

NASTY = {
    "quotes": 'it\'s "quoted" and `ticked`',
    "shell": "$HOME ${x} $(id) ; rm -rf * & | > < \\ \\n",
    "template": "{{ 7 * 7 }} {% raw %} {# no #} {json .}",
    "letters": "ü € 漢字 \u2028 \x7f tab\there",
    "nested": [{"a": None, "b": [True, 1.5, "''"]}],
}

_TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=40)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def line(practice: "Program") -> Line:
    """The practice line."""
    return inventory.read(practice.state / "rehearsal" / "inventory.yml").line("A")


def _commands(line: Line, config: dict[str, Any], text: str) -> tuple[RankCommand, ...]:
    recipe, _ = read_recipe("v41-flash-exl3-tp4")
    changed = dataclasses.replace(
        recipe,
        args={**recipe.args, "additional-config": config, "chat-template": text},
        env={**recipe.env, "SOME_TEXT": text.replace("{", "(")},
    )
    return rank_commands(changed, line, "boot-1")


def _seen(shell: Shell, command: RankCommand) -> dict[str, Any]:
    (said,) = shell.run_each({command.node: ("docker", "inspect", command.name)})
    found: dict[str, Any] = json.loads(said.stdout)[0]
    return found


@given(st.dictionaries(_TEXT, _JSON, max_size=3), _TEXT.filter(bool))
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_argument_survives_ssh_and_docker(line: Line, config: dict[str, Any], text: str) -> None:
    """Through the kept connections, by which no shell of ours but the login's own parses anything."""
    command = _commands(line, config, text)[0]
    with Shell(line) as shell:
        shell.run_each({command.node: command.argv})
        try:
            seen = _seen(shell, command)
        finally:
            shell.run_each({command.node: ("docker", "rm", "-f", command.name)})
    assert seen["Args"] == list(command.engine_argv)
    at = command.engine_argv.index("--additional-config")
    assert json.loads(seen["Args"][at + 1]) == config
    assert f"SOME_TEXT={text.replace('{', '(')}" in seen["Config"]["Env"]


def test_the_nastiest_survive_ansible_too(line: Line) -> None:
    """The first rank that is started has its arguments as they were written, whatever Ansible takes for a template."""
    commands = _commands(line, NASTY, NASTY["template"])
    launch.start(line, commands, PacedClock(pace=15), lambda *_: None)
    first = commands[-1]
    with Shell(line) as shell:
        try:
            assert _seen(shell, first)["Args"] == list(first.engine_argv)
        finally:
            shell.run_each({one.node: ("docker", "rm", "-f", one.name) for one in commands})
