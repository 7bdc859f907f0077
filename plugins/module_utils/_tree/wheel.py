# SPDX-License-Identifier: Apache-2.0
"""A wheel file as a tree: read in place, never unpacked."""

from __future__ import annotations

import functools
import zipfile
import zlib
from pathlib import Path

from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import TreeError
from ansible_collections.sm120.sglang.plugins.module_utils._tree.folder import PACKAGE, version_in
from ansible_collections.sm120.sglang.plugins.module_utils._tree.metadata import (
    Metadata,
    parse_metadata,
)

# The wheel of SGLang 0.5.23 lists 6396 files; its largest that is read as text has 0.4 MB.
_MAX_FILES = 200_000
_MAX_BYTES = 32 * 1024 * 1024
_AGAIN = "download the wheel again"


class Wheel:
    """Files of one release inside a wheel.

    Args:
        path: the wheel.
        archive: the same, opened.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self._archive = archive
        self._start = f"{PACKAGE}/"

    @property
    def where(self) -> str:
        """The wheel's path."""
        return str(self.path)

    def read(self, path: str) -> bytes | None:
        """The bytes of a file inside the package, None where there is none.

        Raises:
            TreeError: it is damaged, encrypted or far too large.
        """
        return self._member(self._start + path)

    def names(self, prefix: str = "") -> list[str]:
        """Sorted paths of the package's files that begin with a prefix."""
        start = self._start + prefix
        return sorted(
            name[len(self._start) :]
            for name in self._archive.NameToInfo
            if name.startswith(start) and not name.endswith(("/", ".pyc"))
        )

    def version(self) -> str:
        """The version that the package tells, else that of the metadata."""
        return version_in(self.read) or self.metadata().version

    @functools.cached_property
    def _metadata(self) -> Metadata:
        for name in self._archive.NameToInfo:
            folder, _, file = name.rpartition("/")
            if file == "METADATA" and folder.endswith(".dist-info") and "/" not in folder:
                data, wheel = self._member(name), self._member(f"{folder}/WHEEL")
                return parse_metadata(f"{self.path}: {name}", data or b"", wheel or b"")
        return Metadata()

    def metadata(self) -> Metadata:
        """The files METADATA and WHEEL of the wheel."""
        return self._metadata

    def _member(self, name: str) -> bytes | None:
        info = self._archive.NameToInfo.get(name)
        if info is None or info.is_dir():
            return None
        try:
            with self._archive.open(info) as stream:
                data = stream.read(_MAX_BYTES + 1)
        except (OSError, RuntimeError, NotImplementedError, EOFError, ValueError) as error:
            raise TreeError(f"{self.path}: {name} cannot be read: {error}", _AGAIN) from error
        except (zipfile.BadZipFile, zlib.error) as error:
            raise TreeError(f"{self.path}: {name} is damaged: {error}", _AGAIN) from error
        if len(data) > _MAX_BYTES:
            raise TreeError(
                f"{self.path}: {name} unpacks to more than {_MAX_BYTES} bytes",
                "look where the wheel comes from: no SGLang release has such a file",
            )
        return data


def open_wheel(named: str) -> Wheel:
    """Open a wheel.

    Raises:
        TreeError: it is no wheel, a damaged one, or one of another project.
    """
    path = Path(named).expanduser()
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError) as error:
        raise TreeError(f"{path} is not a wheel: {error}", _remedy(path)) from error
    except (OSError, NotImplementedError) as error:
        raise TreeError(f"{path} cannot be read: {error}", "run as its owner") from error
    if len(archive.NameToInfo) > _MAX_FILES:
        raise TreeError(
            f"{path} lists {len(archive.NameToInfo)} files", "look where the wheel comes from"
        )
    wheel = Wheel(path, archive)
    if not any(name.startswith(f"{PACKAGE}/srt/") for name in archive.NameToInfo):
        name = wheel.metadata().name
        what = f"a wheel of {name}" if name else "no wheel of a project"
        raise TreeError(
            f"{path} is {what}: there is no {PACKAGE}/srt in it", f"name a wheel of {PACKAGE}"
        )
    return wheel


def _remedy(path: Path) -> str:
    if path.name.endswith((".tar.gz", ".tgz")):
        return "unpack the source archive and name its folder"
    return f"{_AGAIN}: 'pip download --no-deps {PACKAGE}==VERSION'"
