"""Gates on software: the same kernel and driver everywhere."""

from bootcheck.facts import Unread
from bootcheck.gates.gate import Demand, ParityGate
from bootcheck.probes.gpu import Gpu
from bootcheck.probes.software import Kernel

GATES = (
    ParityGate(
        name="kernel-parity",
        section="parity",
        about="every rank runs the same kernel",
        demand=lambda _: Demand(
            wanted="the same kernel on every node",
            origin="kernel 7.0.0-1019 breaks RDMA registration that 6.17 allows (NVIDIA/NV-Kernels#590, reported)",
        ),
        remedy="bring the node to the kernel of the others",
        troubles=("NVIDIA/open-gpu-kernel-modules#1358",),
        reads=lambda facts: None if isinstance(found := facts.one(Kernel), Unread) else found.release,
        verdict="warn",
    ),
    ParityGate(
        name="driver-parity",
        section="parity",
        about="every rank has the same driver",
        demand=lambda _: Demand(
            wanted="the same driver on every node",
            origin="the hidden slow state came with some drivers only (tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark#1)",
        ),
        remedy="bring the node to the driver of the others",
        troubles=("tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark#1",),
        reads=lambda facts: None if isinstance(found := facts.one(Gpu), Unread) else found.driver,
        verdict="warn",
    ),
)
