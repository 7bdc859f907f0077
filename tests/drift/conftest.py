# SPDX-License-Identifier: Apache-2.0
"""One serving node, on which everything is changed by hand and has to come back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab_node import Node, fresh_node

# The gate's short form: what is found and mended does not depend on the further questions.
BASE: dict[str, Any] = {
    "health_gate_verify_steps": 4,
    "health_gate_long_prompt_tokens": 0,
    "health_gate_concurrency": 0,
    "health_gate_sampling": False,
    "health_gate_image": False,
    "engine_stop_timeout": 20,
}


class Changed(Node):
    """A node whose runs all have the same variables, but for those that a change asks for."""

    def __init__(self) -> None:
        self.extra: dict[str, Any] | None = None

    def command(
        self, *words: str, extra: dict[str, Any] | None = None, playbook: str = "deploy.yml"
    ) -> list[str]:
        return super().command(*words, extra={**BASE, **(extra or {})}, playbook=playbook)

    def settle(self, extra: dict[str, Any]) -> None:
        """Deploy with these variables, unless the last deployment had them."""
        if self.extra != extra:
            outcome = self.deploy(extra=extra)
            assert outcome.code == 0, outcome.output
            self.extra = extra


@pytest.fixture(scope="session")
def serving() -> Iterator[Changed]:
    """A fresh node with a serving engine; with DRIFT_NODE=present the one that is there."""
    if os.environ.get("DRIFT_NODE") == "present":
        yield Changed()
        return
    with fresh_node():
        yield Changed()
