# SPDX-License-Identifier: Apache-2.0
"""The ``sglang`` package folder of an installed release, a checkout or an editable install."""

from __future__ import annotations

import ast
import functools
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import TreeError
from ansible_collections.sm120.sglang.plugins.module_utils._tree.metadata import (
    Metadata,
    parse_metadata,
    parse_pyproject,
)

PACKAGE = "sglang"
# Where the package lies below what an operator names: site-packages, a
# source checkout (python/sglang, pyproject.toml beside it), a virtual environment.
_BELOW = (PACKAGE, f"python/{PACKAGE}")
_VERSION = re.compile(
    rb"^(?:__version__\s*=\s*)(?:version\s*=\s*)?['\"]([^'\"]+)['\"]", re.MULTILINE
)


class Folder:
    """Files of one release below its package folder; the one kind of tree that can be edited.

    Args:
        root: the package folder, with no links in its path.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def where(self) -> str:
        """The package folder."""
        return str(self.root)

    def locate(self, path: str) -> Path | None:
        """The real file behind a path inside the package, None where there is none.

        Raises:
            TreeError: a link leads out of the package, or it is not a plain file.
        """
        named = self.root / path
        try:
            real = named.resolve(strict=True)
        except FileNotFoundError:
            if named.is_symlink():
                raise TreeError(f"{named} is a link to nothing", "reinstall the release") from None
            return None
        except (OSError, RuntimeError) as error:  # a circle of links is RuntimeError up to 3.12
            raise TreeError(
                f"{named} cannot be followed: {error}", "reinstall the release"
            ) from error
        if not real.is_relative_to(self.root):
            raise TreeError(
                f"{named} leads out of the release, to {real}",
                "an edit there would reach other installations; put a copy in its place",
            )
        if not real.is_file():
            raise TreeError(f"{named} is not a plain file", "reinstall the release")
        return real

    def read(self, path: str) -> bytes | None:
        """The bytes of a file inside the package, None where there is none.

        Raises:
            TreeError: it cannot be read.
        """
        real = self.locate(path)
        if real is None:
            return None
        return _bytes(real)

    def names(self, prefix: str = "") -> list[str]:
        """Sorted paths of the package's files that begin with a prefix.

        Linked folders are not entered.

        Raises:
            TreeError: a folder cannot be listed.
        """
        # Only the folder that the prefix leads into is walked, not the whole package.
        start = self.root / prefix.rpartition("/")[0]
        found: list[str] = []
        for folder, below, files in os.walk(start, onerror=_cannot_list):
            below[:] = [name for name in below if name != "__pycache__"]
            inside = Path(folder).relative_to(self.root).as_posix()
            stem = "" if inside == "." else f"{inside}/"
            found += [stem + name for name in files if not name.endswith(".pyc")]
        return sorted(name for name in found if name.startswith(prefix))

    def version(self) -> str:
        """The version that the package tells, else that of the metadata."""
        return version_in(self.read) or self.metadata().version

    @functools.cached_property
    def _metadata(self) -> Metadata:
        site = self.root.parent
        # Where an older install has left its folder behind, the package's own version decides.
        own = site / f"{PACKAGE}-{version_in(self.read)}.dist-info" / "METADATA"
        every = sorted(site.glob(f"{PACKAGE}-*.dist-info/METADATA"))
        for info in [own] if own in every else every:
            wheel = info.with_name("WHEEL")
            tags = _bytes(wheel) if wheel.exists() else b""
            return parse_metadata(str(info), _bytes(info), tags)
        project = site / "pyproject.toml"
        return parse_pyproject(str(project), _bytes(project)) if project.is_file() else Metadata()

    def metadata(self) -> Metadata:
        """The ``dist-info`` folder beside the package, else a checkout's ``pyproject.toml``."""
        return self._metadata


def version_in(read: Callable[[str], bytes | None]) -> str:
    """The version that a package's own files tell; empty where they do not."""
    for name in ("_version.py", "version.py"):
        match = _VERSION.search(read(name) or b"")
        if match:
            return match.group(1).decode("ascii", "replace")
    return ""


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TreeError(f"{path} cannot be read: {error.strerror}", "run as its owner") from error


def _cannot_list(error: OSError) -> None:
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise TreeError(
            f"{error.filename} cannot be listed: {error.strerror}", "run as its owner"
        ) from error


def open_folder(named: str) -> Folder:
    """Find the package folder from what an operator names.

    Args:
        named: the package folder, a site-packages folder, a checkout, or a virtual environment.

    Raises:
        TreeError: there is no package, or more than one.
    """
    start = Path(named).expanduser()
    if not start.is_dir():
        raise TreeError(
            f"{named} {'is not a folder' if start.exists() else 'does not exist'}",
            "name the folder of the installed sglang package",
        )
    start = start.resolve()
    found = [start] if (start / "srt").is_dir() else []
    found = found or [start / below for below in _BELOW if _is_package(start / below)][:1]
    found = found or [path for path in _venv_packages(start) if _is_package(path)]
    found = found or [path for path in _editable(start) if _is_package(path)]
    found = sorted({path.resolve() for path in found})
    if len(found) == 1:
        return Folder(found[0])
    if found:
        raise TreeError(f"{named} holds several packages: {', '.join(map(str, found))}", "name one")
    raise TreeError(
        f"there is no {PACKAGE} package in {named}",
        "name the package folder, its site-packages folder, a checkout or a virtual environment",
    )


def _is_package(path: Path) -> bool:
    return path.name == PACKAGE and (path / "srt").is_dir()


def _venv_packages(start: Path) -> Iterator[Path]:
    for site in start.glob("lib/python3*/site-packages"):
        yield site / PACKAGE
        yield from _editable(site)


def _editable(site: Path) -> Iterator[Path]:
    """Package folders that an editable install's records in site-packages point to."""
    for record in site.glob(f"{PACKAGE}-*.dist-info/direct_url.json"):
        try:
            content = json.loads(record.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(content, dict) and (content.get("dir_info") or {}).get("editable"):
            project = Path(unquote(urlparse(str(content.get("url", ""))).path))
            yield project / PACKAGE
            yield project / "python" / PACKAGE
    for link in [*site.glob(f"__editable__*{PACKAGE}*.pth"), *site.glob(f"{PACKAGE}*.egg-link")]:
        for line in link.read_text("utf-8", "replace").splitlines():
            if line.startswith("/"):
                yield Path(line.strip()) / PACKAGE
    for finder in site.glob(f"__editable___{PACKAGE}_*_finder.py"):
        yield from _mapped(finder)


def _mapped(finder: Path) -> Iterator[Path]:
    """The folder that a setuptools editable finder maps the package to."""
    try:
        tree = ast.parse(finder.read_text("utf-8"))
    except (OSError, ValueError, SyntaxError):
        return
    for statement in tree.body:
        target = (
            getattr(statement, "target", None) or (getattr(statement, "targets", None) or [0])[0]
        )
        if isinstance(target, ast.Name) and target.id == "MAPPING":
            try:
                mapping = ast.literal_eval(getattr(statement, "value", target))
            except ValueError:
                continue
            if isinstance(mapping, dict) and isinstance(mapping.get(PACKAGE), str):
                yield Path(mapping[PACKAGE])
