# SPDX-License-Identifier: Apache-2.0
"""Deployments on a real lab node, run as an operator runs them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab_node import Node, Outcome, fresh_node


@pytest.fixture(scope="session")
def bare() -> Iterator[Node]:
    """A fresh node; gone at the end."""
    with fresh_node() as node:
        yield node


@pytest.fixture(scope="session")
def first(bare: Node) -> Outcome:
    """The first deployment to the node."""
    outcome = bare.deploy()
    assert outcome.code == 0, outcome.output
    return outcome


@pytest.fixture(scope="session")
def deployed(bare: Node, first: Outcome) -> Node:
    """The node with a serving engine."""
    assert first.code == 0
    return bare
