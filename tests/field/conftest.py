"""Loads what the cases are judged with: no module under tests/ is a package's, so each gets a name of its own here."""

import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).parent
HEALTHY = HERE.parent / "bootcheck" / "healthy.py"

for path in (
    HEALTHY,
    *(HERE / f"{name}.py" for name in ("catalogue", "forms", "line", "loading", "serving", "measuring")),
):
    spec = importlib.util.spec_from_file_location(f"field_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[f"field_{path.stem}"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
