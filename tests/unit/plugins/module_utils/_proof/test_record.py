# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._proof import record

NOW = {"boot": "b1", "driver": "580.95.05"}
AUTO = {"imports": "auto", "collective": "auto"}


@pytest.mark.parametrize(
    ("text", "driver"),
    [
        (
            (
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan 23 03:44:57 "
                "UTC 2025\n"
                "GCC version:  gcc version 12.2.0\n"
            ),
            "570.86.15",
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n",
            "580.95.05",
        ),
        ("", ""),
    ],
)
def test_the_state_that_a_proof_depends_on(tmp_path: Path, text: str, driver: str) -> None:
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("6d1c\n")
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    (tmp_path / "driver/nvidia/version").write_text(text)
    assert record.stamp(tmp_path) == {"boot": "6d1c", "driver": driver}


def test_a_node_without_a_driver(tmp_path: Path) -> None:
    assert record.stamp(tmp_path) == {"boot": "", "driver": ""}


def test_proofs_are_kept_beside_each_other(tmp_path: Path) -> None:
    record.write(tmp_path, "r1", "imports", NOW, {"seconds": 1})
    record.write(tmp_path, "r1", "collective", {**NOW, "boot": "b0"}, {})
    found = record.read(tmp_path, "r1", NOW)
    assert {kind: entry["valid"] for kind, entry in found.items()} == {
        "imports": True,
        "collective": False,
    }
    assert found["imports"]["result"] == {"seconds": 1}
    assert record.read(tmp_path, "r2", NOW) == {}


def test_a_damaged_record_proves_nothing(tmp_path: Path) -> None:
    record.write(tmp_path, "r1", "imports", NOW, {})
    record.path(tmp_path, "r1").write_text('{"imports": tr')
    assert record.read(tmp_path, "r1", NOW) == {}


PARTIAL = {"imports": {"valid": True, "result": {"left_out": ["GPU 0: 900 MiB of it are free"]}}}
WHOLE = {"imports": {"valid": True, "result": {"left_out": []}}}


def test_a_proof_without_some_gpus_is_made_again_when_nothing_serves() -> None:
    wanted = {"imports": "auto"}
    (found,) = record.differences(PARTIAL, wanted, False)
    assert found["reason"] == "made without GPUs that had no room for it then"
    assert record.differences(PARTIAL, wanted, True) == []
    assert record.differences(PARTIAL, {"imports": "never"}, False) == []
    assert record.differences(WHOLE, wanted, False) == []


@pytest.mark.parametrize(
    ("proofs", "wanted", "serving", "kinds"),
    [
        ({}, AUTO, False, ["imports", "collective"]),
        ({k: {"valid": True} for k in AUTO}, AUTO, False, []),
        ({k: {"valid": False} for k in AUTO}, AUTO, False, ["imports", "collective"]),
        # the engine serves on these GPUs
        ({}, AUTO, True, ["imports"]),
        ({}, {"imports": "auto", "collective": "always"}, True, ["imports", "collective"]),
        ({k: {"valid": True} for k in AUTO}, {"collective": "always"}, False, ["collective"]),
        ({}, {"imports": "never", "collective": "never"}, False, []),
    ],
)
def test_which_proofs_are_made(
    proofs: dict[str, dict[str, bool]], wanted: dict[str, str], serving: bool, kinds: list[str]
) -> None:
    found = record.differences(proofs, wanted, serving)
    assert [entry["kind"] for entry in found] == kinds
    assert not any(entry["restart"] for entry in found)
    assert all(entry["reason"] for entry in found)
