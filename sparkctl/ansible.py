"""The doorway through which nodes are changed and read in bulk: run a playbook, give typed answers.

Answers are read from events, never from the return code alone. Nobody else knows ansible-runner.
"""

import hashlib
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sparkctl import content, interrupts, unreachable
from sparkctl.errors import Interrupted, Unclear
from sparkctl.line import Line

Status = Literal["ok", "failed", "unreachable", "skipped"]

# Ansible's own task before a role with argument specs.
_VALIDATION = "Validating arguments against arg spec"

# In the environment of every process that a playbook starts here: of which run it is, and which line it changes.
_MARK = "SPARKCTL_RUN"
_CHANGES = "SPARKCTL_CHANGES"

_FOLDER = "sparkctl-run-"
"""Beginning of the name of a run's folder, which holds its variables; the controller's pid follows."""

_READS = frozenset({"probe"})
"""Playbooks that change nothing: they run without the line's lock, beside whoever holds it."""

_STATUS: Mapping[str, Status] = {
    "runner_on_ok": "ok",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
    "runner_on_skipped": "skipped",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one host said to one task; `result` is the module's own result."""

    host: str
    task: str
    status: Status
    changed: bool
    message: str
    seconds: float
    result: Mapping[str, Any]


def run(
    playbook: str,
    line: Line,
    variables: Mapping[str, object],
    *,
    report: Callable[[Answer], None] = lambda _: None,
) -> tuple[Answer, ...]:
    """Run a playbook on the nodes of a line and return every host's answer to every task.

    `variables` travel in a file of mode 0600, so that they keep their types and stay out of argv; no text in them is
    taken for a template (docker's own `--format {{json .}}` would be one).

    Raises:
        Interrupted: SIGINT came; ansible-playbook was ended first.
        Unclear: ansible-playbook broke off without saying which host failed.

    """
    answers: list[Answer] = []

    def take(event: Mapping[str, Any]) -> bool:
        answer = _answer(event)
        if answer:
            answers.append(answer)
            report(answer)
        return False  # ansible-runner need not keep the event on disk

    said = _play(playbook, line, variables, take)
    if said and not any(one.status in {"failed", "unreachable"} for one in answers):
        raise Unclear(
            f"{playbook}.yml {said}",
            hint="run ansible-playbook --version; ansible-core must be installed beside sparkctl",
        )
    return tuple(answers)


def _play(
    playbook: str, line: Line, variables: Mapping[str, object], take: Callable[[Mapping[str, Any]], bool]
) -> str:
    """Run ansible-playbook, hand every event to `take`, and return how it ended; empty when all went well."""
    import ansible_runner  # noqa: PLC0415  # 0.1 s that a plan must not pay

    with (
        tempfile.TemporaryDirectory(prefix=f"{_FOLDER}{os.getpid()}-") as folder,
        interrupts.noted() as interrupted,
    ):
        _write_variables(Path(folder), variables)
        environment = _environment(line) | {_MARK: uuid.uuid4().hex}
        if playbook not in _READS:
            environment[_CHANGES] = line.identity
        ran = ansible_runner.run(
            private_data_dir=folder,
            playbook=str(content.playbook(playbook)),
            inventory=line.source,
            limit=",".join(node.name for node in line.nodes),
            envvars=environment,
            event_handler=take,
            cancel_callback=interrupted.is_set,
            quiet=True,
            # How often the runner looks whether we were interrupted; its own default is 5 s.
            settings={"pexpect_timeout": 1},
        )
        if interrupted.is_set():
            _end_marked(_MARK, environment[_MARK])
            raise Interrupted(
                f"interrupted while {playbook}.yml ran; what was done until then is kept",
                hint="sparkctl status says what runs; tune --resume goes on with a climb",
            )
        if ran.status == "successful":
            return ""
        with ran.stdout as stream:
            last = " ".join(stream.read().strip().splitlines()[-5:])
        return f"ended with {ran.status}, rc {ran.rc}: {last or 'no output'}"


def describe(answer: Answer) -> str:
    """Say in a few words what a host has done, for progress; empty for what is no step of ours."""
    if answer.status != "ok" or answer.task.startswith(_VALIDATION):
        return ""
    return f"{answer.host}: {answer.task}"


def explain(answer: Answer) -> tuple[str, str]:
    """Return what went wrong on a host and the remedy: a known trouble, or the module's own words.

    A task that failed ran on the node: its words are those of the node's tools, whatever they have in common with SSH's.
    """
    # A loop says that one of its items failed; which and why stands with the item.
    items = answer.result.get("results")
    failed = [one for one in items if one.get("failed")] if isinstance(items, list) else []
    message = str(failed[0].get("msg", "")) if failed else answer.message
    parts = (
        message,
        str(answer.result.get("module_stderr", "")),
        str(answer.result.get("module_stdout", "")),
    )
    text = "\n".join(part for part in parts if part)
    answered = answer.status == "failed"
    if answered and message and unreachable.explain(text, answered=True) is None:
        return message, ""
    return unreachable.say(text, answered=answered)


def _write_variables(folder: Path, variables: Mapping[str, object]) -> None:
    (folder / "env").mkdir()
    path = folder / "env" / "extravars"
    path.touch(mode=0o600)
    path.write_text(json.dumps(_as_text(variables)), encoding="utf-8")


def _as_text(value: object) -> object:
    """Mark every text as one that Ansible takes as it is: no template, and no number or truth value that looks like it.

    Note: YAML's `!unsafe` tag would not do: Ansible resolves what stands under it anew, and `"no"` becomes False.
    """
    match value:
        case str():
            return {"__ansible_unsafe": value}
        case Mapping():
            return {name: _as_text(one) for name, one in value.items()}
        case list() | tuple():
            return [_as_text(one) for one in value]
        case _:
            return value


def _environment(line: Line) -> dict[str, str]:
    environment = {
        # ansible-runner finds ansible-playbook on PATH only, and says nothing (rc 127) when it is not there.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "ANSIBLE_CONFIG": str(content.root() / "playbooks" / "ansible.cfg"),
        # ansible-runner turns host key checking off unless the environment says otherwise, whatever the config says.
        "ANSIBLE_HOST_KEY_CHECKING": "True",
    }
    # A connection that is kept open was let in by the keys of its time: other keys, other connections.
    environment["ANSIBLE_SSH_CONTROL_PATH"] = f"%(directory)s/{_keys_mark(line)}-%%C"
    if line.known_hosts:
        # ssh splits this option's value at blanks itself, hence the inner quotes.
        option = f'UserKnownHostsFile="{line.known_hosts}"'
        environment["ANSIBLE_SSH_COMMON_ARGS"] = shlex.join(["-o", option])
    return environment


def _keys_mark(line: Line) -> str:
    """Return a short digest of everything that lets us in: known_hosts and every node's key file."""
    marked = hashlib.sha256()
    paths = [line.known_hosts, *(node.key_file for node in line.nodes)]
    for path in [Path(path) for path in paths if path]:
        marked.update(str(path).encode())
        marked.update(path.read_bytes() if path.is_file() and os.access(path, os.R_OK) else b"unreadable")
    return marked.hexdigest()[:8]


def _answer(event: Mapping[str, Any]) -> Answer | None:
    status = _STATUS.get(event.get("event", ""))
    if status is None:
        return None
    data = event["event_data"]
    result = data.get("res") or {}
    return Answer(
        host=data["host"],
        task=data["task"],
        status=status,
        changed=bool(result.get("changed", False)),
        message=str(result.get("msg", "")),
        seconds=float(data.get("duration") or 0.0),
        result=result,
    )


def end_orphans(line: Line) -> int:
    """Kill what a controller that died left of its Ansible; return how many processes that were.

    Only for who holds the line's lock: nobody else can be changing it then. The variables of dead controllers go too.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        pid = folder.name.removeprefix(_FOLDER).partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists() and folder.stat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)
    return _end_marked(_CHANGES, line.identity)


def _end_marked(name: str, value: str) -> int:
    """Kill the processes that carry the mark in their environment, this one excepted; return how many.

    An interrupted ansible-playbook leaves workers with sessions of their own that wait for ever.
    """
    wanted, ended = f"{name}={value}".encode(), 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            # ssh's own masters are kept: they change nothing and spare the next run its logins.
            if b"[mux]" in (entry / "cmdline").read_bytes():
                continue
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
                ended += 1
    return ended
