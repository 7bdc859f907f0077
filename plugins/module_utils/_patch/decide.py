# SPDX-License-Identifier: Apache-2.0
"""What one patch means for one release."""

from __future__ import annotations

from collections.abc import Callable

from ansible_collections.sm120.sglang.plugins.module_utils._patch.delegation import (
    decide_delegation,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.dict_entry import (
    decide_dict_entry,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.edits import apply_edits
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import (
    SourceError,
    TreeError,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import Modules
from ansible_collections.sm120.sglang.plugins.module_utils._patch.rules import (
    DictEntryRule,
    DiffRule,
    Patch,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.source import (
    check_compiles,
    parse,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.state import Decision, conflict
from ansible_collections.sm120.sglang.plugins.module_utils._patch.unified import decide_diff


def decide(patch: Patch, read: Callable[[str], bytes | None]) -> Decision:
    """Decide what a patch means for a release. Reads only; never raises for a bad source.

    Args:
        patch: the catalogue entry.
        read: gives a file of the release by its path inside the package, None where there is
            none.

    Returns:
        The decision; its edits fit the bytes that ``read`` gave for the patch's file.
    """
    try:
        data = read(patch.file)
        if data is None:
            return Decision("absent", "this release has no such file", (patch.file,))
        decision = _decide(patch, data, read)
        if decision.edits and patch.file.endswith(".py"):
            check_compiles(patch.file, apply_edits(data, decision.edits))
    except (SourceError, TreeError) as error:
        return conflict(str(error), patch.file)
    except RecursionError:
        return conflict("the source is nested too deeply to be judged", patch.file)
    return decision


def _decide(patch: Patch, data: bytes, read: Callable[[str], bytes | None]) -> Decision:
    rule = patch.rule
    if isinstance(rule, DiffRule):
        return decide_diff(patch.file, data, rule)
    modules = Modules(read)
    source = modules.source(patch.file) or parse(patch.file, data)
    if isinstance(rule, DictEntryRule):
        return decide_dict_entry(source, rule, read)
    return decide_delegation(source, rule, modules)
