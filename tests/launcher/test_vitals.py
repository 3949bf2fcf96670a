"""Vitals of a node beside its rank: what is read, what stays unknown, and what the answers add up to."""

from bootcheck.facts import Record
from launcher import vitals
from launcher.vitals import Vitals

GPU = (
    "name, driver_version, pstate, clocks.current.sm [MHz], power.draw [W], temperature.gpu, utilization.gpu [%]\n"
    "NVIDIA GB10, 580.173.02, P0, 2398 MHz, 24.30 W, 55, 95 %\n"
)
THROTTLE = (
    "clocks_event_reasons.active, clocks_event_reasons_counters.sw_power_cap [us], "
    "clocks_event_reasons_counters.hw_thermal_slowdown [us], clocks_event_reasons_counters.hw_power_brake_slowdown [us], "
    "clocks_event_reasons_counters.sw_thermal_slowdown [us]\n"
    "0x0000000000000000, 0 us, 1200 us, 0 us, 300 us\n"
)
MEMORY = (
    "MemTotal:       127606784 kB\nMemFree:         5242880 kB\nMemAvailable:    6291456 kB\nCached:          1048576 kB\n"
    "SwapTotal:       16777212 kB\nSwapFree:        15728636 kB\n"
)


def seen(gpu: str = GPU, throttle: str = THROTTLE, memory: str = MEMORY) -> Vitals:
    """Parse what a node printed."""
    texts = dict(zip(vitals.ARGVS, (gpu, throttle, memory), strict=True))
    records = [
        Record(probe=probe, argv=vitals.ARGVS[probe], rc=0, stdout=text, stderr="", seconds=0.1)
        for probe, text in texts.items()
    ]
    return vitals.parse("spark-a0", *records)


def test_a_node_tells_clock_heat_and_memory() -> None:
    """Both kinds of heat add up; what lies in swap is what is not free of it."""
    found = seen()
    assert found.gpu is not None
    assert (found.gpu.sm_mhz, found.gpu.temperature_c) == (2398, 55)
    assert found.heat_us == 1500
    assert found.swapped_bytes == 1_048_576 * 1024
    assert found.unread == ()


def test_what_cannot_be_read_is_unknown_and_says_why() -> None:
    """A node that does not answer has no clock of 0 and no swap of 0."""
    found = seen(gpu="", throttle="", memory="")
    assert (found.gpu, found.throttle, found.memory, found.heat_us, found.swapped_bytes) == (None,) * 5
    assert [one.partition(":")[0] for one in found.unread] == ["gpu", "gpu-throttle", "memory"]


def test_a_driver_without_counters_tells_no_heat() -> None:
    """Fields that a driver does not know are a fact with its words, not a zero."""
    found = seen(throttle='Field "clocks_event_reasons.active" is not a valid field to query.\n')
    assert found.heat_us is None
    assert found.unread == ()


def test_a_node_without_swap_lines_tells_none() -> None:
    """A kernel that does not print swap leaves it unknown."""
    assert seen(memory=MEMORY[: MEMORY.index("SwapTotal")]).swapped_bytes is None
