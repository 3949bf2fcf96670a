"""From text to hot rows: counts that merge and go on, coverage by other text, and files that load whole or not at all."""

import json
import os
import re
import signal
import struct
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")
tokenizers = pytest.importorskip("tokenizers", reason="no tokenizers here: run by scripts/check --engine")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkctl_vllm import cli
from sparkctl_vllm.cli import engram as verbs
from sparkctl_vllm.cli import engram_count
from sparkctl_vllm.engram import (
    checkpoint,
    corpus,
    counts,
    coverage,
    definition,
    hot_rows,
    rows_file,
    steps,
    vocabulary,
)
from sparkctl_vllm.engram.counts import Corpus, Counted, Ledger, Tally
from sparkctl_vllm.engram.tables import tables
from sparkctl_vllm.refusal import Refusal

WORDS = ["<pad>", "a", "A", "\u00e1", "b", " b", "c d", "c\n\td", " ", "\u00e9\u00e8", "E\u0301e", "\ufffd"]
CLASSES = 7
"""a, A and \u00e1 read alike, as do "b" and " b", both of "c d", and two e with any accents; a broken byte stands for itself."""
TINY = tables(
    layers=(1, 14), least=1000, most_order=4, heads=2, pad=0, vocabulary=CLASSES,
    multipliers=((76632096046245, 4839876093313, 35959672319349, 7), (5, 51510806800915, 11, 82619226485591)),
)  # fmt: skip
TABLE = TINY[0]
OWNED = TABLE.slices(2)[1]


@pytest.fixture(scope="module")
def rows():
    """Rows of the first table."""
    rng = np.random.default_rng(3)
    return rng.integers(0, 0x7F, (TABLE.rows, 264), dtype=np.uint8)


def checkpoint_of(path, rows, holes=()):
    """A safetensors file with a table, and holes at these ranges of its weights."""
    shapes = {"weight": ("F8_E4M3", 256), "scale": ("F8_E8M0", 8)}
    header, at = {}, 0
    for part, (dtype, width) in shapes.items():
        size = len(rows) * width
        header[f"layers.1.engram.embed.{part}"] = {
            "dtype": dtype,
            "shape": [len(rows), width],
            "data_offsets": [at, at + size],
        }
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 4096)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        body = rows[:, :256].tobytes() + rows[:, 256:].tobytes()
        place = 0
        for begin, end in (*holes, (len(body), len(body))):
            file.write(body[place:begin])
            file.seek(end - begin, os.SEEK_CUR)
            place = end
        file.truncate()
    return path


@pytest.fixture
def model(tmp_path, rows):
    """A checkpoint's file."""
    return checkpoint_of(tmp_path / "model-00047-of-00048.safetensors", rows)


@pytest.fixture
def tokenizer(tmp_path):
    """A tokenizer of a few words."""
    made = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="<pad>")
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Split("|", "removed")
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_tokens_that_read_alike_share_a_class(tokenizer):
    """Case, accents and blanks do not tell words apart; classes are numbered as they appear."""
    found, _ = vocabulary.read(tokenizer, CLASSES, len(WORDS))
    assert found.map.tolist() == [0, 1, 1, 1, 2, 2, 3, 3, 4, 5, 5, 6]


def test_another_models_tokenizer_is_refused(tokenizer):
    """Every row depends on the number of classes."""
    with pytest.raises(Refusal, match="classes"):
        vocabulary.read(tokenizer, 99_092, len(WORDS))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"\xff", "a tokenizer.json"),
        (b"{", "a tokenizer.json"),
        (b"[]", "a JSON object"),
        (b"{}", "model"),
        (b'{"model": {"vocab": {"a": "b"}}}', "vocab"),
        (b'{"model": {"vocab": {"a": 0}, "merges": 3}}', "merges"),
        (b'{"model": {"vocab": {"a": 0}}, "added_tokens": [{}]}', "added_tokens"),
        (b'{"model": {"vocab": {"a": 0}}, "added_tokens": [], "decoder": {}}', "decoder"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path, text, says):
    """By its parts, before the library sees it."""
    path = tmp_path / "tokenizer.json"
    path.write_bytes(text)
    with pytest.raises(Refusal, match=says):
        vocabulary.read(path, CLASSES, len(WORDS))


TEXTS = st.lists(st.lists(st.integers(0, CLASSES - 1), max_size=9), max_size=6)


def tally_of(texts, table=TABLE):
    """Counts of compressed texts."""
    tally = Tally([table])
    flat = np.array([one for text in texts for one in text], dtype=np.int64)
    begins = np.cumsum([0, *map(len, texts)])[:-1]
    tally.count(flat, np.repeat(begins, [len(text) for text in texts]).astype(np.int64))
    return tally


@settings(max_examples=50, deadline=None)
@given(texts=TEXTS)
def test_counts_are_those_of_the_definition(texts):
    """Every row of every token, each text for itself."""
    wanted = np.zeros(TABLE.rows, dtype=np.int64)
    for text in texts:
        for token in definition.rows_of(TABLE, [], text):
            np.add.at(wanted, token, 1)
    found = tally_of(texts).ledger().tables[1]
    assert found.ids.tolist() == np.flatnonzero(wanted).tolist()
    assert found.counts.tolist() == wanted[wanted > 0].tolist()
    assert found.lookups == sum(map(len, texts)) * TABLE.columns


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=TEXTS, others=TEXTS)
def test_counts_of_two_nodes_add_up(tmp_path, texts, others):
    """Written, read and merged they are those of both texts counted on one node."""
    files = []
    for name, own in (("a", texts), ("b", others)):
        tally = tally_of(own)
        tally.progress(Corpus(name=name, fingerprint=name, tokens=sum(map(len, own)), whole=True))
        counts.write(tmp_path / name, tally.ledger())
        files.append(counts.read(tmp_path / name))
    both, whole = counts.merged([TABLE], files), tally_of([*texts, *others]).ledger()
    assert both.tables[1].ids.tolist() == whole.tables[1].ids.tolist()
    assert both.tables[1].counts.tolist() == whole.tables[1].counts.tolist()
    assert [one.name for one in both.corpora] == ["a", "b"]
    with pytest.raises(Refusal, match="already counted"):
        counts.merged([TABLE], [files[0], both])


def test_coverage_is_judged_by_other_text():
    """The rows that one file chose, weighed by the other's lookups; the same corpus in both is refused."""
    chosen = Ledger(
        tables={1: Counted(rows=10, ids=np.array([1, 4, 7], dtype=np.uint32), counts=np.array([5, 9, 5], dtype=np.uint32))},
        corpora=(Corpus(name="a", fingerprint="a"),),
    )  # fmt: skip
    judged = Ledger(
        tables={1: Counted(rows=10, ids=np.array([4, 7, 9], dtype=np.uint32), counts=np.array([2, 3, 5], dtype=np.uint32))},
        corpora=(Corpus(name="b", fingerprint="b"),),
    )  # fmt: skip
    found = coverage.covered(chosen, judged, (1, 2, 3, 99))
    assert [one.share for one in found] == [0.2, 0.2, 0.5, 0.5]
    assert chosen.tables[1].hottest(2).tolist() == [1, 4]
    with pytest.raises(Refusal, match="also chose"):
        coverage.covered(chosen, chosen, (1,))


@pytest.mark.parametrize("kind", ["fp8", "fp4"])
def test_packed_rows_are_the_checkpoints(tmp_path, model, rows, kind):
    """Hot rows by rank, weight and scale adjacent; and all rows of the rank; both load and are bound to this checkpoint."""
    found = checkpoint.shard(model, 1)
    bound = checkpoint.identity(found, OWNED)
    ids = np.array([0, 1, 5, 17, OWNED.rows - 1], dtype=np.uint32)
    hot_rows.pack(tmp_path / "hot", found, OWNED, ids, kind=kind, counts="cc")
    held = hot_rows.held(tmp_path / "hot", OWNED, bound)
    exact = rows[OWNED.begin + ids.astype(np.int64)]
    assert (held.rows == (exact if kind == "fp8" else hot_rows.halved(exact))).all()
    assert held.membership.places(np.array([5, 6])).tolist() == [2, -1]
    hot_rows.all_rows(tmp_path / "all", found, OWNED)
    source = hot_rows.source(tmp_path / "all", OWNED, bound)
    ((at, _, _),) = source.parts
    assert (
        np.fromfile(tmp_path / "all", np.uint8)[at : at + OWNED.rows * 264].reshape(-1, 264)
        == rows[OWNED.begin : OWNED.end]
    ).all()


def test_only_this_ranks_share_of_the_hottest():
    """The table's hottest rows, less those of other ranks, counted from the rank's first row."""
    ids = np.array([3, OWNED.begin, OWNED.begin + 7, OWNED.end - 1], dtype=np.uint32)
    counted = Counted(rows=TABLE.rows, ids=ids, counts=np.array([9, 1, 5, 7], dtype=np.uint32))
    assert hot_rows.of_rank(counted, 3, OWNED).tolist() == [7, OWNED.rows - 1]


def hole(whole, meaning):
    """The rows' pages given back: they read as zeros."""
    return whole[: meaning.rows_at], meaning.size


SPOILED = {
    "cut short": (lambda whole, _: (whole[:-1], None), "size"),
    "one byte": (lambda whole, meaning: (flipped(whole, meaning.rows_at + 9), None), "SHA-256 of its rows"),
    "one id": (lambda whole, meaning: (flipped(whole, meaning.ids_at), None), "SHA-256 of its ids"),
    "a hole": (hole, "a hole"),
    "empty": (lambda _whole, _meaning: (b"", None), "no rows file"),
    "another schema": (lambda whole, _: (whole.replace(b'"schema": 1', b'"schema": 2'), None), "schema"),
    "another key": (lambda whole, _: (whole.replace(b'"schema"', b'"scheme"'), None), "first page"),
}


def flipped(whole, at):
    """One bit changed."""
    return whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]


@pytest.mark.parametrize("how", SPOILED)
def test_a_spoiled_file_is_refused(tmp_path, model, how):
    """Changed, cut or sparse: nothing of it is served."""
    found = checkpoint.shard(model, 1)
    path = tmp_path / "hot"
    meaning = hot_rows.pack(path, found, OWNED, np.arange(40, dtype=np.uint32), kind="fp8", counts="cc")
    spoil, says = SPOILED[how]
    content, size = spoil(path.read_bytes(), meaning)
    path.write_bytes(content)
    if size:
        os.truncate(path, size)
    with pytest.raises(Refusal, match=says):
        hot_rows.held(path, OWNED, checkpoint.identity(found, OWNED))


def test_a_foreign_file_is_refused(tmp_path, model):
    """Missing, of another rank, table or checkpoint, or with all rows where hot ones are wanted."""
    found = checkpoint.shard(model, 1)
    bound = dict(checkpoint.identity(found, OWNED))
    path = tmp_path / "hot"
    with pytest.raises(Refusal, match="no such file"):
        hot_rows.held(path, OWNED, bound)
    hot_rows.pack(path, found, OWNED, np.arange(40, dtype=np.uint32), kind="fp8", counts="cc")
    for owned, checked, says in (
        (TABLE.slices(2)[0], bound, "rank: 1, allowed: 0"),
        (TINY[1].slices(2)[1], bound, "layer: 1, allowed: 14"),
        (TABLE.slices(1)[0], bound, "rank"),
        (OWNED, {**bound, "samples": "dd"}, "checkpoint"),
    ):
        with pytest.raises(Refusal, match=says):
            hot_rows.held(path, owned, checked)
    hot_rows.all_rows(path, found, OWNED)
    with pytest.raises(Refusal, match="holds: all, allowed: hot"):
        hot_rows.held(path, OWNED, bound)


def test_packing_killed_at_any_point_leaves_nothing_that_loads(tmp_path, model, rows):
    """The writer is killed at each line that it executes: what then bears the file's name is whole, and what was begun is no rows file."""
    found = checkpoint.shard(model, 1)
    ids = np.arange(0, 60, 3, dtype=np.uint32)
    ended = False
    line = 0
    states = set()
    while not ended:
        line += 1
        folder = tmp_path / str(line)
        folder.mkdir()
        ended = not _killed_at(
            line,
            lambda folder=folder: hot_rows.pack(folder / "hot", found, OWNED, ids, kind="fp8", counts="c"),
        )
        for path in folder.iterdir():
            try:
                held = rows_file.loaded(path, rows_file.opened(path, {}))
            except Refusal:
                states.add((path.name, "refused"))
                assert path.name != "hot"
            else:
                states.add((path.name, "whole"))
                assert (held[1] == rows[OWNED.begin + ids.astype(np.int64)]).all()
    assert {("hot.partial", "refused"), ("hot", "whole")} <= states
    assert line > 30


def _killed_at(line, act):
    """Run in a child that kills itself before it executes the line-th line of rows_file; whether it came to that."""
    child = os.fork()
    if child == 0:
        seen = 0

        def trace(frame, event, _argument):
            nonlocal seen
            if frame.f_code.co_filename != rows_file.__file__:
                return None
            seen += event == "line"
            if seen >= line:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        try:
            act()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def test_a_checkpoint_with_another_ranks_rows_only_is_refused(tmp_path, rows):
    """A node's own copy has holes where other ranks' rows would be: they read as zeros, so they are refused."""
    gap = 4096 * 8
    begin = -(-OWNED.begin * 256 // 4096) * 4096
    path = checkpoint_of(tmp_path / "sparse", rows, holes=[(begin, begin + gap)])
    found = checkpoint.shard(path, 1)
    with pytest.raises(Refusal, match="a hole"):
        checkpoint.identity(found, OWNED)
    other = TABLE.slices(2)[0]
    assert checkpoint.identity(found, other)["samples"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"dtype": "BF16"}, "F8_E4M3"),
        ({"shape": [7, 128]}, "F8_E4M3"),
        ({"data_offsets": [0, 10**9]}, "size"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, model, change, says):
    """Another type or shape, or a file that is too short."""
    raw = model.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    header["layers.1.engram.embed.weight"] |= change
    text = json.dumps(header).encode()
    (tmp_path / "other").write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + length :])
    with pytest.raises(Refusal, match=says):
        checkpoint.shard(tmp_path / "other", 1)


def test_a_table_of_another_model_is_refused(model):
    """Its rows are not what the hash columns add up to."""
    found = replace(checkpoint.shard(model, 1), rows=77)
    with pytest.raises(Refusal, match="hash columns"):
        checkpoint.identity(found, OWNED)


@pytest.fixture
def line(tmp_path, monkeypatch, tokenizer):
    """The command line with the tiny tables, in a folder with two corpora."""
    monkeypatch.setattr(verbs, "v41_flash", lambda: TINY)
    real = vocabulary.read
    made = real(tokenizer, CLASSES, len(WORDS))
    monkeypatch.setattr(vocabulary, "read", lambda _path, _classes: made)
    monkeypatch.setattr(engram_count, "BATCH", 16)
    monkeypatch.setattr(engram_count, "KEEP_S", 0.0)
    rng = np.random.default_rng(0)
    for name in ("first", "other"):
        lines = [json.dumps({"tokens": rng.integers(0, len(WORDS), 12).tolist()}) for _ in range(40)]
        (tmp_path / f"{name}.jsonl").write_text(
            "\n".join([*lines, "", json.dumps({"text": "a|b|c d"})]) + "\n", encoding="utf-8"
        )
    monkeypatch.chdir(tmp_path)
    return lambda *words: cli.main(["engram", *words])


def test_steps_of_held_out_text(line, capsys, tmp_path):
    """As many as are timed and ten that warm up, of the whole table; more than the text has is refused."""
    words = (
        "other.jsonl",
        "--layer",
        "1",
        "--tokenizer",
        "tokenizer.json",
        "--tokens",
        "2",
        "-o",
        "steps.npy",
    )
    assert line("steps", *words, "--steps", "100", "--json") == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 110
    assert steps.read(tmp_path / "steps.npy", TABLE, 110).shape == (110, 2, TABLE.columns)
    assert line("steps", *words, "--steps", "1000") == 2
    assert "1010, 10 of them to warm up" in capsys.readouterr().err
    assert line("steps", *words, "--steps", "3") == 2


def test_from_text_to_a_rows_file(line, capsys, model, tmp_path):
    """Count, merge, cover, pack; each says what it did, and `--json` is one document."""
    for name in ("first", "other"):
        assert line("count", f"{name}.jsonl", "--tokenizer", "tokenizer.json", "-o", f"{name}.counts") == 0
    assert "lookups of" in capsys.readouterr().out
    assert line("merge", "first.counts", "other.counts", "-o", "both.counts", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["tokens"] == 2 * (40 * 12 + 3)
    assert line("cover", "first.counts", "--held-out", "other.counts", "--rows", "10,1000", "--json") == 0
    shares = [one["share"] for one in json.loads(capsys.readouterr().out)["covered"]]
    assert 0 < shares[0] < shares[1] < 1
    pack = ("pack", model.name, "--layer", "1", "--rank", "1", "--ranks", "2")
    assert line(*pack, "--counts", "both.counts", "--rows", "300", "-o", "hot") == 0
    assert "rows of layer 1, rank 1 of 2" in capsys.readouterr().out
    bound = checkpoint.identity(checkpoint.shard(model, 1), OWNED)
    assert 0 < len(hot_rows.held(tmp_path / "hot", OWNED, bound).rows) <= 300


def test_counting_goes_on_where_it_broke_off(line, capsys, monkeypatch):
    """Broken off in the middle, the second run ends with the counts of an unbroken one."""
    argv = ("--tokenizer", "tokenizer.json", "-o")
    assert line("count", "first.jsonl", *argv, "whole") == 0
    real, calls = corpus.documents, []

    def breaks(path, place, tokenise):
        calls.append(place)
        for number, document in enumerate(real(path, place, tokenise)):
            if len(calls) == 1 and number == 17:
                raise KeyboardInterrupt
            yield document

    monkeypatch.setattr(corpus, "documents", breaks)
    assert line("count", "first.jsonl", *argv, "broken") == 3
    assert not counts.read(Path("broken")).corpora[0].whole
    assert line("count", "first.jsonl", *argv, "broken") == 0
    assert calls[0] == 0 < calls[1]
    whole, broken = (counts.read(Path(name)) for name in ("whole", "broken"))
    assert broken.corpora == whole.corpora
    for layer, one in whole.tables.items():
        assert broken.tables[layer].ids.tolist() == one.ids.tolist()
        assert broken.tables[layer].counts.tolist() == one.counts.tolist()
    assert line("count", "first.jsonl", *argv, "broken") == 0
    assert "counted before" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "byte 0: "),
        ("[1]", "a JSON object in each line"),
        ('{"tokens": [99]}', "token ids: 99 to 99"),
        ('{"tokens": ["a"]}', "whole numbers"),
        ('{"words": []}', "keys \\['words'\\]"),
    ],
)
def test_a_line_without_tokens_is_named(line, capsys, tmp_path, text, says):
    """Exit code 2, the file, the place and what is wanted."""
    (tmp_path / "wrong.jsonl").write_text(text + "\n", encoding="utf-8")
    assert line("count", "wrong.jsonl", "--tokenizer", "tokenizer.json", "-o", "out") == 2
    said = capsys.readouterr().err
    assert said.startswith("error: wrong.jsonl")
    assert re.search(says, said)


def test_parquet_without_its_library_is_refused(line, capsys, tmp_path):
    """The library is not ours to bring; the refusal names it. Where it is installed, the file is refused as no parquet."""
    (tmp_path / "some.parquet").write_bytes(b"PAR1")
    assert line("count", "some.parquet", "--tokenizer", "tokenizer.json", "-o", "out") == 2
    assert "parquet" in capsys.readouterr().err


def test_counts_that_are_none_are_refused(tmp_path):
    """Another file, or ids out of order."""
    (tmp_path / "x").write_bytes(b"nothing")
    with pytest.raises(Refusal, match="x: "):
        counts.read(tmp_path / "x")
    wrong = Counted(rows=9, ids=np.array([3, 1], dtype=np.uint32), counts=np.array([1, 1], dtype=np.uint32))
    counts.write(tmp_path / "y", Ledger(tables={1: wrong}, corpora=()))
    with pytest.raises(Refusal, match="out of order"):
        counts.read(tmp_path / "y")


@pytest.mark.parametrize("whole", [True, False], ids=["all rows in a file", "the checkpoint"])
def test_a_race_on_this_node(line, capsys, model, whole):
    """Real files and text of the corpus; the faster path by its 95th percentile is named, and the exit code says which."""
    assert line("count", "first.jsonl", "--tokenizer", "tokenizer.json", "-o", "counts") == 0
    where = (model.name, "--layer", "1", "--rank", "1", "--ranks", "2")
    assert line("pack", *where, "--counts", "counts", "--rows", "100000", "-o", "hot") == 0
    assert line("pack", *where, "--all", "-o", "rows") == 0
    capsys.readouterr()
    argv = (
        "race",
        *where,
        "--hot",
        "hot",
        "--corpus",
        "first.jsonl",
        "--tokenizer",
        "tokenizer.json",
        "--engine",
        "threads",
    )
    code = line(*argv, *(("--all", "rows") if whole else ()), "--tokens", "3", "--steps", "140", "--json")
    document = json.loads(capsys.readouterr().out)
    assert code == (document["resident_p95_us"] >= document["disk_p95_us"])
    assert document["keeps"] == ("disk" if code else "resident")
    assert document["resident_share"] == 1
    assert document["steps"] == 140
    assert line(*argv, "--tokens", "3", "--steps", "9999") == 2
    assert "steps of 3 tokens" in capsys.readouterr().err


def test_parquet_is_counted_as_json_lines_are(line, tmp_path):
    """The same documents, in several row groups and broken off between them, give the same counts."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    records = [
        json.loads(one) for one in (tmp_path / "first.jsonl").read_text(encoding="utf-8").splitlines() if one
    ]
    columns = {key: [one.get(key) for one in records] for key in ("tokens", "text")}
    parquet.write_table(arrow.table(columns), tmp_path / "first.parquet", row_group_size=7)
    for name in ("first.jsonl", "first.parquet"):
        assert line("count", name, "--tokenizer", "tokenizer.json", "-o", f"{name}.counts") == 0
    one, other = (counts.read(tmp_path / f"first.{kind}.counts") for kind in ("jsonl", "parquet"))
    assert one.tokens == other.tokens
    for layer, table in one.tables.items():
        assert table.ids.tolist() == other.tables[layer].ids.tolist()
        assert table.counts.tolist() == other.tables[layer].counts.tolist()
    places = {each.after for each in corpus.documents(tmp_path / "first.parquet", 2, lambda _text: [1])}
    assert places == {None, *range(3, 7)}
