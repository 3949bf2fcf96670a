"""Where no CUDA device is, Triton's kernels run in its interpreter: that is read when Triton is imported, so it is set here, before any test."""

import importlib.util
import os
import sys
from pathlib import Path

sys.path.insert(
    0, str(Path(__file__).parents[2] / "benchmarks")
)  # the mini model that calibration is tested on

if importlib.util.find_spec("torch"):
    import torch

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"
