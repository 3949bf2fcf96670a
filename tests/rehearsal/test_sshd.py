"""The nodes over real SSH: OpenSSH, Fabric and Ansible, with strict host keys."""

import os
import subprocess
import sys
from pathlib import Path

import fabric
import paramiko
import pytest

from .conftest import Line

pytestmark = pytest.mark.cluster


def test_every_node_answers_over_openssh_with_strict_keys(line: Line) -> None:
    """A command's output, errors and exit code come back whole; stdin arrives; nodes differ."""
    for name in line.cluster.nodes:
        said = line.ssh(name, "hostname; cat; echo wrong >&2; exit 7", stdin="fed\n")
        assert (said.code, said.out, said.err) == (7, f"{name}\nfed\n", "wrong\n")
    big = line.ssh("spark-a0", "head -c 3000000 /dev/zero | tr '\\0' 'x'")
    assert len(big.out) == 3_000_000


def test_a_stranger_is_not_let_in(line: Line, tmp_path: Path) -> None:
    """Another key is refused."""
    key = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    host = line.hosts["spark-a0"]
    client = paramiko.SSHClient()
    client.load_host_keys(line.vars["known_hosts"])
    with client, pytest.raises(paramiko.AuthenticationException):
        client.connect(
            host["ansible_host"],
            port=host["ansible_port"],
            username="spark",
            key_filename=str(key),
            allow_agent=False,
            look_for_keys=False,
        )


def test_fabric_works_with_strict_known_hosts(line: Line) -> None:
    """Four connections with RejectPolicy, one after another."""
    for name, host in line.hosts.items():
        connection = fabric.Connection(
            host["ansible_host"],
            user="spark",
            port=host["ansible_port"],
            connect_kwargs={
                "key_filename": line.vars["ansible_ssh_private_key_file"],
                "allow_agent": False,
                "look_for_keys": False,
            },
        )
        connection.client.load_host_keys(line.vars["known_hosts"])
        connection.client.set_missing_host_key_policy(paramiko.RejectPolicy())
        with connection:
            said = connection.run("hostname; uname -m", hide=True, in_stream=False)
        assert said.stdout == f"{name}\naarch64\n"


def test_ansible_works_with_pipelining_and_strict_keys(line: Line) -> None:
    """A real playbook with raw and command tasks runs on all four nodes."""
    home = line.cluster.home
    play = home / "play.yml"
    play.write_text(
        "- hosts: line_a\n  gather_facts: false\n  tasks:\n"
        "    - ansible.builtin.raw: uname -r\n      register: kernel\n"
        "    - ansible.builtin.command: {argv: [cat, /proc/meminfo]}\n      register: memory\n"
        "    - ansible.builtin.assert:\n"
        "        that: [\"'nvidia' in kernel.stdout\", \"'127600412' in memory.stdout_lines[0]\"]\n",
        encoding="utf-8",
    )
    common = f'-o StrictHostKeyChecking=yes -o UserKnownHostsFile="\\"{line.vars["known_hosts"]}\\"" -o ControlPersist=5s'
    ran = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(line.cluster.inventory), str(play)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={
            **os.environ,
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_HOST_KEY_CHECKING": "1",
            "ANSIBLE_SSH_COMMON_ARGS": common,
            "ANSIBLE_FORKS": "4",
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("failed=0") == 4
