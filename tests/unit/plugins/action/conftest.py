# SPDX-License-Identifier: Apache-2.0
"""A node for plays: a real SSH server whose systemctl and journalctl are stand-ins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.plugins.action.engine_play import PlayNode
from tests.unit.plugins.plugin_utils.sshd import Sshd, running_sshd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def node(tmp_path: Path) -> PlayNode:
    """The node's folder and stand-ins."""
    return PlayNode(tmp_path / "node")


@pytest.fixture
def server(tmp_path: Path, node: PlayNode) -> Iterator[Sshd]:
    """The node's SSH server."""
    with running_sshd(tmp_path / "sshd", path=node.path) as one:
        yield one
