# SPDX-License-Identifier: Apache-2.0
"""One SSH server for all tests of a module that only need to connect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.plugins.plugin_utils.sshd import Sshd, running_sshd

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A real OpenSSH server on a loopback address."""
    with running_sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server
