"""The file: appending, reading, verifying, and what crashes and other processes may do to it."""

import fcntl
import io
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.entry import KINDS
from ledger.journal import Journal
from ledger.tail import last_line
from sparkctl.errors import LedgerFault

AT = "2026-09-11T11:38:00Z"
V1 = Path(__file__).parent / "journals" / "v1.jsonl"
ROOT = Path(__file__).parents[2]
WHOLE = V1.read_bytes()
ENDS = [position + 1 for position, byte in enumerate(WHOLE) if byte == ord("\n")]


def _step(journal: Journal, text: str) -> None:
    journal.append("alarm", "A", {"simulated": True, "text": text}, AT)


def _texts(journal: Journal) -> list[object]:
    return [row.body["text"] for row in journal.read().rows]


def _appended(path: Path, name: str, start: Barrier) -> None:
    start.wait(30)
    for number in range(50):
        _step(Journal(path), f"{name}{number}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples of a property."""
    return tmp_path_factory.mktemp("cuts")


def _file(folder: Path, raw: bytes) -> Journal:
    for left in folder.iterdir():
        left.unlink()
    path = folder / "ledger.jsonl"
    path.write_bytes(raw)
    return Journal(path, wait_s=1.0)


def test_an_old_ledger_reads_and_verifies() -> None:
    """A ledger written by the first version, with every kind of row, reads for ever and its chain is whole."""
    found = Journal(V1).read()
    assert found.warnings == ()
    assert {row.kind for row in found.rows} == set(KINDS)
    audit = Journal(V1).verify()
    assert (audit.rows, audit.breaks, audit.warnings) == (len(found.rows), (), ())
    assert audit.head == found.rows[-1].hash


def test_no_file_is_an_empty_ledger(journal: Journal) -> None:
    """Reading makes nothing: neither the folder nor a lock."""
    assert journal.read().rows == ()
    assert not journal.path.parent.exists()


def test_what_was_appended_is_read(journal: Journal) -> None:
    """Rows come back in order, as they were returned, from a folder that append made."""
    rows = tuple(journal.append("alarm", "A", {"simulated": True, "k": n}, AT) for n in range(3))
    assert journal.read().rows == rows
    assert journal.verify().breaks == ()


def test_a_long_last_row_is_found_from_the_end(journal: Journal) -> None:
    """A row longer than the blocks the end is read in is chained on all the same."""
    for text in ("a" * 200_000, "b", "c" * 65_536, "d"):
        _step(journal, text)
    assert len(journal.read().rows) == 4


@settings(deadline=None)  # each example syncs a file
@given(st.integers(0, len(WHOLE)))
def test_any_cut_keeps_every_complete_row(folder: Path, cut: int) -> None:
    """Wherever a crash cuts the file, whole rows stay, one warning tells of the rest, and the next row goes on."""
    journal = _file(folder, WHOLE[:cut])
    complete = [end for end in ENDS if end - 1 <= cut]
    found = journal.read()
    assert len(found.rows) == len(complete)
    assert len(found.warnings) == (0 if cut in {0, *ENDS} else 1)
    assert journal.verify().breaks == ()
    _step(journal, "after")
    assert journal.read().warnings == ()
    assert len(journal.read().rows) == len(complete) + 1
    torn = cut - (complete[-1] if complete else 0)
    aside = [one.read_bytes() for one in folder.glob("*.torn-*")]
    assert aside == ([WHOLE[cut - torn : cut]] if torn > 0 else [])


@settings(deadline=None)  # each example syncs a file
@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_any_changed_byte_is_found(folder: Path, position: int, flip: int) -> None:
    """No byte of the file can change unseen."""
    raw = bytearray(WHOLE)
    raw[position] ^= flip
    audit = _file(folder, bytes(raw)).verify()
    assert audit.breaks or audit.warnings


@settings(deadline=None)  # each example syncs a file
@given(st.integers(0, len(WHOLE) - 2), st.integers(1, 255))
def test_a_changed_byte_is_never_read_as_a_figure(folder: Path, position: int, flip: int) -> None:
    """Reading refuses a changed ledger, or leaves out a last line that looks torn and says so."""
    raw = bytearray(WHOLE)
    raw[position] ^= flip
    journal = _file(folder, bytes(raw))
    try:
        found = journal.read()
    except LedgerFault:
        return
    assert found.warnings
    assert found.rows == Journal(V1).read().rows[: len(found.rows)]


@pytest.mark.parametrize(
    "tail",
    [b"\0" * 4096, b'{"n":14,"at":"2026', b'{"n":14,"at":"2026\n', b'{"n":14\0\0\0\0\n', b"\0\n"],
    ids=["nul", "half", "half-ended", "half-nul", "nul-ended"],
)
def test_a_torn_tail_is_set_aside(folder: Path, tail: bytes) -> None:
    """NUL bytes and half a row are left out with a warning, then moved to a file beside before the next row."""
    journal = _file(folder, WHOLE + tail)
    found = journal.read()
    assert len(found.rows) == len(ENDS)
    assert len(found.warnings) == 1
    assert "torn" in found.warnings[0]
    _step(journal, "after")
    assert (folder / "ledger.jsonl.torn-20260911T113800Z").read_bytes() == tail
    assert journal.path.read_bytes().startswith(WHOLE + b'{"n":%d,' % (len(ENDS) + 1))


def test_nul_bytes_after_a_whole_row_cost_nothing(folder: Path) -> None:
    """A last row that lost only its line end to NUL bytes is whole and kept."""
    journal = _file(folder, WHOLE[:-1] + b"\0\0\0")
    assert len(journal.read().rows) == len(ENDS)
    _step(journal, "after")
    assert journal.path.read_bytes().startswith(WHOLE)


def test_two_tears_at_the_same_time_are_both_kept(folder: Path) -> None:
    """A second torn end of the same second gets a file of its own."""
    journal = _file(folder, WHOLE)
    for tail in (b"{first", b"{second"):
        with journal.path.open("ab") as file:
            file.write(tail)
        _step(journal, "after")
    assert sorted(one.read_bytes() for one in folder.glob("*.torn-*")) == [b"{first", b"{second"]


@pytest.mark.parametrize("line", [1, 5, 12])
def test_a_broken_line_in_the_middle_is_a_fault(folder: Path, line: int) -> None:
    """A half line that others follow is not a tear: reading names it, verifying lists it and goes on."""
    lines = WHOLE.splitlines(keepends=True)
    lines[line - 1] = lines[line - 1][:40] + b"\n"
    journal = _file(folder, b"".join(lines))
    with pytest.raises(LedgerFault, match=f"ledger.jsonl: line {line}: not JSON") as caught:
        journal.read()
    assert "ledger verify" in caught.value.hint
    (broken,) = journal.verify().breaks
    assert (broken.line, broken.what) == (line, "row")


def test_a_changed_last_row_is_not_built_upon(folder: Path) -> None:
    """Appending to a row whose hash does not fit is refused, and the file stays as it is."""
    raw = WHOLE.replace(b'"reported":true', b'"reported":true ', 1)
    assert raw != WHOLE
    journal = _file(folder, raw)
    with pytest.raises(LedgerFault, match="last line"):
        _step(journal, "after")
    assert journal.path.read_bytes() == raw


def test_a_forged_row_is_named(folder: Path) -> None:
    """A changed figure in a well-formed line is a fault for readers and a break with its line for verify."""
    journal = _file(folder, WHOLE.replace(b'"value":61.9', b'"value":71.9', 1))
    with pytest.raises(LedgerFault, match="line 5: hash of this row"):
        journal.read()
    (broken,) = journal.verify().breaks
    assert broken.line == 5


def test_a_foreign_file_is_left_alone(folder: Path) -> None:
    """A file that is no ledger is neither read nor appended to nor cut."""
    journal = _file(folder, b"shopping list\n")
    for use in (journal.read, lambda: _step(journal, "x")):
        with pytest.raises(LedgerFault, match="not JSON"):
            use()
    assert journal.path.read_bytes() == b"shopping list\n"
    assert journal.verify().breaks


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "simulated: the key is missing"),
        ({"simulated": True, "value": float("nan")}, "plain finite JSON"),
    ],
)
def test_a_wrong_row_is_never_written(journal: Journal, body: dict[str, float], words: str) -> None:
    """A body without its label or with NaN is refused, and the ledger goes on with the next row."""
    _step(journal, "a")
    before = journal.path.read_bytes()
    with pytest.raises(LedgerFault, match=words):
        journal.append("alarm", "A", body, AT)
    assert journal.path.read_bytes() == before


def test_two_processes_make_one_chain(journal: Journal) -> None:
    """Two processes that append fifty rows each leave one whole chain, each one's rows in their order."""
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(2)
    both = [spawn.Process(target=_appended, args=(journal.path, name, start)) for name in "ab"]
    for one in both:
        one.start()
    for one in both:
        one.join(30)
        assert one.exitcode == 0
    assert journal.verify().breaks == ()
    texts = _texts(journal)
    for name in "ab":
        assert [text for text in texts if str(text).startswith(name)] == [f"{name}{n}" for n in range(50)]


def test_a_killed_writer_leaves_a_readable_ledger(journal: Journal) -> None:
    """Killing a process in the middle of its appends costs no row it reported, and the lock is free again."""
    program = (
        "import sys\nfrom pathlib import Path\nfrom ledger.journal import Journal\n"
        "for n in range(100000):\n"
        "    Journal(Path(sys.argv[1])).append('alarm', 'A', {'simulated': True, 'text': 'x' * 5000}, sys.argv[2])\n"
        "    print(n, flush=True)\n"
    )
    argv = [sys.executable, "-c", program, str(journal.path), AT]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        told = [writer.stdout.readline() for _ in range(20)]
        writer.send_signal(signal.SIGKILL)
    found = journal.read()
    assert len(found.rows) >= len(told)
    _step(journal, "after")
    assert journal.verify().breaks == ()
    assert _texts(journal)[-1] == "after"


class Reads(io.BytesIO):
    """A file that counts the bytes read from it."""

    def __init__(self, file: io.FileIO) -> None:
        super().__init__(file.read())
        self.total = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Read and count."""
        found = super().read(size)
        self.total += len(found)
        return found


@contextmanager
def _held(path: Path) -> Iterator[None]:
    handle = os.open(path.with_name(path.name + ".lock"), os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        os.pwrite(handle, b"4242\n", 0)
        yield
    finally:
        os.close(handle)


def test_a_held_lock_names_its_holder(journal: Journal) -> None:
    """Whoever waits in vain learns how long and for which process, readers as well as writers."""
    _step(journal, "a")
    waiting = Journal(journal.path, wait_s=0.05)
    with _held(journal.path):
        for use in (lambda: _step(waiting, "b"), waiting.read, waiting.verify):
            with pytest.raises(LedgerFault, match=r"locked for more than 0.05 s") as caught:
                use()
            assert "process 4242 holds it" in caught.value.hint
    _step(journal, "b")
    assert _texts(journal) == ["a", "b"]


def test_a_full_disk_costs_no_row(journal: Journal) -> None:
    """A write that the disk refuses half way is taken back and told; with room again the ledger goes on."""
    _step(journal, "a")
    before = journal.path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, hard))
    try:
        with pytest.raises(LedgerFault, match="cannot be written") as caught:
            _step(journal, "b" * 500)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "no row was lost" in caught.value.hint
    assert journal.path.read_bytes() == before
    _step(journal, "b")
    assert _texts(journal) == ["a", "b"]


def test_a_state_folder_that_is_none_is_told(tmp_path: Path) -> None:
    """A file where the folder should be, or a folder where the file should be, is a fault and no traceback."""
    (tmp_path / "state").write_text("")
    with pytest.raises(LedgerFault, match="cannot be written"):
        _step(Journal(tmp_path / "state" / "ledger.jsonl"), "a")
    with pytest.raises(LedgerFault, match="cannot be read: Is a directory"):
        Journal(tmp_path).read()


def test_appending_reads_only_the_end(tmp_path: Path) -> None:
    """The last line of a long file is found by reading two blocks at most, wherever lines and blocks begin."""
    path = tmp_path / "long"
    for length in (10, 65_535, 65_536, 65_537):
        path.write_bytes(b"x" * 1_000_000 + b"\n" + b"y" * length + b"\n")
        with path.open("rb", buffering=0) as file:
            reads = Reads(file)
            start, piece, ended = last_line(reads, path.stat().st_size)
        assert (start, piece, ended) == (1_000_001, b"y" * length, True)
        assert reads.total <= 2 * 65_536
