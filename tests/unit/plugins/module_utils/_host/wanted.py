# SPDX-License-Identifier: Apache-2.0
"""What the tests' nodes should be: the role's own defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).parents[5]
DEFAULTS = yaml.safe_load((REPOSITORY / "roles/preflight/defaults/main.yml").read_text())
FAIL_ON: list[str] = DEFAULTS["preflight_fail_on"]
WANTED: dict[str, Any] = {
    "gpus": 8,
    "gpu_names": DEFAULTS["preflight_gpu_names"],
    "gpu_capabilities": DEFAULTS["preflight_gpu_capabilities"],
    "minimum_driver": "580.65.06",
    "shm": DEFAULTS["preflight_shm_gib"] << 30,
    "nofile": DEFAULTS["preflight_open_files"],
    "unit": "sglang.service",
    "peer": True,
    "driver_by": "",
}
