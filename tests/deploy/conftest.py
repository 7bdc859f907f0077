# SPDX-License-Identifier: Apache-2.0
"""Deployments on a real lab node, run as an operator runs them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab_node import Node, fresh_node


@pytest.fixture(scope="session")
def bare() -> Iterator[Node]:
    """A fresh node; gone at the end."""
    with fresh_node() as node:
        yield node


@pytest.fixture(scope="session")
def deployed(bare: Node) -> Node:
    """The node with a serving engine."""
    outcome = bare.deploy()
    assert outcome.code == 0, outcome.output
    return bare
