"""docker exec of a practice node: the hash of a file as the rank sees it, through its binds."""

import os
import subprocess
from pathlib import Path

import pytest

from rehearsal import containers, face, layout, processes
from rehearsal.containers import Container
from rehearsal.node import write_json
from rehearsal.scenario import named

OUTSIDE = "/srv/models/DeepSeek-V4.1-Flash-EXL3/config.json"
INSIDE = "/models/x/config.json"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A node with one rank that runs and has a file bound into it."""
    layout.furnish(tmp_path, named("healthy"), "docker-exec-test")
    root = tmp_path / layout.NODES[0]
    rank = Container(
        root=root / "containers" / "rank0",
        id="1a2b" * 16,
        name="rank0",
        image="serve:1",
        created=containers.stamp(),
        labels={},
        env=(),
        argv=(),
        host={"Binds": [f"{OUTSIDE}:{INSIDE}:ro"]},
        entrypoint=(),
        remove=False,
    )
    assert containers.create(rank)
    write_json(rank.root / "process.json", processes.look(os.getpid()))
    return root


def _asked(node: Path, *argv: str) -> tuple[int, str, str]:
    ran = subprocess.run(
        [layout.python(), "-S", "-E", face.__file__, str(node), *argv],
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout, ran.stderr


def test_a_bound_file_has_the_hash_of_its_source(node: Path) -> None:
    """Under the name that it has inside; what is not there is told as sha256sum does."""
    _, outside, _ = _asked(node, "sha256sum", OUTSIDE)
    code, inside, said = _asked(node, "docker", "exec", "rank0", "sha256sum", "--", INSIDE, "/no/file")
    assert inside == f"{outside.split()[0]}  {INSIDE}\n"
    assert (code, said) == (1, "sha256sum: /no/file: No such file or directory\n")


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (("other", "sha256sum", "/x"), 1, "No such container: other"),
        (("rank0", "bash"), 127, '"bash": executable file not found'),
        (("rank0",), 1, "requires at least 1 argument"),
    ],
)
def test_what_cannot_be_run_is_told_in_dockers_words(
    node: Path, argv: tuple[str, ...], code: int, said: str
) -> None:
    """As the daemon says it."""
    ended, _, err = _asked(node, "docker", "exec", *argv)
    assert ended == code
    assert said in err


def test_a_rank_that_has_ended_runs_nothing(node: Path) -> None:
    """Docker exec wants a container that runs."""
    write_json(node / "containers" / "rank0" / "process.json", (2**22 + 1, 0))
    code, _, err = _asked(node, "docker", "exec", "rank0", "sha256sum", INSIDE)
    assert code == 1
    assert "is not running" in err
