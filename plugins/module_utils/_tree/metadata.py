# SPDX-License-Identifier: Apache-2.0
"""What a release asks of its environment: wheel metadata, or a checkout's ``pyproject.toml``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from email import message_from_bytes, policy
from types import ModuleType
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import TreeError

_toml: ModuleType | None
try:
    import tomllib as _toml
except ImportError:  # Python 3.10; wheels and installs have METADATA, which needs no TOML
    _toml = None

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?([^;]*)(?:;(.*))?")


@dataclass(frozen=True)
class Requirement:
    """One requirement of a release.

    Attributes:
        name: normalized name: lower case, with ``-``.
        extras: extras of it that are asked for, such as ``cu13``.
        versions: version conditions as written, without blanks; ``""`` for any version.
        marker: environment marker; ``""`` for everywhere.
    """

    name: str
    extras: tuple[str, ...]
    versions: str
    marker: str

    @property
    def pin(self) -> str:
        """The version where it is exactly one, else ``""``."""
        exact = self.versions.startswith("==") and not set(",*") & set(self.versions)
        return self.versions.lstrip("=") if exact else ""


@dataclass(frozen=True)
class Metadata:
    """What a release asks of its environment.

    Attributes:
        source: where it was read; ``""`` for a tree that has none.
        name: name of the distribution.
        version: its version; ``""`` where it is computed at build time.
        requires_python: versions of Python, as written.
        requires: requirements that hold without an extra.
        tags: the wheel's tags; empty for a checkout.
    """

    source: str = ""
    name: str = ""
    version: str = ""
    requires_python: str = ""
    requires: tuple[Requirement, ...] = ()
    tags: tuple[str, ...] = ()

    def requirement(self, *names: str) -> Requirement | None:
        """The requirement of the first name that is there."""
        for name in names:
            for requirement in self.requires:
                if requirement.name == normalized(name):
                    return requirement
        return None


def normalized(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse_requirement(text: str) -> Requirement:
    """Read ``name[extra]==1.0; marker``.

    Raises:
        ValueError: it does not begin with a name.
    """
    match = _REQUIREMENT.match(text)
    if match is None:
        raise ValueError(f"{text!r} is no requirement")
    name, extras, versions, marker = match.groups()
    wanted = tuple(part.strip() for part in (extras or "").split(",") if part.strip())
    conditions = "" if "@" in versions else "".join(versions.strip().strip("()").split())
    return Requirement(normalized(name), wanted, conditions, (marker or "").strip())


def parse_metadata(source: str, metadata: bytes, wheel: bytes = b"") -> Metadata:
    """Read the files METADATA and WHEEL of a ``dist-info`` folder.

    Raises:
        TreeError: METADATA names no distribution.
    """
    fields = message_from_bytes(metadata, policy=policy.compat32)
    name = str(fields.get("Name") or "").strip()
    if not name:
        raise TreeError(f"{source} names no distribution", "download the wheel again")
    tags = message_from_bytes(wheel, policy=policy.compat32).get_all("Tag") or []
    return Metadata(
        source=source,
        name=name,
        version=str(fields.get("Version") or "").strip(),
        requires_python=str(fields.get("Requires-Python") or "").strip(),
        requires=_requirements(source, fields.get_all("Requires-Dist") or []),
        tags=tuple(str(tag).strip() for tag in tags),
    )


def parse_pyproject(source: str, data: bytes) -> Metadata:
    """Read a checkout's ``pyproject.toml``; empty on Python 3.10, which cannot read TOML.

    Raises:
        TreeError: it is not valid.
    """
    if _toml is None:
        return Metadata()
    try:
        project: Any = _toml.loads(data.decode("utf-8")).get("project", {})
        return Metadata(
            source=source,
            name=str(project.get("name", "")),
            version=str(project.get("version", "")),
            requires_python=str(project.get("requires-python", "")),
            requires=_requirements(source, project.get("dependencies", [])),
        )
    except (ValueError, AttributeError, TypeError) as error:  # TOMLDecodeError is a ValueError
        raise TreeError(f"{source} cannot be read: {error}", "restore the file") from error


def _requirements(source: str, lines: list[Any]) -> tuple[Requirement, ...]:
    try:
        every = [parse_requirement(str(line)) for line in lines]
    except ValueError as error:
        raise TreeError(f"{source}: {error}", "download the wheel again") from error
    return tuple(item for item in every if not re.search(r"\bextra\b", item.marker))
