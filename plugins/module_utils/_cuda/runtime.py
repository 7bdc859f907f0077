# SPDX-License-Identifier: Apache-2.0
"""Judge the running driver: kernel module against library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def running(cuda: Mapping[str, Any], installed: bool) -> dict[str, str]:
    """Compare the running kernel module with the libraries that programs load.

    Args:
        cuda: The reading's `cuda` part.
        installed: Whether apt has installed a driver.

    Returns:
        `state`, one of `ok`, `mismatch`, `not_loaded` and `closed`, and `reason`, a sentence with
        the remedy, empty when it is ok or when there is no driver to judge.
    """
    module, library = cuda["module"], cuda["library"]
    if module["version"] and library and module["version"] != library:
        return {
            "state": "mismatch",
            "reason": f"Driver/library version mismatch: the running kernel module is "
            f"{module['version']}, the libraries are {library}; nvidia-smi and every new CUDA "
            "program fail until a reboot",
        }
    if not module["version"] and (library or installed):
        why = ", because nouveau holds the cards" if module["nouveau"] else ""
        return {
            "state": "not_loaded",
            "reason": f"the kernel module is not loaded{why}; a reboot loads it",
        }
    if module["version"] and module["open"] is False:
        return {
            "state": "closed",
            "reason": f"the running kernel module {module['version']} is the proprietary one, "
            "which does not drive Blackwell cards; install the open modules",
        }
    return {"state": "ok", "reason": ""}


def still_wrong(before: str, after: str, state: Mapping[str, str], release: str) -> str:
    """Judge a driver after a reboot.

    Args:
        before: Boot id before it.
        after: Boot id after it.
        state: What `running` says now.
        release: The running kernel.

    Returns:
        A sentence with what to look at, empty when all is well.
    """
    if before == after:
        return (
            f"the node did not reboot (boot id still {after}); look at its console: a server with "
            "eight cards can take 20 minutes"
        )
    if state["state"] == "ok":
        return ""
    return (
        f"after the reboot into kernel {release}: {state['reason'].partition(';')[0]}. Look at "
        "`dkms status`, `journalctl -k -b | grep -iE 'nvidia|nvrm|nouveau'`, and whether the "
        f"headers of {release} are installed"
    )
