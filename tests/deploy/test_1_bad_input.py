# SPDX-License-Identifier: Apache-2.0
"""Bad input on a bare node: a clear error, and nothing of the product is there afterwards."""

from __future__ import annotations

import re
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.lab_node import REPOSITORY, STATE, Node

pytestmark = pytest.mark.lab

DRAFTING = {"num_steps": 3, "eagle_topk": 1, "num_draft_tokens": 4}
MODEL = {"name": "kimi-lab", "revision": "1"}


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({"engine_prot": 1}, "engine_prot: no role has this variable; did you mean engine_port?"),
        ({"enigne_port": 1}, "enigne_port: no role has this variable; did you mean engine_port?"),
        ({"engine_release_stack": "lab-0.5.8"}, "did you mean lab-0.5.9?"),
        ({"engine_port": "many"}, "engine_port: 'many' was given, a whole number is wanted"),
        ({"preflight_memory_gib": "a lot"}, "'a lot' was given, a number is wanted"),
        ({"engine_speculation_settings": {"algorithm": "EAGLE9"}}, "EAGLE9"),
        (
            {"engine_speculation_settings": {**DRAFTING, "algorithm": "EAGLE"}},
            "LlamaForCausalLMEagle3 is a draft for EAGLE3, EAGLE is asked for",
        ),
        ({"engine_speculation": {"num_steps": 3}}, "rename it to engine_speculation_settings"),
        ({"model_store_target": {}}, "model_store_target.revision: is missing"),
        (
            {"model_store_target": {**MODEL, "source": {"path": "/nowhere", "on": "controller"}}},
            "/nowhere/manifest.json: No such file or directory",
        ),
        ({"engine_arguments": {"tp-size": 1, "tp_size": 2}}, "--tp-size: given twice"),
        (
            {"engine_allreduce": "nccl", "engine_torch_symm_mem": "on"},
            "engine_torch_symm_mem is on and engine_allreduce is nccl",
        ),
        ({"engine_context_length": 4096}, "4096 is longer than the target model's own 2048"),
        (
            {"engine_environment": {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": 1}},
            "remove it from engine_environment",
        ),
        ({"source_patches_ids": ["kimi"]}, "no patch 'kimi' in the catalogue"),
        ({"preflight_release_gib": 100000}, "disk: /opt/sglang"),
        ({"preflight_memory_gib": 100000}, "memory: "),
        ({"preflight_systems": {"plan9": ["4"]}}, "supported: plan9 4"),
        ({"engine_release_python": "3.13"}, "wanted: 3.13"),
        ({"cuda_stack_gpus": 8}, "gpu_count: 0 on the bus, 8 wanted"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_refused_before_anything_is_touched(bare: Node, extra: dict[str, Any], says: str) -> None:
    before = bare.product()
    outcome = bare.deploy(extra=extra)
    assert outcome.code != 0, outcome.output
    assert outcome.says(says), outcome.output
    assert outcome.failure.count("fatal: ") == 1, outcome.output
    assert outcome.changed == 0
    assert bare.product() == before


def test_an_inventory_without_nodes(bare: Node) -> None:
    outcome = bare.deploy("-i", "localhost,")
    assert outcome.code != 0
    assert outcome.says("has no host in the group 'engines'"), outcome.output


@pytest.mark.fault("node-unreachable")
def test_a_node_that_does_not_answer(bare: Node) -> None:
    outcome = bare.deploy(extra={"ansible_port": 1})
    assert outcome.code == 4
    assert outcome.says("Connection refused"), outcome.output


@pytest.mark.fault("host-key-changed")
def test_a_changed_host_key(bare: Node, tmp_path: Path) -> None:
    known = (STATE / "ssh" / "known_hosts").read_text()
    # Another valid key of the same kind: the one that this lab uses to log in.
    kind, key = (STATE / "ssh" / "id_ed25519.pub").read_text().split()[:2]
    host = known.split()[0]
    forged = tmp_path / "known_hosts"
    forged.write_text(f"{host} {kind} {key}\n")
    options = f"-o UserKnownHostsFile={forged} -o StrictHostKeyChecking=yes"
    outcome = bare.deploy(extra={"ansible_ssh_common_args": options, "ansible_ssh_args": ""})
    assert outcome.code == 4
    assert outcome.says("REMOTE HOST IDENTIFICATION HAS CHANGED"), outcome.output


@pytest.mark.fault("port-taken")
def test_a_port_that_somebody_else_has(bare: Node) -> None:
    host = re.search(r"127\.120\.\d+\.\d+", (STATE / "ssh" / "known_hosts").read_text())
    assert host
    with socket.create_server((host[0], 30000)):
        outcome = bare.deploy()
    assert outcome.code != 0
    assert outcome.says(f"{host[0]}:30000 is taken by a process outside"), outcome.output
    bare.run(
        "systemd-run --quiet --unit=squatter "
        'python3 -c "import socket; '
        f"s = socket.create_server(('{host[0]}', 30000)); s.accept()\"; "
        f"until ss -ltn | grep -q {host[0]}:30000; do :; done"
    )
    try:
        outcome = bare.deploy()
    finally:
        bare.run("systemctl stop squatter")
    assert outcome.code != 0
    assert outcome.says("squatter.service"), outcome.output
    assert outcome.changed == 0


def own_stack(folder: Path, old: str, new: str) -> dict[str, Any]:
    """A copy of the lab's stack under another name, with an edit in its locks."""
    shipped = REPOSITORY / "roles/engine_release/files/stacks"
    for path in shipped.glob("lab-0.5.9*"):
        text = path.read_text().replace("name: lab-0.5.9", "name: own")
        (folder / path.name.replace("lab-0.5.9", "own")).write_text(re.sub(old, new, text))
    return {"engine_release_stack": "own", "engine_release_stack_folders": [str(folder)]}


@pytest.mark.fault("wheel-other-digest")
def test_a_wheel_with_another_digest(bare: Node, tmp_path: Path) -> None:
    zeros = "0" * 64
    pin = r"(?m)^(einops==\S+)(?: \\\n    --hash=\S+)+"
    extra = own_stack(tmp_path, pin, rf"\1 --hash=sha256:{zeros}")
    extra["engine_release_wheelhouse"] = str(tmp_path / "house")
    outcome = bare.deploy(extra=extra)
    assert outcome.code != 0
    assert outcome.says("einops"), outcome.output
    assert outcome.says(zeros), outcome.output
    assert outcome.failure.count("Serving now on lab-1: nothing; nothing was deployed") == 1
    assert bare.product() == ""


@pytest.mark.fault("wheel-missing")
def test_a_wheel_that_no_index_has(bare: Node, tmp_path: Path) -> None:
    extra = own_stack(tmp_path, r"einops==[0-9.]+", "einops==99.0")
    extra["engine_release_wheelhouse"] = str(tmp_path / "house")
    outcome = bare.deploy(extra=extra)
    assert outcome.code != 0
    assert outcome.says("einops==99.0"), outcome.output
    assert outcome.failure.count("Serving now on lab-1: nothing; nothing was deployed") == 1
    assert bare.product() == ""


@pytest.mark.fault("model-damaged-controller")
def test_a_damaged_model_on_the_controller(bare: Node, tmp_path: Path) -> None:
    source = tmp_path / "target"
    shutil.copytree(STATE / "models" / "target", source)
    weights = source / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    model = {**MODEL, "source": {"path": str(source), "on": "controller"}}
    outcome = bare.deploy("--skip-tags", "engine_release", extra={"model_store_target": model})
    assert outcome.code != 0
    assert outcome.says("model.safetensors: arrived with sha256"), outcome.output
    assert outcome.failure.count("Serving now on lab-1: nothing; nothing was deployed") == 1
    left = bare.run("find /var/lib/sglang/models -name '*.safetensors' -o -name '*.partial'")
    assert left == ""


def test_check_mode_on_a_bare_node_predicts_and_changes_nothing(bare: Node) -> None:
    before = bare.product()
    outcome = bare.deploy("--check", "--diff")
    assert outcome.code == 0, outcome.output
    assert outcome.says("not on this node")
    assert outcome.says("the engine starts")
    assert outcome.says("ExecStart=/opt/sglang/current/venv/bin/python -m sglang.launch_server")
    assert outcome.changed > 5
    assert bare.product() == before


def test_a_draft_with_enough_context_needs_no_override(bare: Node) -> None:
    extra = {"lab_draft": "draft-long", "source_patches_ids": []}
    outcome = bare.deploy("--check", "--diff", extra=extra)
    assert outcome.code == 0, outcome.output
    assert outcome.says("source_patches_ids is empty: nothing is patched"), outcome.output
    assert outcome.says("kimi_k25_eagle3_delegation is left out (source_patches_ids), and SGLang")
    assert outcome.says("(2048): no override needed")
    assert not outcome.says('+SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN="1"')
