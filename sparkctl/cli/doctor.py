"""`sparkctl doctor`: is this controller fit to work: its tools, the inventory, keys and host keys, and where things are written?"""

import importlib.util
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from bootcheck.findings import Finding, Verdict, exit_code
from ledger.journal import Journal
from sparkctl import edge
from sparkctl.cli.session import Session, verb
from sparkctl.console import Column
from sparkctl.errors import SparkctlError
from sparkctl.line import Line, Node
from sparkctl.units import GIB, gib

NODE = "controller"
LEAST_FREE = GIB
"""A climb of a night writes some 100 MiB of rows and texts. Ours."""

_LIMIT_S = 20.0


@verb
def doctor(
    session: Session,
    offline: Annotated[
        bool, typer.Option("--offline", help="Leave the inventory out; look at this machine alone.")
    ] = False,
) -> int:
    """Say whether this controller is fit to work; no node is asked.

    Tools, inventory, key files, host keys, the state folder and its ledger. Exit 1 when something must be mended first.
    """
    findings = tuple(_findings(session, offline=offline))
    session.console.table(
        (Column(title="look"), Column(title="verdict"), Column(title="measured", fold=True)),
        [(one.gate, one.verdict, one.measured) for one in findings],
    )
    for one in findings:
        if one.verdict != "pass":
            session.console.show(
                f"\n{one.verdict}: {one.gate}: {one.measured}\nwanted: {one.wanted}\nhint: {one.hint}"
            )
    session.console.answer(
        {"ok": all(one.verdict in {"pass", "warn"} for one in findings), "findings": edge.plain(findings)}
    )
    return exit_code(findings)


def _findings(session: Session, *, offline: bool) -> Iterator[Finding]:
    yield _python()
    yield _tool(
        "ssh", "OpenSSH's client, which Ansible speaks through", "sudo apt-get install openssh-client"
    )
    yield _tool("ssh-keygen", "what reads known_hosts", "sudo apt-get install openssh-client")
    yield _ansible()
    yield _state(session.state)
    yield _ledger(session)
    yield from _extras()
    if not offline:
        yield from _inventory(session)


def _python() -> Finding:
    version = sys.version_info[:3]
    fit = (3, 11) <= version[:2] <= (3, 13)
    return _found(
        "python",
        "pass" if fit else "fail",
        ".".join(map(str, version)),
        "3.11 to 3.13",
        "make the environment with another Python",
    )


def _tool(name: str, wanted: str, hint: str) -> Finding:
    path = shutil.which(name)
    return _found(name, "pass" if path else "fail", path or "not on PATH", wanted, hint)


def _ansible() -> Finding:
    """Ansible is called beside this Python, wherever PATH leads."""
    path = Path(sys.executable).with_name("ansible-playbook")
    hint = "install sparkctl into an environment of its own, with its dependencies"
    try:
        ran = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        return _found("ansible", "fail", f"{path}: {fault}", "ansible-playbook beside this Python", hint)
    said = (ran.stdout or ran.stderr).strip().partition("\n")[0]
    return _found(
        "ansible", "pass" if ran.returncode == 0 else "fail", said, "ansible-playbook that runs", hint
    )


def _state(folder: Path) -> Finding:
    """Whether the state folder, or the folder in which it would be made, can be written and has space."""
    there = next((one for one in (folder, *folder.absolute().parents) if one.exists()), Path("/"))
    free = shutil.disk_usage(there).free
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return _found(
            "state",
            "fail",
            f"{there} cannot be written",
            "a folder that can be written",
            "name another with --state",
        )
    verdict: Verdict = "pass" if free >= LEAST_FREE else "warn"
    return _found(
        "state",
        verdict,
        f"{folder}: {gib(free)} free",
        f"at least {gib(LEAST_FREE)}",
        "free some space there",
    )


def _ledger(session: Session) -> Finding:
    path = session.ledger_path
    if not path.exists():
        return _found("ledger", "pass", f"{path}: none yet", "", "")
    try:
        told = Journal(path).glance()
    except SparkctlError as fault:
        return _found("ledger", "fail", fault.message, "a whole chain", fault.hint)
    verdict: Verdict = "warn" if told.warnings else "pass"
    said = told.warnings[0] if told.warnings else f"{path}: {len(told.rows)} rows"
    return _found(
        "ledger", verdict, said, "a whole last line", "the next row written sets the torn end aside"
    )


def _extras() -> Iterator[Finding]:
    for name, what in (("pandas", "ledger export to Parquet"), ("evalplus", "quality --evalplus")):
        there = importlib.util.find_spec(name) is not None
        yield _found(name, "pass", "installed" if there else f"not installed: no {what}", "", "")


def _inventory(session: Session) -> Iterator[Finding]:
    path = session.inventory_path
    if not path.exists():
        hint = "cp inventory.example.yml inventory.yml and put your addresses in; --offline leaves it out"
        yield _found("inventory", "warn", f"{path} is not there", "an inventory of your lines", hint)
        return
    try:
        lines = session.inventory().lines
    except SparkctlError as fault:
        yield _found(
            "inventory",
            "fail",
            fault.message,
            "an inventory that reads",
            fault.hint or "docs/formats.md lists its keys",
        )
        return
    told = ", ".join(f"{line.name} with {len(line.nodes)} nodes" for line in lines)
    yield _found("inventory", "pass", f"{path}: {told}", "", "")
    for line in lines:
        yield from _keys(line)
        yield _host_keys(line)


def _keys(line: Line) -> Iterator[Finding]:
    files = dict.fromkeys(one for one in (*(node.key_file for node in line.nodes), line.api_key_file) if one)
    for name in files:
        path = Path(name).expanduser()
        gate = f"key of line {line.name}"
        if not path.is_file():
            yield _found(
                gate,
                "fail",
                f"{path} is not there",
                "a key file",
                "mend the path in the inventory, or make the key with ssh-keygen",
            )
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        fit = not mode & 0o077
        yield _found(
            gate,
            "pass" if fit else "fail",
            f"{path} has mode {mode:04o}",
            "0600: nobody else reads it",
            f"chmod 600 {path}",
        )


def _host_keys(line: Line) -> Finding:
    """Whether every node's host key is known; ssh refuses one that is not, and sparkctl never adds any."""
    path = Path(line.known_hosts or "~/.ssh/known_hosts").expanduser()
    unknown = [node.name for node in line.nodes if not _is_known(path, node)]
    hint = f"ssh-keyscan HOST >> {path} after comparing the key with the one on the node's console; sparkctl never adds a host key itself"
    said = f"{path} has no key of {', '.join(unknown)}" if unknown else f"{path} has a key of every node"
    return _found(
        f"host keys of line {line.name}",
        "fail" if unknown else "pass",
        said,
        "a known host key of every node",
        hint,
    )


def _is_known(path: Path, node: Node) -> bool:
    if not path.is_file() or not shutil.which("ssh-keygen"):
        return False
    name = node.host if node.port == 22 else f"[{node.host}]:{node.port}"
    ran = subprocess.run(
        ["ssh-keygen", "-F", name, "-f", path], capture_output=True, timeout=_LIMIT_S, check=False
    )
    return ran.returncode == 0


def _found(gate: str, verdict: Verdict, measured: str, wanted: str, hint: str) -> Finding:
    return Finding(
        node=NODE, gate=gate, verdict=verdict, measured=measured, wanted=wanted, origin="ours", hint=hint
    )
