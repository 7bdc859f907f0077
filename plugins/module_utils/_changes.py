# SPDX-License-Identifier: Apache-2.0
"""What differs between two launches, by their configuration files: for a failure nobody knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from ansible_collections.sm120.sglang.plugins.module_utils._node.service import LAUNCH_DIGEST

_START = re.compile(r"^ExecStart=(?P<line>(?:.*\\\n)*.*)$", re.MULTILINE)
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')
_VARIABLE = re.compile(r"^(?P<name>[A-Za-z_]\w*)=(?P<value>.*)$", re.MULTILINE)
_MOST = 6  # of each kind; the files themselves are kept
_LONGEST = 60


def arguments(unit: str) -> dict[str, str]:
    """The launch arguments in a unit file that the role engine wrote.

    Args:
        unit: The file's content.

    Returns:
        Flag, such as `--tp-size`, to its values as they stand there, separated by blanks; empty
        for a bare flag.
    """
    found = _START.search(unit)
    grouped: dict[str, list[str]] = {}
    flag = ""
    for word in _WORD.findall(found["line"].replace("\\\n", " ") if found else ""):
        if word.startswith("--"):
            flag = word
            grouped[flag] = []
        elif flag:
            grouped[flag].append(word)
    return {name: " ".join(values) for name, values in grouped.items()}


def environment(text: str) -> dict[str, str]:
    """The variables of an environment file, but for the launch's own digest."""
    found = {match["name"]: match["value"] for match in _VARIABLE.finditer(text)}
    found.pop(LAUNCH_DIGEST, None)
    return found


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Compare the files of two launches.

    Args:
        before: Name to content of the files of the launch that served.
        now: The same of the one that failed.

    Returns:
        At most four phrases: arguments added, removed and changed, and the names of variables
        that differ. Values of variables are not told: they may be secret.
    """
    old, new = _all(before, ".service", arguments), _all(now, ".service", arguments)
    both = old.keys() & new.keys()
    changed = [f"{n} {_value(old[n])} -> {_value(new[n])}" for n in both if old[n] != new[n]]
    kinds = {
        "arguments added": [f"{n} {_short(new[n])}".rstrip() for n in new.keys() - old.keys()],
        "arguments removed": [f"{n} {_short(old[n])}".rstrip() for n in old.keys() - new.keys()],
        "arguments changed": changed,
    }
    was, is_now = _all(before, ".env", environment), _all(now, ".env", environment)
    kinds["variables changed"] = [
        name for name in was.keys() | is_now.keys() if was.get(name) != is_now.get(name)
    ]
    return [f"{kind}: {_some(items)}" for kind, items in kinds.items() if items]


def _all(
    files: Mapping[str, str], suffix: str, read: Callable[[str], dict[str, str]]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in sorted(files):
        if name.endswith(suffix):
            found.update(read(files[name]))
    return found


def _value(text: str) -> str:
    return _short(text) or "(none)"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _some(items: Iterable[str]) -> str:
    named = sorted(items)
    more = f" and {len(named) - _MOST} more" if len(named) > _MOST else ""
    return ", ".join(named[:_MOST]) + more
