"""How one logs in to a host: keys, known_hosts, and OpenSSH's own server with a configuration of its own."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from rehearsal.hosts import machine
from rehearsal.hosts.namespace import Namespace

USER = "root"
PORT = 22

# No PAM, so the machine's own rules and logs are left out of it. The many starts are for the parallel form of the
# benchmark, which opens every connection at once; Debian's 10:30:100 would drop some of them.
_CONFIG = """\
Port {port}
ListenAddress 0.0.0.0
HostKey "{folder}/login/host_key"
PidFile "{folder}/sshd.pid"
AuthorizedKeysFile "{folder}/login/authorized_keys"
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 1000
MaxSessions 100
UseDNS no
PrintMotd no
SetEnv "PATH={folder}/bin:{path}" "TMPDIR={folder}/tmp" LANG=C.UTF-8
"""

# root with a home of the host's own and a plain shell, and the user that sshd itself wants. Without PAM a password
# field that begins with ! would lock root out, whatever key it has.
_ACCOUNTS = """\
root:x:0:0:root:{folder}/home:/bin/sh
sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
_LOCKS = "root:*:20000:0:99999:7:::\nsshd:*:20000:0:99999:7:::\nnobody:*:20000:0:99999:7:::\n"


def user_key(home: Path) -> Path:
    """Make the key that the hosts let in; the public half lies beside it."""
    return _key(home / "user_key")


def furnish(folder: Path, user: Path) -> None:
    """Write what sshd reads on one host, with a host key of its own."""
    own = folder / "login"
    own.mkdir()
    _key(own / "host_key")
    (own / "authorized_keys").write_text(
        user.with_suffix(".pub").read_text(encoding="utf-8"), encoding="utf-8"
    )
    config = _CONFIG.format(port=PORT, folder=folder, path=machine.PATH)
    (own / "sshd_config").write_text(config, encoding="utf-8")
    (own / "passwd").write_text(_ACCOUNTS.format(folder=folder), encoding="utf-8")
    (own / "shadow").write_text(_LOCKS, encoding="utf-8")


def listen(host: Namespace, folder: Path) -> None:
    """Start sshd inside a host; it listens when this returns, on every address that the host has or will get."""
    host.inside("/usr/sbin/sshd", "-f", str(folder / "login" / "sshd_config"), "-E", str(folder / "sshd.log"))


def refuse(host: Namespace, folder: Path) -> None:
    """End the listener of a host, not the connections that it has let in."""
    host.inside("kill", (folder / "sshd.pid").read_text(encoding="utf-8").strip())


def host_key(folder: Path) -> str:
    """Return a host's public key as known_hosts wants it, without the name."""
    kind, key, *_ = (folder / "login" / "host_key.pub").read_text(encoding="utf-8").split()
    return f"{kind} {key}"


def known_hosts(keys: Mapping[str, str]) -> str:
    """Return a known_hosts file; `keys` maps `address` or `[address]:port` to a host key."""
    return "".join(f"{place} {key}\n" for place, key in keys.items())


def _key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)], check=True)
    return path
