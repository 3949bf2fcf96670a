"""How workers of different hosts talk: vLLM's CPU takes ranks whose rendezvous has the same port for ranks of one host."""

from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator


class ApartCommunicator(CpuCommunicator):
    """vLLM's own, without the memory that only ranks of one host share."""

    def _all_group_ranks_share_shm_group_name(self) -> bool:
        return False
