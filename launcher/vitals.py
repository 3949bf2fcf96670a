"""Vitals: how each node stands while its rank serves: clock, temperature, power, what holds the clock down, memory. Pure.

What needs the GPU for itself (burn, GEMV) cannot run beside a rank; what these readings cannot see, the hidden slow state, shows
in the time of a decode step, which whoever reads them measures beside.
"""

from dataclasses import dataclass

from bootcheck.facts import Record, Unread
from bootcheck.probes.gpu import GPU_ARGV, THROTTLE_ARGV, Gpu, Throttle, parse_gpu, parse_throttle
from bootcheck.probes.memory import MEMINFO_ARGV, Memory, parse_meminfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """One node at one moment; None is what could not be read, and `unread` says why."""

    node: str
    gpu: Gpu | None = None
    throttle: Throttle | None = None
    memory: Memory | None = None
    unread: tuple[str, ...] = ()

    @property
    def heat_us(self) -> int | None:
        """Microseconds for which heat held the clock down since the driver was loaded, by the hardware or by the driver."""
        told = (self.throttle.hw_thermal_us, self.throttle.sw_thermal_us) if self.throttle else ()
        known = [one for one in told if one is not None]
        return sum(known) if known else None

    @property
    def swapped_bytes(self) -> int | None:
        """What lies in swap."""
        memory = self.memory
        if memory is None or memory.swap_total is None or memory.swap_free is None:
            return None
        return memory.swap_total - memory.swap_free


ARGVS = {Gpu.probe: GPU_ARGV, Throttle.probe: THROTTLE_ARGV, Memory.probe: MEMINFO_ARGV}
"""What each node is asked, by probe."""


def parse(node: str, gpu: Record, throttle: Record, memory: Record) -> Vitals:
    """Read one node's answers."""
    facts = parse_gpu(gpu), parse_throttle(throttle), parse_meminfo(memory)
    found_gpu, found_throttle, found_memory = facts
    return Vitals(
        node=node,
        gpu=None if isinstance(found_gpu, Unread) else found_gpu,
        throttle=None if isinstance(found_throttle, Unread) else found_throttle,
        memory=None if isinstance(found_memory, Unread) else found_memory,
        unread=tuple(f"{one.probe}: {one.why}" for one in facts if isinstance(one, Unread)),
    )
