# SPDX-License-Identifier: Apache-2.0
"""The engine's unit and configuration, rendered by Ansible itself and read by systemd."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.report import ROLE_LAUNCH
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.rules import options_of

REPOSITORY = Path(__file__).parents[3]
KEY = 'k"ey$with%odd\\characters'
TARGET = {
    "name": "kimi",
    "path": "/var/lib/sglang/models/kimi/1",
    "manifest_sha256": "m1",
    "config": {"max_position_embeddings": 4096},
}
DRAFT = {
    "name": "draft",
    "path": "/var/lib/sglang/models/draft/1",
    "manifest_sha256": "m2",
    "config": {"max_position_embeddings": 2048, "architectures": ["LlamaForCausalLMEagle3"]},
}


DRAFTING = {"algorithm": "EAGLE3", "num_steps": 3, "eagle_topk": 1, "num_draft_tokens": 4}


def pcie_host(gpus: int, multicast: bool = False) -> dict[str, Any]:
    """What node_facts says about cards of capability 12 on PCIe."""
    pairs = [f"{a}-{b}" for a in range(gpus) for b in range(gpus) if a != b]
    return {
        "smi": {
            "topology": {"state": "ok", "cells": dict.fromkeys(pairs, "SYS")},
            "p2p": {"r": {"state": "ok", "cells": dict.fromkeys(pairs, "OK")}},
        },
        "multicast": {
            "state": "ok",
            "devices": [{"capability": "12.0", "multicast": multicast}] * gpus,
        },
    }


VARIANTS: dict[str, dict[str, Any]] = {
    "full": {
        "engine_api_key": KEY,
        "_preflight_models": [TARGET, DRAFT],
        "engine_arguments": {"mem_fraction_static": 0.94, "chat-template": "/a b/100%.jinja"},
        "engine_environment": {"NCCL_DEBUG": "INFO", "ODD": 'a "b" $c `d` \\e'},
        "_engine_release_cuda_home": "/opt/sglang/current/venv/cu13",
    },
    "plain": {"_preflight_models": [TARGET]},
    "off": {"_preflight_models": [TARGET, DRAFT], "engine_speculation": False},
    "on": {
        "_preflight_models": [TARGET, DRAFT],
        "engine_speculation": True,
        "engine_speculation_settings": {**DRAFTING, "num_steps": 5, "num_draft_tokens": 6},
    },
    "measured": {
        "_preflight_models": [TARGET, DRAFT],
        "_benchmark_speculation": {"on": True, "draft": {**DRAFTING, "num_steps": 2}},
    },
    "usual": {
        "_preflight_models": [
            {**TARGET, "name": "kimi-k2.5", "path": "/var/lib/sglang/models/kimi-k2.5/1"},
            {**DRAFT, "path": "/var/lib/sglang/models/kimi-k2.5-eagle3/1"},
        ]
    },
    "pcie": {
        "_preflight_models": [TARGET],
        "_preflight_stack": {"name": "new", "sglang": "0.5.23", "cuda": 13},
        "_preflight_node": {"models": {}, "host": pcie_host(8)},
    },
    "multicast": {
        "_preflight_models": [TARGET],
        "_preflight_stack": {"name": "new", "sglang": "0.5.23", "cuda": 13},
        "_preflight_node": {"models": {}, "host": pcie_host(8, multicast=True)},
    },
}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, dict[str, Any]]]:
    """Variant to path to what `_engine_files` says about it."""
    place = tmp_path_factory.mktemp("engine")
    role = REPOSITORY / "roles/engine"
    plays = []
    for name, variables in VARIANTS.items():
        common = {
            "engine_release_root": str(place / "product"),
            "health_gate_timeout": 3600,
            "_engine_templates": str(role / "templates"),
            "_preflight_stack": {"name": "lab-0.5.9", "sglang": "0.5.9", "cuda": None},
            "source_patches_ids": ["sm120_allreduce_sizes"],
            "_preflight_release": "lab-0.5.9-0123456789ab",
            "_engine_release_cuda_home": "",
            "_preflight_node": {"models": {}},
        }
        (place / f"{name}.yml").write_text(yaml.safe_dump({**common, **variables}))
        files = [role / "defaults/main.yml", role / "vars/main.yml", place / f"{name}.yml"]
        content = "{{ _engine_files | to_json }}"
        write = {"dest": str(place / f"{name}.json"), "content": content}
        plays.append(
            {
                "hosts": "all",
                "gather_facts": False,
                "vars_files": [str(path) for path in files],
                "tasks": [{"ansible.builtin.copy": write}],
            }
        )
    (place / "play.yml").write_text(yaml.safe_dump(plays))
    (place / "ansible.cfg").write_text("[defaults]\ninject_facts_as_vars = False\n")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_")}
    environment |= {
        "ANSIBLE_CONFIG": str(place / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / "collections"),
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_LOCAL_TEMP": str(place / "local"),
        "ANSIBLE_REMOTE_TMP": str(place / "remote"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", "node,", "-c", "local", "play.yml"],
        env=environment,
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    python = place / "product/current/venv/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    return {
        name: {entry["path"]: entry for entry in json.loads((place / f"{name}.json").read_text())}
        for name in VARIANTS
    }


UNIT = "/etc/systemd/system/sglang.service"


def command_of(unit: str) -> list[str]:
    joined = unit.replace("\\\n", " ")
    line = re.search(r"^ExecStart=(.*)$", joined, re.MULTILINE)
    assert line
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line[1])]


@pytest.mark.parametrize("variant", VARIANTS)
def test_systemd_accepts_the_unit(rendered: Any, variant: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    unit = tmp_path / "sglang.service"
    unit.write_text(rendered[variant][UNIT]["content"])
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if "sglang.service" in line]
    assert (done.returncode, complaints) == (0, [])


def test_a_typo_in_the_unit_would_be_seen(rendered: Any, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    unit = tmp_path / "sglang.service"
    text = rendered["plain"][UNIT]["content"]
    unit.write_text(text.replace("LimitMEMLOCK=infinity", "LimitMEMLOCK=lots"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "sglang.service" in done.stderr


def test_the_command_starts_the_engine_with_every_argument(rendered: Any) -> None:
    words = command_of(rendered["full"][UNIT]["content"])
    assert words[0].endswith("/current/venv/bin/python")
    assert words[1:3] == ["-m", "sglang.launch_server"]
    pairs: list[list[Any]] = [
        ["--model-path", TARGET["path"]],
        ["--served-model-name", "kimi"],
        ["--host", "127.0.0.1"],
        ["--port", "30000"],
        ["--speculative-algorithm", "EAGLE3"],
        ["--speculative-draft-model-path", DRAFT["path"]],
        ["--speculative-eagle-topk", "1"],
        ["--mem-fraction-static", "0.94"],
        ["--chat-template", "/a b/100%.jinja"],
        ["--config", "${CREDENTIALS_DIRECTORY}/secrets.yaml"],
    ]
    for flag, value in pairs:
        assert words[words.index(flag) + 1] == value
    assert "--context-length" not in words


def test_without_draft_and_key_nothing_of_either_is_left(rendered: Any) -> None:
    unit = rendered["plain"][UNIT]["content"]
    assert "speculative" not in unit
    assert "--config" not in command_of(unit)
    assert "LoadCredential" not in unit
    assert set(rendered["plain"]) == {UNIT, "/etc/sglang/engine.env"}


def test_speculation_off_serves_the_target_alone(rendered: Any) -> None:
    # The same launch as without a draft model, so that neither restarts into the other.
    assert rendered["off"] == rendered["plain"]


@pytest.mark.parametrize(("variant", "steps", "tokens"), [("on", 5, 6), ("measured", 2, 4)])
def test_draft_settings_reach_the_launch(
    rendered: Any, variant: str, steps: int, tokens: int
) -> None:
    words = command_of(rendered[variant][UNIT]["content"])
    assert words[words.index("--speculative-num-steps") + 1] == str(steps)
    assert words[words.index("--speculative-num-draft-tokens") + 1] == str(tokens)


def test_the_key_stands_in_one_file_that_only_root_reads(rendered: Any) -> None:
    secrets = rendered["full"]["/etc/sglang/secrets.yaml"]
    assert yaml.safe_load(secrets["content"]) == {"api-key": KEY}
    assert (secrets["mode"], secrets["owner"], secrets["group"]) == ("0600", "root", "root")
    for path, entry in rendered["full"].items():
        if path != "/etc/sglang/secrets.yaml":
            assert KEY not in entry["content"]
            assert json.dumps(KEY)[1:-1] not in entry["content"]


def test_the_environment_is_read_as_it_was_meant(rendered: Any) -> None:
    entry = rendered["full"]["/etc/sglang/engine.env"]
    assert (entry["mode"], entry["owner"], entry["group"]) == ("0640", "root", "sglang")
    # systemd's syntax inside double quotes is the shell's.
    script = f"set -a; {entry['content']} env -0"
    done = subprocess.run(["env", "-i", "sh", "-c", script], capture_output=True, check=True)
    values = dict(line.split("=", 1) for line in done.stdout.decode().split("\0") if "=" in line)
    assert values["ODD"] == 'a "b" $c `d` \\e'
    assert values["NCCL_DEBUG"] == "INFO"
    assert values["HF_HUB_OFFLINE"] == "1"
    assert values["CUDA_HOME"] == "/opt/sglang/current/venv/cu13"
    assert values["HOME"].endswith("/cache/lab-0.5.9-0123456789ab")
    # Set when, and only when, the draft's context is shorter.
    assert values["SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"] == "1"
    plain = rendered["plain"]["/etc/sglang/engine.env"]["content"]
    assert "CUDA_HOME" not in plain
    assert "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN" not in plain
    assert re.fullmatch(r"[0-9a-f]{16}", values["SGLANG_DEPLOY_LAUNCH"])
    assert values["SGLANG_DEPLOY_LAUNCH"] not in plain


def test_the_unit_keeps_its_promises(rendered: Any) -> None:
    lines = rendered["full"][UNIT]["content"].splitlines()
    for line in (
        "User=sglang",
        "KillMode=mixed",
        "LimitMEMLOCK=infinity",
        "NoNewPrivileges=yes",
        "LoadCredential=secrets.yaml:/etc/sglang/secrets.yaml",
    ):
        assert line in lines
    # CUDA and the kernel compilers need devices and executable memory.
    broken_by = ("MemoryDenyWriteExecute=yes", "PrivateDevices=yes")
    assert not set(broken_by) & set(lines)


def test_a_crash_loop_ends_where_each_start_takes_half_an_hour(rendered: Any) -> None:
    """systemd refuses a start when as many lie within the interval as the burst says."""
    lines = rendered["full"][UNIT]["content"].splitlines()
    unit = {key: value for key, _, value in (line.partition("=") for line in lines)}
    starts = int(unit["StartLimitBurst"])
    assert starts == 3
    # Each start but the first comes after a whole one that died at its end.
    assert int(unit["StartLimitIntervalSec"]) >= starts * (1800 + int(unit["RestartSec"]))


def test_what_the_node_decides_about_the_all_reduce_reaches_the_launch(
    rendered: dict[str, dict[str, dict[str, Any]]],
) -> None:
    variable, flag = "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE", "--enable-torch-symm-mem"
    found = {
        name: (
            variable in files["/etc/sglang/engine.env"]["content"],
            flag in files[UNIT]["content"],
        )
        for name, files in rendered.items()
        if name not in ("off", "on", "measured")
    }
    assert found == {
        "full": (False, False),
        "plain": (False, False),
        "usual": (False, False),
        "pcie": (True, False),
        "multicast": (False, True),
    }


def test_reports_about_releases_judge_what_the_role_gives(
    rendered: dict[str, dict[str, dict[str, Any]]],
) -> None:
    unit = rendered["usual"][UNIT]["content"]
    command = re.search(r"^ExecStart=((?:.*\\\n)*.*)$", unit, re.MULTILINE)
    assert command is not None
    words = shlex.split(command[1].replace("\\\n", " "))
    given = words[words.index("sglang.launch_server") + 1 :]
    assert options_of(given) == options_of(ROLE_LAUNCH)
