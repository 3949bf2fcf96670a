"""A platform of vLLM: its CPU, told what vLLM itself says of GPUs only, so that the real engine serves over Ray without one.

Two things are missing there: by which of Ray's resources a worker is placed (every node of a line tells Ray of one GPU,
launcher/vllm.py, so one worker comes to each), and that workers of different hosts share no memory.
"""

from vllm.platforms.cpu import CpuPlatform


class RayCpuPlatform(CpuPlatform):
    """vLLM's CPU, over Ray."""

    ray_device_key = "GPU"

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Return what workers talk through."""
        return "ray_on_cpu_apart.ApartCommunicator"


def find() -> str:
    """Return the platform's name; called by vLLM in each of its processes."""
    return "ray_on_cpu.RayCpuPlatform"
