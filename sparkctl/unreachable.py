"""Why a node did not answer: what SSH, sudo and Ansible say, to a cause and a remedy. Pure.

The texts are those of OpenSSH 9, paramiko 5 and ansible-core 2.19; the cases beside the tests are captured or
modelled on captures and say which.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One way in which a node does not answer: how it is recognised, said, and cured."""

    name: str
    pattern: re.Pattern[str]
    said: str
    hint: str
    detail: re.Pattern[str] | None = None
    """Finds what belongs into the message: which line of known_hosts, whom we tried to log in as."""

    def told(self, text: str) -> str:
        """Return what to say of a text that tells of this trouble."""
        found = self.detail.search(text) if self.detail else None
        return f"{self.said} ({found[1]})" if found else self.said


def _trouble(name: str, pattern: str, said: str, hint: str, detail: str = "") -> Trouble:
    return Trouble(
        name=name,
        pattern=re.compile(pattern, re.IGNORECASE),
        said=said,
        hint=hint,
        detail=re.compile(detail) if detail else None,
    )


# In the order in which they are tried: a changed key also ends in "Host key verification failed".
TROUBLES = (
    _trouble(
        "host-key-changed",
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|host key for server .* does not match",
        "its host key is not the one in known_hosts",
        "if the node was re-installed, check the new key on its console, then replace its line in known_hosts "
        "yourself (ssh-keygen -R HOST); sparkctl never edits known_hosts",
        r"Offending \S+ key in (\S+:\d+)",
    ),
    _trouble(
        "host-key-unknown",
        r"Host key verification failed|not found in known_hosts|No .* host key is known",
        "its host key is not in known_hosts",
        "log in once by hand and compare the fingerprint with the one on the node's console, "
        "or name the right file as known_hosts in the inventory",
    ),
    _trouble(
        "refused",
        r"Connection refused|Unable to connect to port|NoValidConnections",
        "the connection was refused",
        "check that the node runs sshd and that ansible_host and ansible_port are right",
    ),
    _trouble(
        "timed-out",
        r"Connection timed out|Operation timed out|timed out|No route to host|Network is unreachable",
        "no answer in time",
        "ansible_host must be the management address, reachable from here; fabric addresses belong under `fabric`. "
        "A node that answers ping but not SSH may be out of memory: wait or cut its power",
    ),
    _trouble(
        "name-unknown",
        r"Could not resolve hostname|Name or service not known|nodename nor servname|Temporary failure in name",
        "its name cannot be resolved",
        "give an address as ansible_host, or add the name to DNS or /etc/hosts",
    ),
    _trouble(
        "permission-denied",
        r"Permission denied|Authentication failed|No authentication methods|private key file .* (not|does not) exist",
        "the login was refused",
        "check ansible_user and ansible_ssh_private_key_file, and that the public key is in the node's authorized_keys",
        r"(\S+@\S+): Permission denied",
    ),
    _trouble(
        "no-python",
        r"module interpreter .* was not found|python3?: not found|No python interpreters found",
        "there is no Python interpreter where Ansible looks for it",
        "install python3 on the node or set ansible_python_interpreter",
    ),
    _trouble(
        "privilege-timeout",
        r"waiting for privilege escalation prompt",
        "sudo did not answer in time",
        "check sudo on the node (DNS look-ups slow it down), then try again",
    ),
    _trouble(
        "sudo-password",
        r"sudo: a password is required|Missing sudo password",
        "sudo asks for a password",
        "add the sudo rules without password that docs/ritual.md lists, for dropping page cache and compacting memory",
    ),
)


def explain(text: str) -> Trouble | None:
    """Return the trouble that `text` tells of, or None when it is none that we know."""
    for trouble in TROUBLES:
        if trouble.pattern.search(text):
            return trouble
    return None


def say(text: str) -> tuple[str, str]:
    """Return what to print about `text` and the hint: a known trouble, or the last line of the text itself."""
    trouble = explain(text)
    if trouble:
        return trouble.told(text), trouble.hint
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[-1] if lines else "no answer and no reason given"), "run the same command by hand over ssh"
