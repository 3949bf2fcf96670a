"""Gates on software: the same kernel everywhere."""

from bootcheck.facts import Kernel
from bootcheck.gates.gate import Demand, ParityGate

KERNEL_PARITY = ParityGate(
    name="kernel-parity",
    about="every rank runs the same kernel",
    demand=lambda _: Demand(
        wanted="the same kernel on every node",
        origin="kernel 7.0.0-1019 breaks RDMA registration that 6.17 allows (NVIDIA/NV-Kernels#590, reported)",
    ),
    reads=lambda facts: facts.kernel.release if isinstance(facts.kernel, Kernel) else None,
    show=str,
    verdict="warn",
)
