# SPDX-License-Identifier: Apache-2.0
"""Everything that the roles own on a node, each changed by hand in one way.

The table of docs/operations.md lists the same names (a test compares them).
"""

from __future__ import annotations

from .configuration import CONFIGURATION, GATED
from .installed import HOST_FILES, MODELS, RELEASES, USER
from .kind import Kind
from .restarting import RESTARTS

# What needs no restart comes first: an engine takes its time.
KINDS: dict[str, Kind] = {
    **RELEASES,
    **USER,
    **MODELS,
    **CONFIGURATION,
    **HOST_FILES,
    **GATED,
    **RESTARTS,
}
