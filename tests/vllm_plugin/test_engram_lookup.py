"""Lookup: whatever is asked, and however rows are kept and read, the bytes are those of the plain all-disk path, or nothing comes at all."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")
pytest.importorskip("triton", reason="no Triton here: run by scripts/check --engine")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkctl_vllm.engram import device_lookup, plain_reader, row_format, rows_file
from sparkctl_vllm.engram.membership import LINE_ROWS, Membership
from sparkctl_vllm.engram.reader import Held, Reader, Source
from sparkctl_vllm.engram.rows_file import Meaning
from sparkctl_vllm.engram.staging import Staging
from sparkctl_vllm.refusal import Refusal

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ROWS = 5 * LINE_ROWS + 77
WAYS = [
    {"engine": "uring"},
    {"engine": "uring", "direct": True},
    {"engine": "threads", "threads": 3},
    {"engine": "threads", "threads": 3, "direct": True},
    {"engine": "uring", "late": 16},
    {"engine": "threads", "threads": 2, "late": 64},
]


@pytest.fixture(scope="module")
def table():
    """Rows of made-up bytes, no code of them a NaN."""
    rng = np.random.default_rng(7)
    rows = (
        rng.integers(0, 0x7F, (ROWS, 264), dtype=np.uint8)
        | rng.integers(0, 2, (ROWS, 264), dtype=np.uint8) << 7
    )
    rows[:, 256:] = rng.integers(100, 140, (ROWS, 8), dtype=np.uint8)
    return rows


@pytest.fixture(scope="module")
def disk(table, tmp_path_factory):
    """All rows of a rank in a rows file, and weights and scales apart as in a checkpoint."""
    folder = tmp_path_factory.mktemp("rows")
    meaning = Meaning(
        holds="all", layer=1, rank=1, ranks=4, begin=96000564, end=96000564 + ROWS, rows=ROWS, kind="fp8",
        checkpoint={"header": "aa"},
    )  # fmt: skip
    written = rows_file.write(folder / "all", meaning, None, [table[:1000], table[1000:]])
    apart = folder / "apart"
    apart.write_bytes(b"header!!" + table[:, :256].tobytes() + table[:, 256:].tobytes())
    parts = ((8, 256, 0), (8 + ROWS * 256, 8, 256))
    return Source.of_file(folder / "all", written), Source(path=apart, rows=ROWS, parts=parts)


def opened(source, held=None, **how):
    """A reader, or a skip that says what this kernel or file system lacks."""
    try:
        return Reader(source, held=held, **how)
    except Refusal as refused:
        if how.get("direct") or how["engine"] == "uring":
            pytest.skip(str(refused))
        raise


def hot(table, ids, kind="fp8"):
    """Those rows kept in memory."""
    chosen = np.array(sorted(ids), dtype=np.uint32)
    rows = table[chosen] if kind == "fp8" else row_format.halved(table[chosen])
    return Held(rows=rows, membership=Membership.of(chosen, ROWS), kind=kind)


ID = st.one_of(st.integers(0, ROWS - 1), st.sampled_from([-1, 0, LINE_ROWS - 1, LINE_ROWS, ROWS - 1]))
BATCH = st.lists(ID, max_size=40)
KEPT = st.one_of(
    st.just(frozenset()),
    st.just(frozenset(range(ROWS))),
    st.frozensets(st.integers(0, ROWS - 1), max_size=300),
)


@pytest.mark.parametrize("apart", [False, True], ids=["one read a row", "two reads a row"])
@pytest.mark.parametrize("how", WAYS, ids=str)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kept=KEPT, batches=st.lists(BATCH, min_size=1, max_size=4), expected=BATCH)
def test_bytes_equal_the_all_disk_path(table, disk, how, apart, kept, batches, expected):  # noqa: PLR0913, PLR0917 - fixtures, cases and what is drawn
    """Batches one after the other on one reader: duplicates, holes, the last row, rows of nobody, empty ones, rows that were fetched before."""
    reader = opened(disk[apart], hot(table, kept), **how)
    try:
        reader.begin(np.array(expected, dtype=np.int64), None)
        for batch in batches:
            ids = np.array(batch, dtype=np.int64)
            out = np.full((len(ids), 256), 0xABCD, dtype=np.uint16)
            reader.begin(ids, out)
            reader.wait(out)
            assert (out == plain_reader.read(disk[0], ids)).all()
    finally:
        reader.close()


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kept=KEPT, batches=st.lists(BATCH, min_size=1, max_size=3), expected=BATCH, late=st.sampled_from([0, 16])
)
def test_the_device_path_equals_it_too(table, disk, kept, batches, expected, late):  # noqa: PLR0913, PLR0917 - fixtures, cases and what is drawn
    """Hits decoded by the GPU's kernel, the others read by the CPU and placed by another: the same bytes, and every place is written."""
    held = hot(table, kept)
    resident = device_lookup.Resident(torch.from_numpy(held.rows).to(DEVICE), held.membership, "fp8")
    reader = opened(disk[0], held if kept else None, engine="threads", threads=2, raw=True, late=late)
    try:
        lookup = Staging(resident if kept else None, reader, 40, DEVICE)
        reader.begin(np.array(expected, dtype=np.int64), None)
        for batch in batches:
            ids = np.array(batch, dtype=np.int64)
            staged = torch.full((len(ids), 256), float("nan"), dtype=torch.bfloat16, device=DEVICE)
            lookup.stage(torch.from_numpy(ids).to(DEVICE), staged)
            found = staged.cpu().view(torch.int16).numpy().view(np.uint16)
            assert (found == plain_reader.read(disk[0], ids)).all()
    finally:
        reader.close()


def test_the_cpus_side_is_host_memory_whatever_device_is_the_default(disk):
    """As while vLLM makes a model: on its default device, which here holds nothing, a step would find no byte."""
    reader = opened(disk[0], engine="threads", threads=1, raw=True)
    ids = torch.tensor([3, -1, 5], device=DEVICE)
    staged = torch.full((3, 256), float("nan"), dtype=torch.bfloat16, device=DEVICE)
    with torch.device("meta"):
        made = Staging(None, reader, 3, DEVICE)
        made.stage(ids, staged)
    made.close()
    found = staged.cpu().view(torch.int16).numpy().view(np.uint16)
    assert (found == plain_reader.read(disk[0], np.array([3, -1, 5]))).all()


@settings(max_examples=60, deadline=None)
@given(
    ids=st.frozensets(st.integers(0, 3 * LINE_ROWS)),
    asked=st.lists(st.integers(-2, 3 * LINE_ROWS), max_size=50),
)
def test_membership_is_a_search_among_sorted_ids(ids, asked):
    """A row's place is its place in the sorted list; everything else is -1."""
    chosen = sorted(ids)
    found = Membership.of(np.array(chosen, dtype=np.uint32), 3 * LINE_ROWS + 1)
    wanted = [chosen.index(one) if one in ids else -1 for one in asked]
    assert found.places(np.array(asked, dtype=np.int64)).tolist() == wanted


@pytest.mark.parametrize(
    ("ids", "says"), [([3, 2], "ascending"), ([2, 2], "ascending"), ([1, ROWS], "less than")]
)
def test_resident_ids_that_do_not_fit_are_refused(ids, says):
    """Out of order, one twice, one beyond the rank's rows."""
    with pytest.raises(Refusal, match=says):
        Membership.of(np.array(ids, dtype=np.uint32), ROWS)


def test_a_smaller_copy_is_near_and_the_rest_exact(table, disk):
    """fp4: hits are the fp4 rows to the bit, within an eighth of the group's largest value of the fp8 row; misses are exact."""
    held = hot(table, range(0, ROWS, 2), "fp4")
    reader = opened(disk[0], held, engine="threads", threads=2)
    ids = np.arange(ROWS)
    out = np.zeros((ROWS, 256), dtype=np.uint16)
    reader.begin(ids, out)
    reader.wait(out)
    reader.close()
    exact = plain_reader.read(disk[0], ids)
    assert (out[1::2] == exact[1::2]).all()
    assert (out[::2] == row_format.decode(held.rows, "fp4")).all()
    numbers = row_format.numbers(table[::2]).reshape(-1, 8, 32)
    apart = np.abs(row_format.numbers(held.rows, "fp4").reshape(-1, 8, 32) - numbers).max(axis=2)
    assert (apart <= np.abs(numbers).max(axis=2) / 4).all()
    on_device = device_lookup.Resident(torch.from_numpy(held.rows).to(DEVICE), held.membership, "fp4")
    staged = torch.zeros(ROWS, 256, dtype=torch.bfloat16, device=DEVICE)
    missing = torch.zeros(ROWS, dtype=torch.int32, device=DEVICE)
    count = torch.zeros(1, dtype=torch.int32, device=DEVICE)
    on_device.gather(
        torch.from_numpy(ids).to(DEVICE), staged, device_lookup.Missing(places=missing, count=count)
    )
    assert sorted(missing[: int(count)].tolist()) == list(range(1, ROWS, 2))
    assert (staged[::2].cpu().view(torch.int16).numpy().view(np.uint16) == out[::2]).all()


@pytest.mark.parametrize("engine", ["uring", "threads"])
def test_a_file_that_was_cut_short_gives_no_row(table, disk, tmp_path, engine):
    """A row beyond the end of the file is an error for that batch; nothing reads as zeros, and the next batch is answered."""
    path = tmp_path / "cut"
    path.write_bytes(disk[0].path.read_bytes()[: 4096 + 264 * 100 + 13])
    reader = opened(replace(disk[0], path=path), engine=engine, threads=2)
    out = np.zeros((3, 256), dtype=np.uint16)
    reader.begin(np.array([1, 100, ROWS - 1]), out)
    with pytest.raises(Refusal, match="cut"):
        reader.wait(out)
    reader.begin(np.array([5, 6, 7]), out)
    reader.wait(out)
    reader.close()
    assert (out == row_format.decode(table[5:8])).all()


def test_rows_beyond_the_rank_are_refused(disk):
    """An id of another rank reads nothing."""
    reader = opened(disk[0], engine="threads", threads=1)
    out = np.zeros((1, 256), dtype=np.uint16)
    with pytest.raises(Refusal, match="result"):
        reader.begin(np.array([ROWS]), out)
    reader.close()
    with pytest.raises(Refusal, match="less than"):
        plain_reader.read(disk[0], np.array([ROWS]))


def test_resident_rows_of_another_rank_are_refused(table, disk):
    """Rows counted from another rank's first row would be found under the wrong ids."""
    held = Held(rows=table[:1], membership=Membership.of(np.array([0], dtype=np.uint32), ROWS + 1))
    with pytest.raises(Refusal, match="resident rows"):
        Reader(disk[0], held=held, engine="threads")


def test_resident_rows_that_do_not_lie_together_are_refused(table, disk):
    """Every other row of an array would be read from where the rows between them are."""
    held = Held(rows=table[:20:2], membership=Membership.of(np.arange(10, dtype=np.uint32), ROWS))
    with pytest.raises(Refusal, match="contiguous"):
        Reader(disk[0], held=held, engine="threads")


def test_threads_read_where_io_uring_is_refused(disk, monkeypatch):
    """As in a container whose filter forbids it; asked for by name it is an error that says what to do."""
    real = Reader._opened
    monkeypatch.setattr(
        Reader, "_opened", lambda self, threads: real(self, threads) if threads else (None, 1)
    )
    reader = Reader(disk[0], threads=2)
    out = np.zeros((1, 256), dtype=np.uint16)
    reader.begin(np.array([4]), out)
    reader.wait(out)
    reader.close()
    assert reader.engine == "threads"
    assert (out == plain_reader.read(disk[0], np.array([4]))).all()
    with pytest.raises(Refusal, match="take threads"):
        Reader(disk[0], engine="uring")


def test_more_lookups_than_the_ring_takes(table, disk):
    """A prefill asks for far more rows than io_uring holds at once."""
    reader = opened(disk[1], engine="uring")
    ids = np.tile(np.arange(ROWS), 3)
    out = np.zeros((len(ids), 256), dtype=np.uint16)
    assert reader.begin(ids, out) == ROWS
    reader.wait(out)
    counted = reader.counted()
    reader.close()
    assert (out == row_format.decode(table)[ids]).all()
    assert counted == {"resident": 0, "late": 0, "read": ROWS, "doubles": 2 * ROWS}


def test_readers_give_back_what_they_took(disk):
    """Files, rings and threads are gone after a close."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    for how in ({"engine": "threads", "threads": 4}, {"engine": "uring", "late": 8}):
        opened(disk[0], **how).close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_threads_of_python_read_the_same(disk):
    """The way without a compiler."""
    ids = np.array([3, 3, -1, ROWS - 1, 0])
    assert (plain_reader.read(disk[1], ids, threads=4) == plain_reader.read(disk[0], ids)).all()
