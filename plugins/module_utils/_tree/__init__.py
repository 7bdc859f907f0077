# SPDX-License-Identifier: Apache-2.0
"""The files of one SGLang release, whatever they lie in: a folder on disk, or a wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from ansible_collections.sm120.sglang.plugins.module_utils._tree.folder import (
    PACKAGE,
    Folder,
    open_folder,
)
from ansible_collections.sm120.sglang.plugins.module_utils._tree.metadata import Metadata
from ansible_collections.sm120.sglang.plugins.module_utils._tree.wheel import Wheel, open_wheel

__all__ = ["PACKAGE", "Folder", "Metadata", "Tree", "Wheel", "open_folder", "open_tree"]


class Tree(Protocol):
    """What can be read of a release. Paths are inside the ``sglang`` package, with ``/``."""

    @property
    def where(self) -> str:
        """The folder or the wheel, for messages."""

    def read(self, path: str) -> bytes | None:
        """The bytes of a file, None where there is none.

        Raises:
            TreeError: it is there and cannot be read.
        """

    def names(self, prefix: str = "") -> list[str]:
        """Sorted paths of the files that begin with a prefix; compiled bytecode is left out.

        Raises:
            TreeError: the files cannot be listed.
        """

    def version(self) -> str:
        """The release's version; empty where the tree does not tell."""

    def metadata(self) -> Metadata:
        """What the release asks of its environment; empty where the tree does not tell.

        Raises:
            TreeError: the metadata is there and cannot be read.
        """


def open_tree(named: str) -> Tree:
    """Open a release for reading.

    Args:
        named: the package folder, a site-packages folder, a checkout, a virtual environment, one
            with an editable install, or a wheel file.

    Raises:
        TreeError: there is no such release; the message says what is there instead.
    """
    return open_wheel(named) if Path(named).expanduser().is_file() else open_folder(named)
