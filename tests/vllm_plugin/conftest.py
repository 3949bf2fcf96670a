"""Where no CUDA device is, Triton's kernels run in its interpreter: that is read when Triton is imported, so it is set here, before any test."""

import importlib.util
import os

if importlib.util.find_spec("torch"):
    import torch

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"
