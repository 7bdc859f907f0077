# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._cuda import files
from ansible_collections.sm120.sglang.plugins.plugin_utils._filters import cuda


def node(module: str, library: str, boot: str = "a") -> dict[str, Any]:
    return {
        "cuda": {
            "module": {
                "version": module,
                "open": True,
                "loaded": bool(module),
                "nouveau": False,
            },
            "library": library,
            "packages": {"driver": {"libcuda1": "590.48.01-1"}},
            "boot_id": boot,
            "kernel": {"release": "6.1.0-40-amd64"},
        }
    }


def test_a_driver_that_runs_as_installed_gives_no_reason_to_reboot() -> None:
    good = node("590.48.01", "590.48.01")
    assert cuda.cuda_running(good)["state"] == "ok"
    assert cuda.cuda_reboot_reasons(good, [files.UNATTENDED, files.NOUVEAU]) == []
    assert cuda.cuda_reboot_reasons(good, [files.GRUB, files.OPTIONS]) == [
        "kernel arguments changed",
        "module options changed",
    ]


def test_what_waits_for_a_reboot_is_named() -> None:
    (reason,) = cuda.cuda_reboot_reasons(node("580.95.05", "590.48.01"), [])
    assert reason.startswith("Driver/library version mismatch")
    (reason,) = cuda.cuda_reboot_reasons(node("", "590.48.01"), [])
    assert "the kernel module is not loaded" in reason


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (node("590.48.01", "590.48.01", "b"), ""),
        (node("590.48.01", "590.48.01", "a"), "did not reboot (boot id still a)"),
        (node("", "590.48.01", "b"), "after the reboot into kernel 6.1.0-40-amd64: the kernel"),
        (node("580.95.05", "590.48.01", "b"), "mismatch"),
    ],
)
def test_a_reboot_is_judged_by_boot_id_and_driver(after: dict[str, Any], says: str) -> None:
    found = cuda.cuda_still_wrong(node("580.95.05", "590.48.01", "a"), after)
    assert says in found
    assert bool(found) == bool(says)
