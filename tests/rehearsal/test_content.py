"""The model and the image of a practice node: whatever command tells of their content, it is the same."""

import json
from pathlib import Path

from rehearsal import node
from rehearsal.faces import tree
from rehearsal.scenario import Traits
from rehearsal.traits import OldContainer

from .within import IMAGE, MODEL, within


def test_the_model_is_the_same_by_whatever_command(tmp_path: Path) -> None:
    """What find, stat, the hashes and the look from inside the container tell of are the same files."""
    nodes = within(tmp_path)
    listed = dict(
        reversed(line.split("|")[1:])
        for line in nodes("find", "-L", MODEL, "-type", "f", "-printf", r"%y|%s|%P\n").out.splitlines()
    )
    assert sum(name.endswith(".safetensors") for name in listed) == 8
    for name, size in listed.items():
        assert nodes("stat", "-L", "-c", "%s", f"{MODEL}/{name}").out == f"{size}\n"
    hashes = json.loads(nodes("python3", "-c", "SCRIPT", "sparkctl-hash", MODEL).out)["files"]
    assert set(hashes) == set(listed)
    assert nodes("sha256sum", f"{MODEL}/config.json").out == f"{hashes['config.json']}  {MODEL}/config.json\n"
    inside = ("--mount", f"type=bind,source={MODEL},target=/models/m,readonly")
    runtime = json.loads(nodes.probe("runtime", "/models/m", options=inside).out)
    assert (runtime["model_exists"], runtime["model_entries"]) == (True, len(listed))


def test_docker_makes_a_folder_of_what_it_is_to_bind_with_v_alone(tmp_path: Path) -> None:
    """--mount refuses a source that is not there; after -v there is an empty folder for every command."""
    nodes = within(tmp_path, Traits(model_files="absent"))
    assert nodes("stat", "-L", "-c", "%F", MODEL).code == 1
    assert nodes("findmnt", "-J", "-o", "TARGET", "-T", MODEL).code == 1
    refused = nodes.probe("runtime", "/m", options=("--mount", f"type=bind,source={MODEL},target=/m"))
    assert (refused.code, f"bind source path does not exist: {MODEL}" in refused.err) == (125, True)
    assert nodes("stat", "-L", "-c", "%F", MODEL).code == 1
    runtime = json.loads(nodes.probe("runtime", "/m", options=("-v", f"{MODEL}:/m:ro")).out)
    assert (runtime["model_exists"], runtime["model_entries"]) == (True, 0)
    assert nodes("find", "-L", MODEL, "-printf", r"%y|%P\n").out == "d|\n"


def test_a_dangling_shard_is_a_link_to_find_and_nothing_to_the_rest(tmp_path: Path) -> None:
    """The link shows to find; stat and the hashes find no file."""
    nodes = within(tmp_path, Traits(model_files="dangling"))
    links_found = [
        line for line in nodes("find", "-L", MODEL, "-printf", r"%y|%P\n").out.splitlines() if line[0] == "l"
    ]
    assert links_found == ["l|model-00005-of-00008.safetensors"]
    name = links_found[0][2:]
    assert nodes("stat", "-L", "-c", "%F", f"{MODEL}/{name}").code == 1
    assert name not in json.loads(nodes("python3", "-c", "SCRIPT", "sparkctl-hash", MODEL).out)["files"]


def test_a_damaged_shard_differs_in_its_hash_alone(tmp_path: Path) -> None:
    """Name and size are as on the other nodes; only the content is not."""
    nodes = within(tmp_path, Traits(model_files="shard-other"), "spark-a1")
    listing = ("find", "-L", MODEL, "-printf", r"%y|%s|%P\n")
    assert nodes(*listing).out == nodes(*listing, node="spark-a1").out
    own, other = (
        json.loads(nodes("python3", "-c", "S", "sparkctl-hash", MODEL, node=node).out)["files"]
        for node in ("spark-a0", "spark-a1")
    )
    assert [name for name in own if own[name] != other[name]] == ["model-00005-of-00008.safetensors"]


def test_the_image_is_one_by_its_layers_whatever_its_id(tmp_path: Path) -> None:
    """Saved and loaded, or kept by containerd, it has another Id and the same layers; a container names that Id."""
    told = {}
    for name, traits in {
        "plain": Traits(),
        "loaded": Traits(image_reloaded=True),
        "kept": Traits(image_store="containerd", containers=(OldContainer(name="one", image=IMAGE),)),
        "built": Traits(image_build="another"),
    }.items():
        nodes = within(tmp_path / name, traits)
        told[name] = json.loads(nodes("docker", "image", "inspect", IMAGE).out)[0]
    assert len({one["Id"] for one in told.values()}) == 4
    layers = {name: one["RootFS"]["Layers"] for name, one in told.items()}
    assert layers["plain"] == layers["loaded"] == layers["kept"] != layers["built"]
    assert (told["loaded"]["RepoDigests"], len(told["plain"]["RepoDigests"])) == ([], 1)
    kept = within(
        tmp_path / "kept again",
        Traits(image_store="containerd", containers=(OldContainer(name="one", image=IMAGE),)),
    )
    assert json.loads(kept("docker", "inspect", "one").out)[0]["Image"] == told["kept"]["Id"]
    assert told["kept"]["GraphDriver"] == {"Data": None, "Name": "overlayfs"}


def test_a_cluster_that_lives_under_srv_keeps_its_own_files(tmp_path: Path) -> None:
    """Where the cluster's home is itself in /srv, what lies there is the machine's; all else there is the node's."""
    told = node.read(within(tmp_path).home / "spark-a0")._replace(
        root=Path("/srv/practice/rehearsal/spark-a0")
    )
    assert not tree.is_own(told, "/srv/practice/rehearsal/spark-a0/home/text")
    assert tree.is_own(told, MODEL)
    assert tree.is_own(told, "/srv")
    assert not tree.is_own(told, "/srvs/text")
