"""What scenes cannot say of parity, leftovers and security: scripts that really run, secrets that never show, the inventory."""

import dataclasses
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bootcheck import collect, gates, known_bad
from bootcheck.facts import Bundle, Context, Record
from bootcheck.findings import Finding
from bootcheck.floors import Floors
from bootcheck.gates import differences
from bootcheck.gates.gate import Scene
from bootcheck.probes import table as probes
from bootcheck.probes.model import HASH_SCRIPT
from bootcheck.probes.probe import Target
from bootcheck.probes.runtime import RUNTIME_SCRIPT, Runtime, runtime_argv

MakeScene = Callable[..., Scene]

MINE = (
    *(
        "kernel-arguments",
        "bios",
        "docker",
        "image",
        "containers",
        "runtime",
        "mounts",
        "filesystems",
        "patches",
    ),
    *("model-files", "model-hashes", "listeners", "shared-memory"),
)


def _run(script: str, *words: str, **environment: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=True, env=environment
    )
    return json.loads(done.stdout.splitlines()[-1])


def _find(found: tuple[Finding, ...], gate: str) -> dict[str, Finding]:
    return {one.node: one for one in found if one.gate == gate}


def test_the_hashing_script_reads_every_file_once(tmp_path: Path) -> None:
    """Links are followed, a ring of folders is walked once, and the digests are SHA-256 of the whole content."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "up").symlink_to(tmp_path)
    (tmp_path / "config.json").write_bytes(b"{}")
    (tmp_path / "sub" / "shard").write_bytes(b"x" * (3 << 20))
    (tmp_path / "link").symlink_to("sub/shard")
    (tmp_path / "nothing").symlink_to("gone")
    shard = hashlib.sha256(b"x" * (3 << 20)).hexdigest()
    assert _run(HASH_SCRIPT, "sparkctl-hash", str(tmp_path)) == {
        "probe": "model-hashes",
        "files": {"config.json": hashlib.sha256(b"{}").hexdigest(), "link": shard, "sub/shard": shard},
    }


def test_the_look_inside_finds_what_would_be_loaded(tmp_path: Path) -> None:
    """NCCL by content from the loader's own places, settings from the file that is named, targets from ptxas' help."""
    (tmp_path / "libnccl.so.2.27").write_bytes(b"binary")
    (tmp_path / "libnccl.so.2").symlink_to("libnccl.so.2.27")
    (tmp_path / "nccl.conf").write_text("NCCL_PROTO=Simple\n", encoding="utf-8")
    tool = tmp_path / "ptxas"
    tool.write_text(
        "#!/bin/sh\necho \"release 12.8, V12.8.93\n--gpu-name: 'sm_90','sm_120a','compute_121'\"\n",
        encoding="utf-8",
    )
    tool.chmod(0o755)
    found = _run(
        RUNTIME_SCRIPT,
        str(tmp_path),
        PATH=f"{tmp_path}:/usr/bin:/bin",
        LD_LIBRARY_PATH=str(tmp_path),
        NCCL_CONF_FILE=str(tmp_path / "nccl.conf"),
    )
    digest = hashlib.sha256(b"binary").hexdigest()
    assert {"path": str(tmp_path / "libnccl.so.2.27"), "sha256": digest} in found["nccl"]
    assert found["nccl_conf"].startswith("NCCL_PROTO=Simple")
    assert (found["model_exists"], found["model_entries"]) == (True, 4)
    assert found["ptxas"] == f"{tool} release 12.8, V12.8.93 sm_120a sm_90"
    assert _run(RUNTIME_SCRIPT, str(tmp_path / "gone"))["model_exists"] is False


def test_the_look_inside_changes_nothing(known: Context) -> None:
    """It pulls no image, makes no folder of a source that is missing, writes nowhere, and gets no secret."""
    needs = dataclasses.replace(
        known.needs,
        mounts={"/srv/a,b": "/models/M:ro", "/srv/cache": "/cache"},
        environments={"spark-a0": {"HF_TOKEN": "secret", "TRITON_PTXAS_PATH": "/usr/local/cuda/bin/ptxas"}},
    )
    target = Target(line=known.line, node=known.line.head, needs=needs, floors=Floors())
    argv = runtime_argv(target)
    mounts = [value for word, value in pairwise(argv) if word == "--mount"]
    assert mounts == [
        'type=bind,"source=/srv/a,b",target=/models/M,readonly',
        "type=bind,source=/srv/cache,target=/cache,readonly",
    ]
    assert argv[argv.index("--pull") + 1] == "never"
    assert "-v" not in argv
    assert "--gpus" not in argv
    assert [value for word, value in pairwise(argv) if word == "-e"] == [
        "TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas"
    ]


def test_settings_of_nccl_conf_are_those_that_count() -> None:
    """Comments and empty lines set nothing, and their order does not matter."""
    inside = Runtime(
        nccl=(), nccl_conf="# by hand\n B=2 \n\nA=1\n", ptxas="", model_exists=True, model_entries=1
    )
    assert inside.nccl_settings == ("A=1", "B=2")


def test_every_known_bad_kernel_says_how_to_mend_it() -> None:
    """Each pattern compiles, and names what breaks, who says so and at least one remedy."""
    assert known_bad.find("7.0.0-1019-nvidia") is not None
    assert known_bad.find("7.0.0-10190-nvidia") is None
    assert known_bad.find("6.17.0-1032-nvidia") is None
    for one in known_bad.KERNELS:
        assert re.compile(one.pattern)
        assert one.breaks
        assert "(reported)" in one.origin
        assert one.remedies


def test_an_api_for_everybody_is_told_before_it_runs(scene: MakeScene) -> None:
    """An inventory that binds the API to every address is warned of on the head, whatever listens now."""
    made = scene({})
    line = dataclasses.replace(made.line, api_host="0.0.0.0")  # noqa: S104  # the fault itself
    found = _find(gates.judge(dataclasses.replace(made, line=line)), "listeners")
    assert {node: one.verdict for node, one in found.items() if one.verdict != "pass"} == {"spark-a0": "warn"}
    assert "0.0.0.0:8000" in found["spark-a0"].measured
    assert "--api-key guards only the /v1 paths" in found["spark-a0"].hint


def test_an_api_for_everybody_is_in_everybodys_way(scene: MakeScene) -> None:
    """When the API binds every address, a listener on the loopback is in its way."""
    row = 'LISTEN 0 128 127.0.0.1:8000 0.0.0.0:* users:(("python3",pid=77,fd=3))'
    made = scene({"spark-a0": {"listeners": {"stdout": f"State Recv-Q\n{row}\n"}}})
    line = dataclasses.replace(made.line, api_host="0.0.0.0")  # noqa: S104  # the fault itself
    assert _find(gates.judge(made), "ports")["spark-a0"].verdict == "pass"
    assert _find(gates.judge(dataclasses.replace(made, line=line)), "ports")["spark-a0"].verdict == "fail"


@pytest.mark.parametrize(
    ("name", "node", "gate", "hint"),
    [
        ("orphan_engine", "spark-a1", "engine-processes", "kill 21990 22104"),
        ("engine_of_a_foreign_container", "spark-a1", "engine-processes", "docker stop other_vllm"),
        ("engine_of_another_line", "spark-a1", "engine-processes", "sparkctl down --line B"),
        ("gpu_not_released", "spark-a1", "engine-processes", "wait some seconds"),
        ("kernel_known_bad", "spark-a1", "kernel-known-bad", "kho=off"),
        ("ptxas_too_old", "spark-a0", "ptxas", "TRITON_PTXAS_PATH"),
        ("model_served_by_the_head", "spark-a1", "model-filesystem", "from a worker"),
        ("mount_gone", "spark-a2", "model-filesystem", "mount nas:/models again"),
        ("model_folder_empty", "spark-a1", "model-files", "mount what belongs there"),
        ("source_is_a_folder", "spark-a3", "mounts", "remove the folder first"),
        ("restart_loop", "spark-a0", "containers", "two deaths in a row"),
        ("wide_shared_memory_alone", "spark-a0", "containers", "--shm-size"),
        ("recipe_with_wide_shared_memory", "spark-a0", "shared-memory", "memory.shared_gib to 16"),
        ("shared_memory_of_a_rank", "spark-a3", "shared-memory", "sparkctl down"),
        ("api_open_to_all", "spark-a0", "listeners", "--api-key guards only the /v1 paths"),
        ("other_open_ports", "spark-a1", "listeners", "ufw allow"),
        ("key_in_arguments", "spark-a0", "secrets", "VLLM_API_KEY"),
        ("image_of_another_machine", "spark-a1", "image", "linux/arm64"),
    ],
)
def test_a_hint_names_the_remedy(scene: MakeScene, name: str, node: str, gate: str, hint: str) -> None:
    """What to do fits what was seen, down to the command."""
    told = json.loads((Path(__file__).parent / "scenes" / f"{name}.json").read_text())
    found = gates.judge(scene(told["said"], told.get("floors"), told.get("needs")))
    assert hint in _find(found, gate)[node].hint


@pytest.mark.parametrize(
    "needs",
    [
        {"arguments": {"spark-a1": ["--api-key", "s3cr3t-s3cr3t"]}},
        {"arguments": {"spark-a1": ["--api-key=s3cr3t-s3cr3t"]}},
        {"arguments": {"spark-a1": ["--x", "hf_s3cr3ts3cr3ts3cr3ts3cr3t"]}},
        {"arguments": {"spark-a1": ["--x", '{"api_key":"s3cr3t-s3cr3t"}']}},
        {"environments": {"spark-a1": {"HF_TOKEN": "s3cr3t-s3cr3t"}}},
        {"environments": {"spark-a1": {"PROXY": "http://me:s3cr3t-s3cr3t@host"}}},
    ],
)
def test_a_secret_is_found_and_never_shown(scene: MakeScene, needs: Any) -> None:
    """The finding names flag or variable; no finding of any gate holds the value."""
    found = gates.judge(scene({}, None, needs))
    assert _find(found, "secrets")["spark-a1"].verdict in {"fail", "warn"}
    assert "s3cr3t" not in repr(found)


def test_what_was_left_out_is_not_judged(known: Context, scene: MakeScene) -> None:
    """A probe that nobody asked for gives no finding, whichever kind of gate reads it."""
    made = scene({})
    context = dataclasses.replace(known, left_out=MINE)
    left = tuple(
        dataclasses.replace(
            facts,
            read={**facts.read, **collect.facts(Bundle(context=context, nodes={facts.node: _EMPTY}))[0].read},
        )
        for facts in made.facts
    )
    found = gates.judge(dataclasses.replace(made, facts=left))
    assert "unknown" not in {one.verdict for one in found}


_EMPTY = collect.NodeRecords()


def test_a_long_list_of_differences_is_counted(known: Context) -> None:
    """Six are named, the rest is a number; where two values tie, both sides are named."""
    first, second, third, fourth = known.line.nodes
    same = {f"k{place}": "1" for place in range(9)}
    other = dict.fromkeys(same, "2")
    tables = {first: same, second: same, third: same, fourth: other}
    seen = dict(differences.judge(tables, verdict="fail", absent_counts=True, tell=lambda node: node.name))
    assert [seen[node].verdict for node in (first, second, third)] == ["pass"] * 3
    assert seen[fourth].measured.startswith("k0: 2, elsewhere 1; k1")
    assert seen[fourth].measured.endswith("and 3 more")
    tied = differences.differences({first: same, second: other}, absent_counts=True)
    assert len(tied[first]) == len(tied[second]) == 9


def test_no_gate_raises_for_what_a_tool_prints(scene: MakeScene) -> None:
    """Whatever one node's tool prints, every gate answers, and the other nodes do not fail for it."""
    made = scene({})
    third = made.facts[2]

    @settings(max_examples=60, deadline=None)
    @given(probe=st.sampled_from(MINE), stdout=st.text(max_size=120), rc=st.sampled_from([0, 1, 125]))
    def holds(probe: str, stdout: str, rc: int) -> None:
        record = Record(probe=probe, argv=("ls", "/x"), rc=rc, stdout=stdout, stderr="", seconds=0.1)
        odd = dataclasses.replace(third, read={**third.read, probe: (probes.parse(record),)})
        found = gates.judge(dataclasses.replace(made, facts=(*made.facts[:2], odd, made.facts[3])))
        assert {one.node for one in found} == {node.name for node in made.line.nodes}
        assert not [one for one in found if one.node != third.node and one.verdict != "pass"]

    holds()


def test_the_line_stands_in_the_record(known: Context) -> None:
    """The command that inspects containers names its line, so that a bundle tells elsewhere whose are whose."""
    argv = next(row["argv"] for row in collect.tables(known)["spark-a0"] if row["probe"] == "containers")
    labels = '{"sparkctl.line": "%s", "sparkctl.rank": "0"}'
    told = [f'{{"Name": "/{name}", "Config": {{"Labels": {labels % name}}}}}' for name in ("A", "B")]
    record = Record(
        probe="containers",
        argv=tuple(argv),
        rc=0,
        stdout=f"[{','.join(told)}]",
        stderr="",
        seconds=0.1,  # type: ignore[arg-type]
    )
    found: Any = probes.parse(record)
    assert [one.name for one in found.found] == ["A"]
    assert [one.name for one in found.every] == ["A", "B"]
