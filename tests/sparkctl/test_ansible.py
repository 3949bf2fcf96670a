"""The doorway to Ansible, with the real one on this machine."""

import json
import sys
from pathlib import Path

import pytest

from sparkctl import ansible
from sparkctl.ansible import Answer, Status
from sparkctl.line import Line, Node, Rail

# What YAML or a template would make something else of: a truth value, an octal or another number, nothing, a variable.
WORDS = (
    "no",
    "Yes",
    "012",
    "0x10",
    "1e3",
    "3.10",
    "null",
    "~",
    "2026-11-29",
    "{{json .}}",
    "{% x %}",
    " ",
    "#",
    "'",
)


@pytest.fixture
def line(tmp_path: Path) -> Line:
    """A line of one node, which is this machine."""
    inventory = tmp_path / "inventory.yml"
    hosts = {"here": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}}
    inventory.write_text(json.dumps({"all": {"children": {"line_a": {"hosts": hosts}}}}), encoding="utf-8")
    rail = Rail(interface="lo", address="127.0.0.1", hca="none")
    node = Node(name="here", rank=0, host="127.0.0.1", port=22, user=None, key_file=None, rails=(rail,))
    return Line(
        name="A",
        nodes=(node,),
        recipe=None,
        api_host="127.0.0.1",
        api_port=8000,
        master_port=29501,
        floors={},
        known_hosts=None,
        source=str(inventory),
    )


def test_every_word_arrives_as_it_was_written(line: Line) -> None:
    """`--restart no` must not become `--restart False`, nor a rank's `012` another number."""
    argv = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))", *WORDS]
    row = {"probe": "echo", "argv": argv, "limit_s": 20.0}
    (answer,) = [
        one for one in ansible.run("probe", line, {"probe_tables": {"here": [row]}}) if "probes" in one.result
    ]
    assert json.loads(answer.result["probes"][0]["stdout"]) == list(WORDS)


@pytest.mark.parametrize(
    ("status", "message", "said", "hint"),
    [
        (
            "failed",
            "docker run timed out after 120 s",
            "docker run timed out after 120 s",
            "",
        ),
        (
            "failed",
            "docker: open /var/lib/x: Permission denied",
            "docker: open /var/lib/x: Permission denied",
            "",
        ),
        (
            "failed",
            "x has MTU 1500, wanted 9000: sudo -n ip link set dev x mtu 9000 ended with rc 1: sudo: a password is required",
            "sudo asks for a password (sudo -n ip link set dev x mtu 9000)",
            "ip link set dev INTERFACE mtu",
        ),
        (
            "unreachable",
            "ssh: connect to host x port 22: Connection timed out",
            "no answer in time",
            "management",
        ),
        ("failed", "", "it failed and gave no reason", "by hand"),
    ],
)
def test_a_task_that_failed_speaks_for_its_node(status: Status, message: str, said: str, hint: str) -> None:
    """Only a node that did not answer has a trouble with SSH; whoever was refused by sudo is told which rule to add."""
    answer = Answer(host="n", task="t", status=status, changed=False, message=message, seconds=0.0, result={})
    found = ansible.explain(answer)
    assert found[0] == said
    assert hint in found[1]
