"""Which kernel reads a shape on a device: CUDA C++ where it can, Triton elsewhere, with a line in the log that says why."""

import logging

import torch

from sparkctl_vllm import native, triton_experts
from sparkctl_vllm.native import Shape
from sparkctl_vllm.refusal import Refusal

log = logging.getLogger(__name__)


def kernel_for(shape: Shape, device: torch.device) -> native.Kernel | triton_experts.Kernel:
    """Return the kernel of a shape; both are called alike, each with weights from its own `packed`."""
    why = _not_cuda(device)
    if not why:
        try:
            return native.Kernel(shape, device)
        except Refusal as refused:
            why = refused.hint or str(refused)
    log.warning("budget reads: Triton instead of CUDA C++ for %s: %s", shape, why)
    return triton_experts.Kernel(shape, device)


def _not_cuda(device: torch.device) -> str:
    if device.type != "cuda":
        return f"the device is a {device.type}"
    major, minor = torch.cuda.get_device_capability(device)
    known = f"{major}{minor}" in native.ARCHITECTURES
    return "" if known else f"sm_{major}{minor} is not one of {', '.join(native.ARCHITECTURES)}"
