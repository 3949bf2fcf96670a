"""Where no CUDA device is, Triton's kernels run in its interpreter: that is read when Triton is imported, so it is set here, before any test."""

import importlib.util
import os
import sys
from pathlib import Path

# The mini model that calibration is tested on. Last: some benchmarks are called as the package that they measure.
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

if importlib.util.find_spec("torch"):
    import torch

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"
