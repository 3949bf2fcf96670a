"""The probes that run in the serving image, answered from a practice node's hidden state in the probes' own words."""

import json
import random
import sys
import time
from collections.abc import Callable
from hashlib import sha256

from rehearsal.faces import system, tree
from rehearsal.faces.docker_asked import Asked
from rehearsal.node import Node, Rail

Probe = Callable[[Node, Asked], int]

_BLOCKS = 8
_BLOCK_S = 1.25  # of the line's seconds, as all below
_BURN_S = 10.0
_COLLECTIVE_S = 3.0
_RUNTIME_S = 1.0
_NOISE = 0.008
_CUDA_TOTAL = 130_663_235_584  # what CUDA reports of 121.69 GiB in public captures
_SAMPLES = 16

_SOCKET_GB_S = 2.4  # NCCL over TCP is several times slower (mark-ramsey-ri/vllm-dgx-spark#1, reported); the figure is ours
_FULL_LINK_GBIT = 92.0
_SMALL_MTU = 0.82  # 18 to 21 of 23.7 GB/s at MTU 1500 (NVIDIA/dgx-spark-playbooks PR#103, reported)

_NCCL = "/opt/venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"
_PTXAS = "/opt/venv/lib/python3.12/site-packages/triton/backends/nvidia/bin/ptxas-blackwell"


def find(name: str) -> Probe | None:
    """Return how a probe of that name is answered; None for no probe."""
    return {"gemv": _gemv, "burn": _burn, "collective": _collective, "runtime": _runtime}.get(name)


def _say(answer: dict[str, object]) -> int:
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


def _around(middle: float, count: int, noise: float = _NOISE) -> list[float]:
    chance = random.Random()  # noqa: S311 - a meter's jitter, not a secret
    return [round(middle * chance.gauss(1, noise), 2) for _ in range(count)]


def _gemv(node: Node, _: Asked) -> int:
    """Answer the GEMV probe: blocks around the node's hidden figure, and what CUDA has free, which is MemFree."""
    time.sleep(_BLOCKS * _BLOCK_S / node.pace)
    return _say(
        {
            "probe": "gemv",
            "gb_s": _around(node.gemv_gb_s, _BLOCKS),
            "seconds": [_BLOCK_S] * _BLOCKS,
            "cuda_free": system.memory_kib(node.root)["MemFree"] * 1024,
            "cuda_total": _CUDA_TOTAL,
        }
    )


def _burn(node: Node, _: Asked) -> int:
    """Answer the burn: products a second, and clocks, power and temperature under that load."""
    time.sleep(_BURN_S / node.pace)
    burn = node.traits.burn
    return _say(
        {
            "probe": "burn",
            "tflops": _around(burn.tflops, _BLOCKS),
            "sm_mhz": [round(one) for one in _around(burn.sm_mhz, _SAMPLES, 0.004)],
            "power_w": _around(burn.power_w, _SAMPLES, 0.01),
            "temperature_c": [burn.temperature_c + at // 6 for at in range(_SAMPLES)],
        }
    )


def _collective(node: Node, asked: Asked) -> int:
    """Answer the collective as one rank of it: NCCL's own lines where it is told to say them, then the bandwidth."""
    rank, world, _, _, size = asked.argv[-5:]
    time.sleep(_COLLECTIVE_S / node.pace)
    environment = asked.pairs("--env")
    rails = _used(node, environment)
    said = _Nccl(node, int(rank), int(world), rails)
    if node.traits.cabling == "ring" and int(world) > 3:
        return said.no_way_across()
    if node.traits.nccl_network == "Socket" and environment.get("NCCL_NET") == "IB":
        return said.no_adapter()
    if environment.get("NCCL_DEBUG") == "INFO":
        said.start(environment.get("NCCL_SOCKET_IFNAME", ""))
    figures = _around(_busbw(node, rails), _BLOCKS // 2)
    gathered = min(int(size), system.memory_kib(node.root)["MemAvailable"] * 1024 // 20)
    return _say(
        {
            "probe": "collective",
            "ranks": int(world),
            "bytes": gathered - gathered % (4 * int(world)),
            "busbw_gb_s": figures,
            "wrong": 0,
        }
    )


def _used(node: Node, environment: dict[str, str]) -> tuple[Rail, ...]:
    """Return the rails that NCCL uses: those of NCCL_IB_HCA, else all."""
    named = [name.partition(":")[0].lstrip("=") for name in environment.get("NCCL_IB_HCA", "").split(",")]
    return tuple(rail for rail in node.self.rails if rail.hca in named) or node.self.rails


def _busbw(node: Node, rails: tuple[Rail, ...]) -> float:
    """Return the line's bus bandwidth in GB/s: that of its slowest node over the rails in use."""
    if node.traits.nccl_network == "Socket":
        return _SOCKET_GB_S
    places = [node.self.rails.index(rail) for rail in rails]
    return min(sum(_reached(peer.rails[at]) for at in places) for peer in node.peers)


def _reached(rail: Rail) -> float:
    share = min(1.0, rail.link_gbit / _FULL_LINK_GBIT)
    return rail.busbw_gb_s * share * (1.0 if rail.roce_mtu >= 4096 else _SMALL_MTU)


class _Nccl:
    """NCCL's INFO lines of one rank, as NCCL 2.2x prints them."""

    def __init__(self, node: Node, rank: int, world: int, rails: tuple[Rail, ...]) -> None:
        self._node, self._rank, self._world, self._rails = node, rank, world, rails

    def _say(self, text: str, thread: int = 344) -> None:
        sys.stdout.write(f"{self._node.name}:301:{thread} [0] {text}\n")

    def start(self, interface: str) -> None:
        """Say how NCCL starts: over the adapters, or over sockets where it finds none."""
        first = self._rails[0]
        here = f"{interface or first.interface}:{first.address}<0>"
        if interface:
            self._say(f"NCCL INFO NCCL_SOCKET_IFNAME set by environment to {interface}", 301)
        self._say(f"NCCL INFO Bootstrap: Using {here}", 301)
        if self._node.traits.nccl_network == "Socket":
            self._say("NCCL INFO NET/IB : No device found.")
            self._say(f"NCCL INFO NET/Socket : Using [0]{here}")
            self._say("NCCL INFO Using network Socket")
        else:
            self._adapters(here)
        complete = f"comm 0x1 rank {self._rank} nranks {self._world} cudaDev 0 nvmlDev 0 busId f01000 commId 0x2 - Init COMPLETE"
        self._say(f"NCCL INFO ncclCommInitRankConfig {complete}", 301)

    def _adapters(self, here: str) -> None:
        for at, rail in enumerate(self._rails):
            speed = f"speed={rail.speed_mbit} ndevs=1"
            self._say(f"NCCL INFO NET/IB : Made virtual device [{at}] name={rail.hca} {speed}")
        devices = " ".join(f"[{at}]{rail.hca}:1/RoCE" for at, rail in enumerate(self._rails))
        self._say(f"NCCL INFO NET/IB : Using {devices} [RO]; OOB {here}")
        self._say("NCCL INFO Using network IB")
        onward = (self._rank + 1) % self._world
        for at, _ in enumerate(self._rails):
            self._say(
                f"NCCL INFO Channel {at:02d}/0 : {self._rank}[0] -> {onward}[0] [send] via NET/IB/{at}", 301
            )
        self._say("NCCL INFO Connected all rings, use ring PXN 0 GDR 0", 301)

    def no_adapter(self) -> int:
        """Say how NCCL ends where it may use nothing but RDMA and finds none: it does not fall back then."""
        self._say("NCCL INFO NET/IB : No device found.")
        self._say("net.cc:712 NCCL WARN Failed to initialize any NET plugin")
        sys.stderr.write(
            "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, invalid "
            "usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.28.9\n"
        )
        return 1

    def no_way_across(self) -> int:
        """Say how NCCL's trees die in a ring: it needs a way to the node across (MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks PR#3)."""
        first = self._rails[0]
        far = (self._rank + 2) % self._world
        across = self._node.peers[far].rails[0]
        trees = " ".join(f"[{at}] {far}/-1/-1->{self._rank}->-1" for at, _ in enumerate(self._rails))
        self._say(f"NCCL INFO Trees {trees}")
        self._say("NCCL INFO Connected all rings, use ring PXN 0 GDR 0")
        sys.stdout.write(
            f"{self._node.name}:301:350 [0] ibvwrap.cc:318 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed "
            f"out, on dev {first.hca}:1, curr state INIT, next state RTR, local GID index {first.gid_index}, local GID "
            f"::ffff:{first.address}, remote GID ::ffff:{across.address}\n"
        )
        self._say("NCCL INFO transport/generic.cc:24 -> 2")
        sys.stderr.write(
            "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n"
        )
        return 1


def _runtime(node: Node, asked: Asked) -> int:
    """Answer the look into the image: NCCL's binary and settings, the assembler's targets, the model's folder."""
    time.sleep(_RUNTIME_S / node.pace)
    traits = node.traits
    model = asked.outside(asked.argv[-1])
    there = tree.look(node, model) if model else None
    return _say(
        {
            "probe": "runtime",
            "nccl": [
                {"path": _NCCL, "sha256": sha256(f"nccl 2.28.9 {traits.nccl_build}".encode()).hexdigest()}
            ],
            "nccl_conf": traits.nccl_conf or None,
            "ptxas": " ".join((_PTXAS, "release 13.0, V13.0.88", *traits.ptxas_targets)),
            "model_exists": there is not None,
            "model_entries": len(tree.children(node, model)) if there else 0,
        }
    )
