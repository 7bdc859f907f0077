# SPDX-License-Identifier: Apache-2.0
"""Releases that are damaged on the node, or wrong before they come to it."""

from __future__ import annotations

import pytest

from tests.faults.conftest import Broken, ends_well, mended, untouched
from tests.lab_node import LAB_ARGUMENTS

pytestmark = pytest.mark.faults

PACKAGES = "/opt/sglang/current/venv/lib/python3*/site-packages"


@pytest.mark.fault("release-half-deleted")
def test_half_of_the_release_is_deleted(node: Broken) -> None:
    engine = node.engine()
    node.run(f"cd $(echo {PACKAGES}); rm -r sglang/srt/layers torch/nn sgl_kernel")
    untouched(node, engine)  # what it has loaded
    outcome = mended(node)
    assert outcome.says("file(s) not as built"), outcome.output
    assert outcome.says(": missing"), outcome.output


@pytest.mark.faults_core
@pytest.mark.fault("argument-of-another-release")
def test_an_argument_of_another_release(node: Broken) -> None:
    engine = node.engine()
    arguments = {**LAB_ARGUMENTS, "context-bucket": 2}
    outcome = node.deploy(extra={**node.wanted, "engine_arguments": arguments})
    ends_well(outcome, cause="engine_arguments.context-bucket: unknown", remedy="0.5.21")
    untouched(node, engine)
