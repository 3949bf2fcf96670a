"""One namespace: its own network, processes, mounts and name, alive as long as we hold it."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rehearsal.hosts import init, machine
from rehearsal.layout import python
from sparkctl.errors import Unclear

_KINDS = ("--net", "--pid", "--fork", "--mount", "--uts", "--ipc", "--kill-child")
_END_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A running namespace; `pid` is its first process as this machine counts."""

    name: str
    pid: int
    life: "subprocess.Popen[str]"

    def network(self, *argv: str, said: str = "") -> str:
        """Run a tool of this machine on the namespace's network."""
        return machine.command(("nsenter", "-t", str(self.pid), "-n", *argv), said=said)

    def batch(self, tool: str, lines: Sequence[str]) -> None:
        """Let `ip` or `tc` carry out many lines in one process."""
        if lines:
            self.network(tool, "-batch", "-", said="\n".join(lines) + "\n")

    def inside(self, *argv: str) -> str:
        """Run a tool as a process of the namespace."""
        return machine.command(("nsenter", "-t", str(self.pid), "-m", "-u", "-i", "-n", "-p", *argv))

    def end(self) -> None:
        """End every process of the namespace, and with the last of them the namespace; twice is no fault."""
        assert self.life.stdin is not None  # noqa: S101 - it was asked for as a pipe
        assert self.life.stdout is not None  # noqa: S101 - likewise
        self.life.stdin.close()
        try:
            self.life.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.life.kill()  # takes its child along, see --kill-child
            self.life.wait(_END_S)
        self.life.stdout.close()


def start(name: str, folder: Path | None = None) -> Namespace:
    """Start a namespace; with a folder it is furnished as a host that may write to that folder only.

    Raises:
        Unclear: the kernel or a mount refused.

    """
    life = subprocess.Popen(
        ["unshare", *_KINDS, python(), "-I", "-S", init.__file__, name, str(folder or "")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a Ctrl-C is for whoever raised the hosts, who then ends them in order
        env={"PATH": machine.PATH, "LANG": "C.UTF-8"},
    )
    assert life.stdout is not None  # noqa: S101 - it was asked for as a pipe
    assert life.stderr is not None  # noqa: S101 - likewise
    first = life.stdout.readline().strip()
    if not first:
        _, said = life.communicate()
        raise Unclear(
            f"namespace {name} did not start: {said.strip()}", hint="obstacle() says what is needed"
        )
    life.stderr.close()
    return Namespace(name=name, pid=int(first), life=life)
