# SPDX-License-Identifier: Apache-2.0
"""Makes the stand-ins importable from their source, and keeps torch tests out where torch is not.

`make test-kernels` runs them in an environment that has torch; there, a missing torch is an error
(nothing collected), never a silent pass.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[4] / "lab" / "kernels" / "src"
sys.path.insert(0, str(SOURCE))

collect_ignore_glob: list[str] = []
if importlib.util.find_spec("torch") is None:
    collect_ignore_glob.append("test_torch_*.py")
