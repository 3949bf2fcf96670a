"""Why a node did not answer or refused: what SSH, sudo, docker and Ansible say, to a cause and a remedy. Pure.

A node that answered is told of in the words of its own tools: `timed out` or `Permission denied` there is no matter of SSH. The texts are those of OpenSSH 9, paramiko 5 and ansible-core 2.19; the cases beside the tests are captured or
modelled on captures and say which.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One way in which a node does not answer or refuses: how it is recognised, said, and cured."""

    name: str
    pattern: re.Pattern[str]
    said: str
    hint: str
    detail: re.Pattern[str] | None = None
    """Finds what belongs into the message: which line of known_hosts, whom we tried to log in as, what sudo refused."""
    from_node: bool = False
    """Whether a node that answered says this; the others are troubles of the way there."""
    remedies: tuple[tuple[re.Pattern[str], str], ...] = ()
    """Remedies that fit better than `hint`, each where the text matches."""

    def told(self, text: str) -> str:
        """Return what to say of a text that tells of this trouble."""
        found = self.detail.search(text) if self.detail else None
        return f"{self.said} ({found[1]})" if found else self.said

    def remedy(self, text: str) -> str:
        """Return the remedy that fits a text that tells of this trouble."""
        return next((hint for pattern, hint in self.remedies if pattern.search(text)), self.hint)


def _trouble(  # noqa: PLR0913 - the columns of a table
    name: str,
    pattern: str,
    said: str,
    hint: str,
    detail: str = "",
    *,
    from_node: bool = False,
    remedies: tuple[tuple[str, str], ...] = (),
) -> Trouble:
    return Trouble(
        name=name,
        pattern=re.compile(pattern, re.IGNORECASE),
        said=said,
        hint=hint,
        detail=re.compile(detail) if detail else None,
        from_node=from_node,
        remedies=tuple((re.compile(sign), hint) for sign, hint in remedies),
    )


_SUDO_COMMAND = r"(sudo -n .+?) ended with"
_SUDO_HINT = "allow that command in sudoers without a password; docs/ritual.md lists what is asked of sudo"
_SUDO_REMEDIES = (
    # What the node's settle and apply steps run; a rule for one of them does not help another.
    (
        r"drop_caches|compact_memory",
        "add the sudo rules without password that docs/ritual.md lists, for dropping page cache and compacting memory",
    ),
    (
        r"\bip link set\b",
        "add a sudo rule without password for: ip link set dev INTERFACE mtu BYTES; or boot without --apply and set the MTU in netplan",
    ),
    (
        r"\bsysctl -w\b",
        "add a sudo rule without password for: sysctl -w NAME=VALUE; or boot without --apply and set it in /etc/sysctl.d",
    ),
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
        "keys-damaged",
        r"a line or key of .+ cannot be read",
        "known_hosts or a key file is damaged",
        "mend or remove that line yourself (ssh-keygen -l -f FILE reads them); sparkctl never edits known_hosts",
        r"a line or key of (.+ cannot be read: .+)",
    ),
    _trouble(
        "temporary-folder",
        r"Failed to create temporary directory",
        "Ansible could not make its temporary folder there",
        "the home of ansible_user must be writable and have room (df ~), or set ansible_remote_tmp in the inventory",
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
        # ssh names the methods behind its words; a file that may not be opened is no refused login.
        r"Permission denied(?: \([\w,-]+\)|, please try again)|Authentication failed|No authentication methods"
        r"|private key file .* (not|does not) exist",
        "the login was refused",
        "check ansible_user and ansible_ssh_private_key_file, and that the public key is in the node's authorized_keys",
        r"(\S+@\S+): Permission denied",
    ),
    _trouble(
        "no-python",
        r"module interpreter .* was not found|No python interpreters found",
        "there is no Python interpreter where Ansible looks for it",
        "install python3 on the node or set ansible_python_interpreter",
        from_node=True,
    ),
    _trouble(
        "privilege-timeout",
        r"waiting for privilege escalation prompt",
        "sudo did not answer in time",
        "check sudo on the node (DNS look-ups slow it down), then try again",
        from_node=True,
    ),
    _trouble(
        "sudo-password",
        r"sudo: a (password|terminal) is required|Missing sudo password",
        "sudo asks for a password",
        _SUDO_HINT,
        _SUDO_COMMAND,
        from_node=True,
        remedies=_SUDO_REMEDIES,
    ),
    _trouble(
        "sudo-refused",
        r"is not allowed to execute .+ as |is not in the sudoers file|may not run sudo on",
        "sudo refuses the command",
        _SUDO_HINT,
        _SUDO_COMMAND,
        from_node=True,
        remedies=_SUDO_REMEDIES,
    ),
    _trouble(
        "docker-refused",
        r"permission denied while trying to connect to the docker",
        "docker refuses the login",
        "add ansible_user to the group docker on the node (usermod -aG docker USER) and log in anew",
        from_node=True,
    ),
)


def explain(text: str, *, answered: bool = False) -> Trouble | None:
    """Return the trouble that `text` tells of, or None when it is none that we know.

    Of a node that `answered`, only what its own sudo, Python and docker say is looked for.
    """
    for trouble in TROUBLES:
        if (trouble.from_node or not answered) and trouble.pattern.search(text):
            return trouble
    return None


def say(text: str, *, answered: bool = False) -> tuple[str, str]:
    """Return what to print about `text` and the hint: a known trouble, or the last line of the text itself."""
    trouble = explain(text, answered=answered)
    if trouble:
        return trouble.told(text), trouble.remedy(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    nothing = "it failed and gave no reason" if answered else "no answer and no reason given"
    return (lines[-1] if lines else nothing), "run the same command by hand over ssh"
