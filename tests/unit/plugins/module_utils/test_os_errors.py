# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _os_errors


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "No space left on device. Remedy: free space"),
        (errno.EROFS, "Read-only file system. Remedy: its file system is read-only"),
        (errno.EPERM, "Operation not permitted. Remedy: take its immutable flag away"),
        (errno.EBUSY, "Device or resource busy"),
    ],
)
def test_file_reason_and_remedy(number: int, says: str) -> None:
    error = OSError(number, os.strerror(number), "/opt/x")
    assert _os_errors.explain(error, "/other").startswith(f"/opt/x: {says}")
    error = OSError(number, os.strerror(number))
    assert _os_errors.explain(error, Path("/other")).startswith(f"/other: {says}")
    assert _os_errors.explain(error).startswith(says)


def test_an_error_of_its_own_words() -> None:
    assert _os_errors.explain(OSError("cannot")) == "cannot"


def test_another_programs_words() -> None:
    assert "Remedy: free space" in _os_errors.of_text(
        "error: No space left on device (os error 28)"
    )
    assert _os_errors.of_text("error: no such wheel") == ""
