"""What docker logs shows of a practice rank: stamps, a moment to go on from, and the last lines."""

from pathlib import Path

import pytest

from rehearsal.containers import Container
from rehearsal.faces.docker_log import Log


@pytest.fixture
def container(tmp_path: Path) -> Container:
    """A rank that printed three lines, the last of them not to its end, and ended."""
    (tmp_path / "log").write_bytes(b"one\n\rtwo\n\nthr")
    return Container(
        root=tmp_path,
        id="0" * 64,
        name="sparkctl-a-rank0",
        image="i",
        created="2026-11-29T12:00:07.250000000Z",
        labels={},
        env=(),
        argv=(),
        host={},
        entrypoint=(),
        remove=False,
    )


def shown(
    container: Container,
    capsysbinary: pytest.CaptureFixture[bytes],
    *,
    since: str = "",
    last: int | None = None,
) -> list[bytes]:
    """Return the stamped lines."""
    assert Log(container, since=since, is_stamped=True).show(last, follow=False) == 0
    return capsysbinary.readouterr().out.splitlines()


def test_stamps_are_in_order_and_the_same_at_every_look(
    container: Container, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Each line has one, nine digits behind the point."""
    once = shown(container, capsysbinary)
    assert once[0] == b"2026-11-29T12:00:07.000000000Z one"
    assert once[-1] == b"2026-11-29T12:00:07.003000000Z thr"
    assert shown(container, capsysbinary) == once
    assert Log(container, since="", is_stamped=False).show(None, follow=False) == 0
    assert capsysbinary.readouterr().out == container.log.read_bytes()


def test_a_log_goes_on_from_a_moment(
    container: Container, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The line of that very moment comes again, as docker gives it; the last lines are the last of what is left."""
    told = shown(container, capsysbinary, since="2026-11-29T12:00:07.002000000Z")
    assert [line.partition(b"Z ")[2] for line in told] == [b"", b"thr"]
    assert shown(container, capsysbinary, last=1) == told[1:]


def test_what_is_followed_ends_with_the_container(
    container: Container, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Its last words come too, also without a line's end, and nothing comes twice."""
    assert Log(container, since="", is_stamped=True).show(None, follow=True) == 0
    assert [line[-3:] for line in capsysbinary.readouterr().out.splitlines() if line[-1:] != b" "][
        -1
    ] == b"thr"
