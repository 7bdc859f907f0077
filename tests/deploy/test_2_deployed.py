# SPDX-License-Identifier: Apache-2.0
"""A node that serves: what a re-run finds, mends, refuses, and survives."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.lab_node import LAB_ARGUMENTS, Node, Outcome

pytestmark = pytest.mark.lab

VARIABLE = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"


def serves(node: Node) -> bool:
    """Whether the engine runs the current release without a restart."""
    shown = node.run("systemctl show sglang --property=ActiveState,NRestarts").splitlines()
    return set(shown) == {"ActiveState=active", "NRestarts=0"}


# What the gate says of a check: nothing is left out that the lab's model can do.
CHECKS = {
    "unit": r"OK.*main process \d+",
    "port": r"OK.*:30000 answers$",
    "model_info": r"OK.*KimiK25ForConditionalGeneration from ",
    "readiness": r"OK.*/health after ",
    "known_answer": r"OK 'one two three .* 16 tokens in ",
    "accept_length": r"OK 4\.0 \(limit 1\.2\): \d+ draft tokens accepted in 1[2-9] verify steps",
    "server_info": r"OK.*version 0\.5\.9",
    "kv_tokens": r"OK 4096 \(limit 2048\)",
    "reasoning": r"OK.*\d+ characters of thinking kept apart",
    "sampling": r"OK.*8 tokens at temperature 0\.8 in ",
    "long_prompt": r"OK 'one two three .*: 1\d\d prompt tokens, 16 tokens in ",
    "repeated_prompt": r"OK 'one two three .*; (\d+) of (\d+) prompt tokens from the prefix cache",
    "concurrency": r"OK 2 answered \(limit 2\): 2 requests at once",
    "tool_call": r"SKIPPED.*health_gate_tool_call is false",
    "image": r"OK 'one two three .*answered in ",
    "gpu_memory": r"SKIPPED.*there is no nvidia-smi on this node",
}


def test_the_first_launch_has_passed_every_check_of_the_gate(first: Outcome) -> None:
    found = re.findall(r"^\[lab-1\] +\d+s  ([A-Z]+) (\w+)(.*)$", first.output, re.MULTILINE)
    made = {name: f"{verdict}{rest}" for verdict, name, rest in found if name in CHECKS}
    assert list(made) == list(CHECKS), first.output
    wrong = [line for name, line in made.items() if not re.match(CHECKS[name], line)]
    assert wrong == []
    cached = re.search(CHECKS["repeated_prompt"], made["repeated_prompt"])
    assert cached
    assert int(cached[1]) >= int(cached[2]) - 2


def test_a_second_run_changes_nothing(deployed: Node) -> None:
    before = deployed.engine()
    outcome = deployed.deploy()
    assert outcome.code == 0, outcome.output
    assert outcome.changed == 0
    assert outcome.says("nothing to do")
    assert deployed.engine() == before


def test_an_unknown_launch_argument_is_named_and_nothing_changes(deployed: Node) -> None:
    before, product = deployed.engine(), deployed.product()
    outcome = deployed.deploy(
        extra={"engine_arguments": {**LAB_ARGUMENTS, "no-such-flag": True, "nor-this": 1}}
    )
    assert outcome.code != 0
    assert outcome.says("engine_arguments.no-such-flag: unknown"), outcome.output
    assert outcome.says("engine_arguments.nor-this: unknown"), outcome.output
    assert deployed.engine() == before
    assert deployed.product() == product


@pytest.mark.fault("value-accepted-by-hand")
def test_a_value_that_was_accepted_by_hand_meets_the_installed_parser(deployed: Node) -> None:
    before = deployed.engine()
    extra = {
        "engine_arguments": {**LAB_ARGUMENTS, "load-format": "floppy"},
        "engine_launch_accept": ["load-format"],
    }
    outcome = deployed.deploy(extra=extra)
    assert outcome.says("engine_arguments.load-format: bad choice: 'floppy'"), outcome.output
    assert outcome.code != 0
    assert outcome.says("argument --load-format: invalid choice: 'floppy'"), outcome.output
    assert deployed.engine() == before


def test_without_consent_a_serving_engine_is_not_restarted(deployed: Node) -> None:
    before, product = deployed.engine(), deployed.product()
    arguments = {**LAB_ARGUMENTS, "max-total-tokens": 2048}
    extra: dict[str, Any] = {"engine_arguments": arguments, "engine_allow_restart": False}
    outcome = deployed.deploy(extra=extra)
    assert outcome.code != 0
    assert outcome.says("serves and would have to restart"), outcome.output
    assert deployed.engine() == before
    assert deployed.product() == product
    foreseen = deployed.deploy("--check", "--diff", extra={"engine_arguments": arguments})
    assert foreseen.code == 0, foreseen.output
    assert foreseen.says("the engine RESTARTS")
    assert foreseen.says("+ --max-total-tokens 2048")


# Nobody listens there: a driver's repository that is down.
DOWN = "http://127.0.0.1:9"
DRIVER: dict[str, Any] = {
    "cuda_stack_driver": "manage",
    "cuda_stack_repository_url": DOWN,
    "cuda_stack_repository_key": f"{DOWN}/key.asc",
    "cuda_stack_allow_reboot": True,
}


def test_a_driver_for_a_serving_node_has_its_turn_and_its_failure_leaves_the_engine(
    deployed: Node,
) -> None:
    before = deployed.engine()
    foreseen = deployed.deploy("--check", extra=DRIVER)
    assert foreseen.code == 0, foreseen.output
    assert foreseen.entries("Say whose hosts are changed in turn")[1:] == [
        "1. lab-1: driver: not installed; newest of branch 580 is wanted"
    ]
    refused = deployed.deploy(extra={**DRIVER, "engine_allow_restart": False})
    assert refused.code == 2, refused.output
    assert refused.says("the engine serves and would go down for it"), refused.output
    outcome = deployed.deploy(extra=DRIVER)
    assert outcome.code == 2, outcome.output
    assert outcome.says(f"key cannot be fetched from {DOWN}/key.asc"), outcome.output
    assert outcome.says("Serving now on lab-1: release "), outcome.output
    assert "PLAY [Prepare beside what serves]" not in outcome.output
    assert deployed.engine() == before
    assert serves(deployed)


@pytest.mark.fault("file-edited-by-hand")
def test_a_file_edited_by_hand_is_found_and_mended(deployed: Node) -> None:
    model = "/opt/sglang/current/venv/lib/python3*/site-packages/sglang/srt/models/kimi_k25.py"
    good = deployed.run(f"sha256sum < $(echo {model})")
    # A new file, as an editor writes it: one written in place would change uv's cache as well.
    deployed.run(f"f=$(echo {model}); cp $f $f.new; echo '# edited' >> $f.new; mv $f.new $f")
    deployed.run("chmod 0600 /etc/sglang/engine.env")
    deployed.run("echo '# edited' >> /etc/systemd/system/sglang.service")
    outcome = deployed.deploy()
    assert outcome.code == 0, outcome.output
    assert outcome.says("srt/models/kimi_k25.py: changed by hand"), outcome.output
    assert outcome.says("/etc/sglang/engine.env: mode is 0600, not 0640")
    assert outcome.says("/etc/systemd/system/sglang.service: content differs")
    assert deployed.run(f"sha256sum < $(echo {model})") == good
    assert serves(deployed)
