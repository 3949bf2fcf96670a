"""Runs the command line as `python -m sparkctl_vllm.cli`."""

import sys

from sparkctl_vllm.cli import main

sys.exit(main())
