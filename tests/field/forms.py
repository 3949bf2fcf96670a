"""Forms: how a text from the field becomes what a probe of ours would have printed on one node.

Each form takes the text, the sound node's record of that probe and the case's own options, and gives what changes in that
record. A form moves values and judges nothing; what the text does not tell is a sound node's. A case names its form, with
options beside it.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bootcheck.facts import Record
from bootcheck.probes.burn import BURN_SCRIPT
from sparkctl.line import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What a form may know: the node, what its probe prints on a sound node, the options of the case."""

    node: Node
    sound: Record
    given: Mapping[str, Any] = field(default_factory=dict)


Change = dict[str, Any]


def plain(text: str, own: Own) -> Change:
    """The text is what the command printed; `stream` and `rc` say where and how it ended."""
    return {"stdout": "", own.given.get("stream", "stdout"): text, "rc": own.given.get("rc", 0)}


def fact(text: str, own: Own) -> Change:
    """The file tells facts by node: `key` is the one that stands where a sound node has `old`."""
    told = list(json.loads(text).values())[own.node.rank][own.given["key"]]
    return {"stdout": own.sound.stdout.replace(own.given["old"], told)}


def json_field(text: str, own: Own) -> Change:
    """The text is one field of the JSON line that the script prints."""
    return {"stdout": json.dumps(json.loads(own.sound.stdout) | {own.given["name"]: text})}


# Memory.


def free_m(text: str, _: Own) -> Change:
    """`free -m` to /proc/meminfo: its buff/cache is what Cached says."""
    rows = {
        line.split()[0]: [int(cell) * 1024 for cell in line.split()[1:]] for line in text.splitlines()[1:]
    }
    total, _used, free, shared, cached, available = rows["Mem:"]
    swap_total, _swap_used, swap_free = rows["Swap:"]
    told = {
        "MemTotal": total,
        "MemFree": free,
        "MemAvailable": available,
        "Cached": cached,
        "Shmem": shared,
        "SwapTotal": swap_total,
        "SwapFree": swap_free,
    }
    return {"stdout": "".join(f"{name + ':':<15}{value:>9} kB\n" for name, value in told.items())}


def cuda(text: str, own: Own) -> Change:
    """`cudaMemGetInfo free=N total=N` to what the GEMV script says of CUDA's memory."""
    told = {f"cuda_{name}": int(value) for name, value in re.findall(r"(free|total)=(\d+)", text)}
    return {"stdout": json.dumps(json.loads(own.sound.stdout) | told)}


# GPU.


def _table(text: str) -> list[dict[str, str]]:
    """Rows of nvidia-smi's CSV by field, without the units of the header."""
    header, *rows = [[cell.strip() for cell in line.split(",")] for line in text.strip().splitlines()]
    names = [re.sub(r" \[.*\]$", "", cell) for cell in header]
    return [dict(zip(names, row, strict=True)) for row in rows]


def smi_row(text: str, own: Own) -> Change:
    """The last row of a CSV of other fields, laid over a sound node's: fields that the probe does not ask for fall away."""
    header = own.sound.stdout.splitlines()[0]
    known, told = _table(own.sound.stdout)[0], _table(text)[-1]
    row = [told.get(name, value) for name, value in known.items()]
    return {"stdout": f"{header}\n{', '.join(row)}\n"}


_SKIPPED_S = float(re.findall(r"skipped_s, burn_s, every_s = \d+, \d+, ([\d.]+)", BURN_SCRIPT)[0])
_BURN = {"sm_mhz": "clocks.current.sm", "power_w": "power.draw", "temperature_c": "temperature.gpu"}


def burn_samples(text: str, own: Own) -> Change:
    """Samples of nvidia-smi under load to the burn's lists; the rate, which they do not tell, is a sound node's.

    With `from_start` the load begins with the first sample, and what the burn's script leaves out is left out.
    """
    rows = _table(text)
    at = [_clock(row["timestamp"]) for row in rows]
    least = _SKIPPED_S if own.given.get("from_start") else 0.0
    kept = [row for row, seconds in zip(rows, at, strict=True) if seconds - at[0] >= least]
    told = {
        name: [float(row[cell].split()[0]) for row in kept] for name, cell in _BURN.items() if cell in rows[0]
    }
    return {"stdout": json.dumps(json.loads(own.sound.stdout) | told)}


def _clock(timestamp: str) -> float:
    hours, minutes, seconds = timestamp.split()[1].split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def burn_line(text: str, own: Own) -> Change:
    """`NODE TFLOPS n under load: n MHz, n W`, one line a node; the parser wants three seconds, so the figure stands for each."""
    tflops, clock, power = (float(one) for one in re.findall(r"\d+\.?\d*", text.splitlines()[own.node.rank]))
    told = {
        "probe": "burn",
        "tflops": [tflops] * 3,
        "sm_mhz": [clock],
        "power_w": [power],
        "temperature_c": [],
    }
    return {"stdout": json.dumps(told)}


def compute_apps(text: str, _: Own) -> Change:
    """A list that was printed without its header."""
    return {"stdout": f"pid, process_name, used_gpu_memory [MiB]\n{text}"}


def ps(text: str, own: Own) -> Change:
    """`ps` with three columns, after a sound node's processes; age and resident memory are the case's to say."""
    rows = [line.split(maxsplit=2) for line in text.splitlines()[1:]]
    age, resident = own.given["age_s"], own.given["resident_kib"]
    told = "".join(
        f"{pid:>7} {parent:>7} {age:>7} {resident:>7} {command}\n" for pid, parent, command in rows
    )
    known = {row[0] for row in rows}
    sound = (line for line in own.sound.stdout.splitlines() if line.split()[0] not in known)
    return {"stdout": "\n".join([*sound, told])}


# Fabric.


def ip_br(text: str, _: Own) -> Change:
    """`ip -br addr` to `ip -j addr`. The short form tells no MTU: 9000 stands there."""
    links = []
    for line in text.splitlines():
        name, state, *addresses = line.split()
        held = [one.split("/") for one in addresses]
        links.append(
            {
                "ifname": name,
                "mtu": 9000,
                "flags": ["UP", "LOWER_UP"] if state in {"UP", "UNKNOWN"} else ["UP"],
                "addr_info": [{"local": address, "prefixlen": int(prefix)} for address, prefix in held],
            }
        )
    return {"stdout": json.dumps(links)}


def own_addresses(text: str, own: Own) -> Change:
    """`ip -j addr` of one node as another node would print it: the nth interface holds the node's own nth fabric address."""
    links = json.loads(text)
    for link, rail in zip(links, own.node.rails, strict=True):
        link["addr_info"][0]["local"] = rail.address
    return {"stdout": json.dumps(links)}


def phys_ports(text: str, _: Own) -> Change:
    """`INTERFACE port=pN ...` to the lines of grep; the speed, which it does not tell, is a sound link's."""
    folder = "/sys/class/net"
    told = [(name, port) for name, port in re.findall(r"^(\S+)\s+port=(p\d)", text, re.MULTILINE)]
    lines = [f"{folder}/{name}/phys_port_name:{port}\n{folder}/{name}/speed:200000\n" for name, port in told]
    return {"stdout": "".join(lines)}


def devices_of_pairs(text: str, own: Own) -> Change:
    """`ibdev2netdev` to ibv_devinfo: every device it lists, active where its interface is up."""
    sound = own.sound.stdout.split("hca_id:")[1].replace(own.node.rails[0].hca, "HCA")
    pairs = re.findall(r"^(\S+)\s+port 1 ==> \S+\s+\((Up|Down)\)", text, re.MULTILINE)
    states = {"Up": "PORT_ACTIVE (4)", "Down": "PORT_DOWN (1)"}
    blocks = (sound.replace("HCA", hca).replace("PORT_ACTIVE (4)", states[state]) for hca, state in pairs)
    return {"stdout": "".join(f"hca_id:{block}" for block in blocks)}


def nccl_log(text: str, own: Own) -> Change:
    """NCCL's log before the answer of a sound collective."""
    return {"stdout": f"{text}\n{own.sound.stdout.splitlines()[-1]}\n"}


# Parity.


def hashes(text: str, own: Own) -> Change:
    """`NODE: ... name=HASH ...`, one line a node, to lines of sha256sum; eight digits, repeated, stand for a whole hash."""
    told = re.findall(r"(\w+)=([0-9]{8})(?: |$)", text.splitlines()[own.node.rank])
    return {"stdout": "".join(f"{digest * 8}  /srv/patches/{name}.py\n" for name, digest in told)}


def missing_source(text: str, own: Own) -> Change:
    """`NODE: ... name=missing ...`, one line a node, to what stat says of the source of that name."""
    names = [
        name.replace("_", "-") for name in re.findall(r"(\w+)=missing", text.splitlines()[own.node.rank])
    ]
    lost = [line for line in own.sound.stdout.splitlines() if line.rpartition("/")[2] in names]
    kept = "".join(f"{line}\n" for line in own.sound.stdout.splitlines() if line not in lost)
    paths = [line.split("|")[2] for line in lost]
    said = "".join(f"stat: cannot statx '{path}': No such file or directory\n" for path in paths)
    return {"stdout": kept, "stderr": said, "rc": 1 if lost else 0}


def rank_environment(text: str, own: Own) -> Change:
    """`== rank N` with its variables below, to docker inspect of that rank while it runs."""
    section = text.split("== rank ")[own.node.rank + 1].splitlines()[1:]
    told = {
        "Name": f"/sparkctl-a-rank{own.node.rank}",
        "State": {"Status": "running", "Pid": 41800},
        "HostConfig": {"RestartPolicy": {"Name": "no"}},
        "Config": {"Env": section, "Labels": {"sparkctl.line": "A", "sparkctl.rank": str(own.node.rank)}},
    }
    return {"stdout": json.dumps([told])}


# Model.

_SHARD = 49182731264


def names(text: str, _: Own) -> Change:
    """A list of names to the rows of find; all of one size."""
    return {"stdout": "".join(["d|4096|\n", *(f"f|{_SHARD}|{name}\n" for name in text.split())])}


def tree(text: str, _: Own) -> Change:
    """A listing with `link -> target` to the rows of `find -L`: a link is what it leads to, or stays a link."""
    rows = [line.partition(" -> ") for line in text.splitlines()]
    there = {path for path, arrow, _ in rows if not arrow}
    kinds = {
        path: "f" if not arrow or target.replace("../../", "models--org--name/") in there else "l"
        for path, arrow, target in rows
    }
    return {"stdout": "".join(["d|4096|\n", *(f"{kind}|{_SHARD}|{path}\n" for path, kind in kinds.items())])}


FORMS: Mapping[str, Callable[[str, Own], Change]] = {
    one.__name__.replace("_", "-"): one
    for one in (
        *(plain, fact, json_field, free_m, cuda, smi_row, burn_samples, burn_line, compute_apps, ps, ip_br),
        *(own_addresses, phys_ports, devices_of_pairs, nccl_log, hashes, missing_source, rank_environment),
        *(names, tree),
    )
}
