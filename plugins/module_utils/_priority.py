# SPDX-License-Identifier: Apache-2.0
"""Leave processors and disks to the serving engine while something is prepared beside it."""

from __future__ import annotations

import os

NICENESS = 10


def give_way() -> None:
    """Lower this thread's priority, and with it that of all threads and processes it starts.

    For the program of a module, before anything else: Linux lowers the calling thread alone. Its
    disk priority follows: what asked for none has the best-effort class's level of (20 + niceness)
    / 5, here 6 instead of 4 (ionice(1)).
    """
    os.setpriority(os.PRIO_PROCESS, 0, max(NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))
