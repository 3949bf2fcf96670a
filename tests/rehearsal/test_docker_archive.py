"""docker save, load and build of a practice node: the same bytes for the same image, and docker's words for what is wrong."""

import io
import json
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rehearsal import layout
from rehearsal.scenario import named

IMAGE = "sparkctl/vllm-dsv41-exl3:0.33.0"
CONTAINERFILE = 'ARG BASE\nFROM ${BASE}\n# one\nARG JOBS\nRUN make \\\n  -j ${JOBS}\nCOPY a.py /a.py\nENV A=${JOBS} B="c d"\nLABEL t=x\nENTRYPOINT ["vllm"]\n'


@dataclass(frozen=True, slots=True)
class Said:
    """What a docker said, in bytes as far as it goes on."""

    code: int
    out: bytes
    err: str


Docker = Callable[..., Said]


@pytest.fixture
def docker(tmp_path: Path) -> Docker:
    """Give `docker(node, words..., given=bytes)` of a healthy cluster's nodes."""
    layout.furnish(tmp_path, named("healthy"), "no-token")

    def call(node: str, *words: str, given: bytes = b"") -> Said:
        own = tmp_path / node / "bin"
        ran = subprocess.run(
            [str(own / "docker"), *words],
            input=given,
            capture_output=True,
            timeout=20,
            check=False,
            env={"PATH": f"{own}:/usr/bin:/bin"},
        )
        return Said(ran.returncode, ran.stdout, ran.stderr.decode())

    return call


def inspect(docker: Docker, node: str, image: str = IMAGE) -> dict[str, Any]:
    """Return what a node's docker says of an image."""
    said = docker(node, "image", "inspect", image)
    assert said.code == 0, said.err
    return dict(json.loads(said.out)[0])


def context(**files: str) -> bytes:
    """Return a build context; a double underscore stands for a dot."""
    kept = io.BytesIO()
    with tarfile.open(fileobj=kept, mode="w") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name.replace("__", "."))
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return kept.getvalue()


def test_a_save_is_the_same_bytes_every_time(docker: Docker) -> None:
    """Some megabytes of a real tar archive, equal on every call and on every node with the image."""
    first = docker("spark-a0", "save", IMAGE)
    assert first.code == 0
    assert 3_000_000 < len(first.out) < 5_000_000
    assert first.out == docker("spark-a0", "save", IMAGE).out == docker("spark-a3", "save", IMAGE).out
    with tarfile.open(fileobj=io.BytesIO(first.out)) as tar:
        assert "manifest.json" in tar.getnames()


def test_a_loaded_image_shows_with_its_layers_and_another_id(docker: Docker) -> None:
    """What one node saves, another has after loading: layers, environment and labels; Id and digests are its own."""
    built = docker(
        "spark-a0",
        "build",
        "--tag",
        "x/y:1",
        "--build-arg",
        "BASE=b@sha256:0",
        "--label",
        "k=v",
        "--file",
        "C",
        "-",
        given=context(C="ARG BASE\nFROM ${BASE}\n"),
    )
    assert built.code == 0, built.err
    assert docker("spark-a1", "image", "inspect", "x/y:1").code == 1
    loaded = docker("spark-a1", "load", given=docker("spark-a0", "save", "x/y:1").out)
    assert (loaded.code, loaded.out) == (0, b"Loaded image: x/y:1\n")
    one, two = inspect(docker, "spark-a0", "x/y:1"), inspect(docker, "spark-a1", "x/y:1")
    assert one["RootFS"] == two["RootFS"]
    assert one["Config"] == two["Config"]
    assert two["Config"]["Labels"] == {"k": "v"}


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[:1_000_000], "unexpected EOF\n"),
        (lambda _: b"", "unexpected EOF\n"),
        (
            lambda data: data[:700_000] + b"\0\1\2\3" + data[700_004:],
            "wrong diff id calculated on extraction, expected sha256:",
        ),
    ],
    ids=["cut", "empty", "damaged"],
)
def test_a_broken_archive_is_refused(docker: Docker, damage: Callable[[bytes], bytes], said: str) -> None:
    """Nothing is held of it afterwards beyond what was there."""
    data = docker("spark-a0", "save", IMAGE).out
    before = inspect(docker, "spark-a1")
    ended = docker("spark-a1", "load", given=damage(data))
    assert ended.code == 1
    assert ended.err.startswith(said)
    assert inspect(docker, "spark-a1") == before


def build(docker: Docker, *words: str, **files: str) -> Said:
    """Build x/y:1 on the first node."""
    options = ("--tag", "x/y:1", "--build-arg", "BASE=b@sha256:0", "--build-arg", "JOBS=2", *words)
    return docker("spark-a0", "build", *options, "--file", "C", "-", given=context(**files))


def test_a_build_follows_its_file(docker: Docker) -> None:
    """Arguments fill in variables, layers are those of the base and one each for RUN and COPY, labels and entry are set."""
    assert build(docker, C=CONTAINERFILE, a__py="1").code == 0
    shown = inspect(docker, "spark-a0", "x/y:1")
    assert {"A=2", "B=c d"} <= set(shown["Config"]["Env"])
    assert (shown["Config"]["Labels"], shown["Config"]["Entrypoint"]) == ({"t": "x"}, ["vllm"])
    first = shown["RootFS"]["Layers"]
    assert build(docker, C=CONTAINERFILE, a__py="2").code == 0
    second = inspect(docker, "spark-a0", "x/y:1")["RootFS"]["Layers"]
    assert first[:-1] == second[:-1]
    assert first[-1] != second[-1], "another file gives another last layer"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "failed to read dockerfile: open C: no such file or directory"),
        ({"C": "ARG NONE\nFROM ${NONE}\n"}, "should not be blank"),
        ({"C": CONTAINERFILE}, '"/a.py": not found'),
        ({"C": "ARG BASE\nFROM ${BASE}\nFROB x\n"}, "unknown instruction: FROB"),
    ],
)
def test_a_wrong_build_is_refused_in_docker_s_words(docker: Docker, files: dict[str, str], said: str) -> None:
    """No image comes of it."""
    ended = build(docker, **files)
    assert ended.code == 1
    assert said in ended.err
    assert docker("spark-a0", "image", "inspect", "x/y:1").code == 1
