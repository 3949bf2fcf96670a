"""The containers of a practice node, looked at while others come and go."""

from pathlib import Path
from typing import Any

import pytest

from rehearsal import containers
from rehearsal.containers import Container
from rehearsal.faces import standing
from rehearsal.node import read_json, write_json

_NO_PID = 2**22 + 1  # above the kernel's largest


def _container(node: Path, *, remove: bool) -> Container:
    """Make a container whose rank has ended."""
    one = Container(
        root=node / "containers" / "rank0",
        id="1a2b" * 16,
        name="rank0",
        image="serve:1",
        created=containers.stamp(),
        labels={},
        env=(),
        argv=(),
        host={},
        entrypoint=(),
        remove=remove,
    )
    assert containers.create(one)
    one.log.write_text("said\n")
    write_json(one.root / "exit.json", (0, containers.stamp()))
    write_json(one.root / "process.json", (_NO_PID, 0))
    return one


@pytest.mark.parametrize("remove", [False, True])
@pytest.mark.parametrize("moment", ["container.json", "process.json", "exit.json"])
def test_one_that_goes_meanwhile_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, *, remove: bool
) -> None:
    """`docker ps` beside `docker rm` shows the container or does not; it never trips over half of one.

    The daemon looks in the same way once a second, and a node that tripped would be gone for good.
    """
    one = _container(tmp_path, remove=remove)

    def read(path: Path) -> Any:
        if path.name == moment:
            containers.forget(one)
        return read_json(path)

    monkeypatch.setattr(containers, "read_json", read)
    for found in containers.every(tmp_path):
        assert found.status() == containers.Status()
        shown = standing.shown(found)
        assert not shown.is_running
        assert shown.ending[0] in {0, containers.KILLED}
    monkeypatch.undo()
    if moment == "container.json" or remove:
        assert list((tmp_path / "containers").iterdir()) == []


def test_one_that_is_being_made_is_not_there_yet(tmp_path: Path) -> None:
    """A folder without what docker run was told is no container."""
    (tmp_path / "containers" / "rank0").mkdir(parents=True)
    assert containers.every(tmp_path) == ()
