# SPDX-License-Identifier: Apache-2.0
"""What nobody foresaw, as a message: ansible-core drops it where a task is not failed by it."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_REMEDY = (
    "That is a defect of this deployment, or of what it found on the node: run again with -vvv for "
    "the traceback"
)


def sentence(work: str, error: BaseException) -> str:
    """Name an exception for which no message was written.

    Args:
        work: What was being done, such as "the switch".
        error: What was raised.

    Returns:
        Kind, text and the line of the collection (or else of Python) that raised it.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "sm120" in frame.filename] or frames
    where = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
    return f"{work} broke: {type(error).__name__}: {error}{where}. {_REMEDY}"


def with_reason(result: Mapping[str, Any]) -> dict[str, Any]:
    """A refused result that says why, also where its module did not come to say so.

    Args:
        result: What a task with `failed_when: false` has registered; empty for no refusal.

    Returns:
        The same with `msg`; of a module that was killed it names exit status and last words
        (ansible-core 2.19 to 2.21 says "Module result deserialization failed" for all of them).
    """
    if not result or ("msg" in result and "rc" not in result):
        return dict(result)
    said = "\n".join(str(result.get(name) or "") for name in ("module_stdout", "module_stderr"))
    last = next((word.strip() for word in reversed(said.splitlines()) if word.strip()), "nothing")
    ended = f"with status {result['rc']}" if "rc" in result else "without a result"
    return {
        **result,
        "msg": f"the task's program on the node ended {ended} before it could say why; its last "
        f"words: {last}. Look at the node's kernel log (an out-of-memory kill is status 137) and "
        "run again, with -vvv for all that it said",
    }
