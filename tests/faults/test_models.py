# SPDX-License-Identifier: Apache-2.0
"""Files of models and of the configuration that are damaged or exchanged under a serving engine."""

from __future__ import annotations

import pytest

from tests.faults.conftest import Broken, ends_well, mended
from tests.faults.test_node import NO_SPACE, full_disk

pytestmark = pytest.mark.faults

TARGET = "/var/lib/sglang/models/kimi-lab/1"
DRAFT = "/var/lib/sglang/models/kimi-lab-draft-hit/1"


@pytest.mark.fault("weights-damaged")
@pytest.mark.fault("disk-full-models")
def test_a_weight_shard_is_damaged(node: Broken) -> None:
    good = node.run(f"sha256sum < {TARGET}/model.safetensors")
    node.run(
        f"printf X | dd of={TARGET}/model.safetensors conv=notrunc bs=1 seek=5000000 status=none"
    )
    assert node.run(f"sha256sum < {TARGET}/model.safetensors") != good
    foreseen = node.deploy("--check")
    assert foreseen.says("changed since verified: model.safetensors"), foreseen.output
    assert foreseen.says("the engine RESTARTS"), foreseen.output
    # Bringing it again needs its size once more.
    with full_disk(node, TARGET, 1):
        outcome = node.deploy()
        partial = node.run(f"ls -A {TARGET} | grep partial || true")
    ends_well(outcome, cause=NO_SPACE, remedy="Remedy: free space")
    assert partial == ""
    mended(node)
    assert node.run(f"sha256sum < {TARGET}/model.safetensors") == good


@pytest.mark.fault("config-of-another-model")
def test_the_config_of_another_model(node: Broken) -> None:
    """The engine serves what it had loaded; a restart would load the wrong one."""
    good = node.run(f"sha256sum < {TARGET}/config.json")
    node.run(f"cp {DRAFT}/config.json {TARGET}/config.json")
    foreseen = node.deploy("--check")
    assert foreseen.says("missing or of another size: config.json"), foreseen.output
    assert foreseen.says("the engine RESTARTS"), foreseen.output
    mended(node)
    assert node.run(f"sha256sum < {TARGET}/config.json") == good


@pytest.mark.fault("wrong-api-key")
def test_the_key_on_the_node_is_not_the_inventorys(node: Broken) -> None:
    """Edited by hand, and the engine was restarted with it."""
    wrong = node.play("status", engine_api_key="x" * 32)
    assert wrong.says("the API key given here is not the engine's"), wrong.output
    assert wrong.says("Remedy: give the engine's own"), wrong.output
    node.run(
        "sed -i 's/api-key: .*/api-key: \"forged\"/' /etc/sglang/secrets.yaml; "
        "systemctl restart --no-block sglang; sleep 2"
    )
    node.wait("systemctl is-active sglang")
    outcome = mended(node)
    said = "secrets.yaml: content differs, and the engine was started with it"
    assert outcome.says(said), outcome.output
    assert not outcome.says("forged"), outcome.output
