"""The inputs of a build: what the digest stands for, what the labels say, and how they are compared with a manifest."""

import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.images import building, inputs
from launcher.images.inputs import DIGEST, WHOLE, Inputs
from launcher.images.manifest import Base, Manifest
from sparkctl import edge
from sparkctl.cli.image_files import ImageFiles, read_files
from sparkctl.errors import FileFault, UsageFault

ROOT = Path(__file__).parents[3]
BASE = f"example/cuda@sha256:{'b' * 64}"
BAD = sorted((Path(__file__).parent / "manifests").glob("*.json"))


@pytest.fixture(scope="module")
def files() -> ImageFiles:
    """The image that ships."""
    return read_files("vllm-dsv41-exl3")


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_wrong_manifest_names_all_its_faults(path: Path) -> None:
    """All faults of a file come at once, each with its place."""
    case = json.loads(path.read_text(encoding="utf-8"))
    with pytest.raises(FileFault) as fault:
        edge.structure(case["manifest"], Manifest, source="image.yml")
    assert [said for said in case["faults"] if said not in fault.value.message] == []


def test_the_digest_is_the_hash_of_the_canonical_json() -> None:
    """Hashed by sha256sum once, so that no change of code changes what a label means."""
    made = Inputs(
        name="one",
        base="b@sha256:x",
        platform="linux/arm64",
        arguments={"B": "2", "A": "1"},
        files={"f": "0a"},
    )
    assert made.whole == (
        '{"arguments":{"A":"1","B":"2"},"base":"b@sha256:x","files":{"f":"0a"},"name":"one","platform":"linux/arm64","schema":1}'
    )
    assert made.digest == "5d36594d1002186ee2be47852213abe4d63d989ba540af68ee5df07ca367e902"


def test_every_input_changes_the_digest(files: ImageFiles) -> None:
    """Base, platform, each argument, each file: none may change unseen, and no comment of image.yml counts."""
    manifest, texts = files.manifest, dict(files.texts)
    first = inputs.gather(manifest, texts, BASE).digest
    others = [
        inputs.gather(manifest, texts, BASE.replace("b" * 64, "c" * 64)).digest,
        inputs.gather(replace(manifest, platform="linux/amd64"), texts, BASE).digest,
    ]
    for name, argument in manifest.arguments.items():
        changed = {**manifest.arguments, name: replace(argument, value="other")}
        others.append(inputs.gather(replace(manifest, arguments=changed), texts, BASE).digest)
    others.extend(
        inputs.gather(manifest, {**texts, name: text + " "}, BASE).digest for name, text in texts.items()
    )
    assert len({first, *others}) == len(others) + 1
    assert inputs.gather(replace(manifest, about="told otherwise"), texts, BASE).digest == first


@pytest.mark.parametrize(
    "base", [None, "example/cuda:13", f"example/cuda@sha256:{'b' * 63}", "example/cuda@sha256:latest"]
)
def test_a_base_that_is_not_exact_is_refused(files: ImageFiles, base: str | None) -> None:
    """No digest is invented: the owner gives one, and it is one."""
    with pytest.raises(UsageFault) as fault:
        inputs.gather(files.manifest, files.texts, base)
    assert "buildx imagetools inspect" in fault.value.hint


def test_an_image_s_own_labels_are_as_the_manifest_says(files: ImageFiles) -> None:
    """What a build sets is what show accepts, with the base that the owner gave."""
    labels = inputs.gather(files.manifest, files.texts, BASE).labels
    found = inputs.compare(files.manifest, files.texts, labels)
    assert (found.state, found.differences, found.base) == ("same", (), BASE)


def test_another_base_than_the_manifest_s_is_a_difference(files: ImageFiles) -> None:
    """Where the manifest names a base, the label must name it too."""
    labels = inputs.gather(files.manifest, files.texts, BASE).labels
    named = replace(files.manifest, base=Base(about="x", reference=BASE.replace("b" * 64, "c" * 64)))
    found = inputs.compare(named, files.texts, labels)
    assert found.state == "other"
    assert [one.split(":")[0] for one in found.differences] == ["base"]


def test_what_differs_is_named(files: ImageFiles) -> None:
    """An argument and a file that were others when it was built are told, each with both values."""
    labels = inputs.gather(files.manifest, files.texts, BASE).labels
    changed = {
        **files.manifest.arguments,
        "MAX_JOBS": replace(files.manifest.arguments["MAX_JOBS"], value="4"),
    }
    manifest = replace(files.manifest, arguments=changed)
    found = inputs.compare(manifest, {**files.texts, "Containerfile": "FROM scratch"}, labels)
    assert found.state == "other"
    assert "arguments.MAX_JOBS: built with 2, the manifest says 4" in found.differences
    assert [one.split(":")[0] for one in found.differences] == ["arguments.MAX_JOBS", "files.Containerfile"]


def test_no_label_is_nobody_s_word(files: ImageFiles) -> None:
    """An image that another hand built is told apart from one of other inputs."""
    assert inputs.compare(files.manifest, files.texts, {"maintainer": "x"}).state == "none"


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_other_labels_contradict_each_other(digest: str, whole: str) -> None:
    """Whatever the two labels hold, only a digest that fits its JSON is believed, and nothing raises."""
    files = read_files("vllm-dsv41-exl3")
    found = inputs.compare(files.manifest, files.texts, {DIGEST: digest, WHOLE: whole})
    assert found.state == "broken"
    fitting = inputs.compare(files.manifest, files.texts, {DIGEST: inputs.sha256("{}"), WHOLE: "{}"})
    assert fitting.state == "other"
    assert len(fitting.differences) > 3


def test_the_command_gives_every_input(files: ImageFiles) -> None:
    """Each argument and both labels stand in the docker build command, and its context comes on stdin."""
    made = inputs.gather(files.manifest, files.texts, BASE)
    argv = building.argv(files.manifest, made)
    given = {argv[at + 1] for at, word in enumerate(argv) if word == "--build-arg"}
    assert given == {f"BASE={BASE}", *(f"{name}={value}" for name, value in made.arguments.items())}
    labels = {argv[at + 1] for at, word in enumerate(argv) if word == "--label"}
    assert labels == {f"{DIGEST}={made.digest}", f"{WHOLE}={made.whole}"}
    assert argv[:2] == ("docker", "build")
    assert argv[-3:] == ("--file", "Containerfile", "-")


def test_pins_are_the_same_wherever_they_stand(files: ImageFiles) -> None:
    """The engine extra, the lock and the manifest name one vLLM and one commit of cuda-exl3."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = {name: one.value for name, one in files.manifest.arguments.items()}
    assert project["optional-dependencies"]["engine"] == [
        f"cuda-exl3 @ git+https://github.com/Zeuss5/cuda-exl3@{pins['CUDA_EXL3_COMMIT']}",
        f"vllm=={pins['VLLM_VERSION']}",
    ]
    assert f"\nvllm=={pins['VLLM_VERSION']} \\\n" in files.texts["requirements.txt"]


def test_the_lock_has_a_hash_for_every_package(files: ImageFiles) -> None:
    """One exact version a package, each with the hash of a wheel, since pip resolves nothing."""
    text = re.sub(r"(?m)^#.*\n", "", files.texts["requirements.txt"]).replace("\\\n", " ")
    rows = [row.split() for row in text.splitlines() if row.strip()]
    names = [row[0].partition("==")[0] for row in rows]
    assert len(names) == len(set(names)) > 100
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.+]+", row[0]) for row in rows)
    assert all(
        row[1:] and all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in row[1:]) for row in rows
    )
