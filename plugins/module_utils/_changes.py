# SPDX-License-Identifier: Apache-2.0
"""What differs between two launches, by their configuration files: for plans and failures."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import TypedDict

from ansible_collections.sm120.sglang.plugins.module_utils._bundle import redact
from ansible_collections.sm120.sglang.plugins.module_utils._node.service import LAUNCH_DIGEST

# A line goes on after a backslash that stands alone: a value may end with one too.
_START = re.compile(r"^ExecStart=(?P<line>(?:.* \\\n)*.*)$", re.MULTILINE)
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')
_VARIABLE = re.compile(r"^(?P<name>[A-Za-z_]\w*)=(?P<value>.*)$", re.MULTILINE)
_BARE = re.compile(r'"([\w./:,+@=-]*)"')  # quoted, and the same without quotes
_MOST = 12  # the files themselves are kept, and shown by --diff
_LONGEST = 60
_DIGEST = "secret "


class Settings(TypedDict):
    """What a launch is configured with; secrets stand as digests, which tell only a change.

    Attributes:
        arguments: Flag, such as `--tp-size`, to its values as they stand in the unit, separated
            by blanks; empty for a bare flag.
        environment: Variable to value.
    """

    arguments: dict[str, str]
    environment: dict[str, str]


def read(files: Mapping[str, str]) -> Settings:
    """Read the files that the role engine writes.

    Args:
        files: Name to content; units end in `.service`, environment files in `.env`.

    Returns:
        The settings, without secrets and without the launch's own digest.
    """
    found: Settings = {"arguments": {}, "environment": {}}
    for name in sorted(files):
        if name.endswith(".service"):
            found["arguments"].update(arguments(files[name]))
        elif name.endswith(".env"):
            found["environment"].update(environment(files[name]))
    for settings in (found["arguments"], found["environment"]):
        settings.update({name: _without_secret(name, text) for name, text in settings.items()})
    return found


def arguments(unit: str) -> dict[str, str]:
    """The launch arguments in a unit file that the role engine wrote.

    Args:
        unit: The file's content.

    Returns:
        As in `Settings`, secrets among them.
    """
    found = _START.search(unit)
    grouped: dict[str, list[str]] = {}
    flag = ""
    for word in _WORD.findall(found["line"].replace(" \\\n", " ") if found else ""):
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


def _without_secret(name: str, text: str) -> str:
    """The value, or for a secret a digest that only tells whether it is another one."""
    if redact.sensitive(name) or redact.clean(text) != text:
        return _DIGEST + hashlib.sha256(text.encode()).hexdigest()[:8]
    return text


def differences(before: Settings, now: Settings, releases: tuple[str, str] = ("", "")) -> list[str]:
    """Compare two launches.

    Args:
        before: The launch that served.
        now: The one that shall serve, or failed.
        releases: Their releases; what differs only in the release's name is not told.

    Returns:
        Phrases: `--flag 1 -> 2`, `+ --flag 2`, `- --flag 1`, and the same of variables as
        `NAME=1 -> 2`; a secret only as `NAME changed (secret)`. At most thirteen, the last one
        says how many more there are.
    """
    found = [
        *_compare(before["arguments"], now["arguments"], " ", releases),
        *_compare(before["environment"], now["environment"], "=", releases),
    ]
    more = len(found) - _MOST
    return [*found[:_MOST], f"and {more} more"] if more > 0 else found


def _compare(
    before: Mapping[str, str], now: Mapping[str, str], joint: str, releases: tuple[str, str]
) -> Iterator[str]:
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        if old is None or new is None:
            sign, value = ("+", new) if old is None else ("-", old)
            yield f"{sign} {name}{_value(value or '', joint)}"
        elif _release_free(old, releases[0]) != _release_free(new, releases[1]):
            if _DIGEST in (old[: len(_DIGEST)], new[: len(_DIGEST)]):
                yield f"{name} changed (secret)"
            else:
                yield f"{name}{_value(old, joint) or ' (bare)'} -> {_short(new) or '(bare)'}"


def _release_free(text: str, release: str) -> str:
    return text.replace(release, "RELEASE") if release else text


def _value(text: str, joint: str) -> str:
    if text.startswith(_DIGEST):
        return " (secret)"
    return f"{joint}{_short(text)}" if text else ""


def _short(text: str) -> str:
    bare = _BARE.sub(r"\1", text)
    return bare if len(bare) <= _LONGEST else f"{bare[: _LONGEST - 3]}..."
