# SPDX-License-Identifier: Apache-2.0
"""What an error of the file system means for the operator: file, reason, remedy."""

from __future__ import annotations

import errno
from pathlib import Path

_REMEDIES = {
    errno.ENOSPC: "free space on its file system (`df -h` and `df -i` name it), then run again",
    errno.EDQUOT: "raise the quota or free space, then run again",
    errno.EROFS: "its file system is read-only: `journalctl -k` tells whether it failed; mount it "
    "writable, then run again",
    errno.EIO: "the device fails (`journalctl -k`): replace it, then run again",
    errno.EACCES: "correct owner and mode of the folder, then run again",
    errno.EPERM: "take its immutable flag away (`lsattr`, `chattr -i`), then run again",
}


def explain(error: OSError, path: Path | str = "") -> str:
    """One sentence or two.

    Args:
        error: What was raised.
        path: The file that was worked on, for an error that does not name one.

    Returns:
        File, the system's words, and a remedy where there is one.
    """
    where = error.filename or path
    reason = error.strerror or str(error)
    remedy = _REMEDIES.get(error.errno or 0)
    told = f"{where}: {reason}" if where else reason
    return f"{told}. Remedy: {remedy}" if remedy else told


def of_text(text: str) -> str:
    """The remedy for what another program says of its own error, empty without one."""
    for number, words in ((errno.ENOSPC, "No space left"), (errno.EROFS, "Read-only file system")):
        if words in text:
            return f". Remedy: {_REMEDIES[number]}"
    return ""
