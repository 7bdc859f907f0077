# SPDX-License-Identifier: Apache-2.0
"""All filters of the collection.

One file: for each filter that a template names, ansible-core looks through every file of filters
that a collection has, in every task's own process.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

from ansible_collections.sm120.sglang.plugins.plugin_utils import _filters

_PARTS = tuple(
    importlib.import_module(f"{_filters.__name__}.{module.name}")
    for module in pkgutil.iter_modules(_filters.__path__)
)


@functools.cache
def every() -> dict[str, Callable[..., Any]]:
    """Name to function.

    Returns:
        All filters.

    Raises:
        ValueError: Two parts have a filter of the same name.
    """
    found: dict[str, Callable[..., Any]] = {}
    for part in _PARTS:
        filters = part.filters()
        if twice := found.keys() & filters.keys():
            raise ValueError(f"{part.__name__}: {', '.join(sorted(twice))} is another part's")
        found |= filters
    return found


class FilterModule:
    """The filters, by name."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name to function."""
        return dict(every())
