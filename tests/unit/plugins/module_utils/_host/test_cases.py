# SPDX-License-Identifier: Apache-2.0
"""Every recorded node, read and judged whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._host import advice, read
from ansible_collections.sm120.sglang.plugins.module_utils._host.catalogue import (
    CHECKS,
    DEPLOYMENT,
    GROUP,
)
from ansible_collections.sm120.sglang.plugins.module_utils._host.judge import Verdict, judge

from tests.host.cases import CASES
from tests.host.nodes import JOURNAL, RECORDINGS
from tests.unit.plugins.module_utils._host.wanted import FAIL_ON, WANTED


@pytest.fixture(autouse=True)
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)


def read_case(name: str, folder: Path) -> dict[str, Any]:
    CASES[name].build().write(folder)
    return read.read_host("sglang.service", ["/var/lib/sglang/models"], str(folder))


def not_ok(verdicts: list[Verdict]) -> dict[str, str]:
    return {v["id"]: v["verdict"] for v in verdicts if v["verdict"] != "ok"}


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_node_gets_exactly_its_verdicts(name: str, tmp_path: Path) -> None:
    host = read_case(name, tmp_path)
    verdicts = judge(json.loads(json.dumps(host)), WANTED, FAIL_ON)
    assert not_ok(verdicts) == CASES[name].expected
    read_of = {v["id"]: v["read"] for v in verdicts}
    for check, words in CASES[name].says.items():
        assert words in read_of[check]
    # A failure comes with its reason and a remedy, and what is fine needs none.
    for verdict in verdicts:
        assert verdict["why"]
        assert verdict["read"]
        assert bool(verdict["remedy"]) is (verdict["verdict"] != "ok")
    assert len(read_of) == len(verdicts)


def test_the_cases_reach_every_check(tmp_path: Path) -> None:
    reached = {check for case in CASES.values() for check in case.expected}
    # Never found; reported, or found by other tests.
    others = {"hugepages", "topology", "privileges", "reachable"}
    assert set(CHECKS) - set(DEPLOYMENT) - set(GROUP) == reached | others
    assert len([name for name, case in CASES.items() if case.expected]) >= 12


def test_a_driver_that_will_be_installed_only_warns(tmp_path: Path) -> None:
    host = read_case("no-driver", tmp_path)
    verdicts = judge(host, {**WANTED, "driver_by": "the role cuda_stack"}, FAIL_ON)
    assert not_ok(verdicts) == {"driver": "warn", "nouveau": "warn"}
    remedy = next(v["remedy"] for v in verdicts if v["id"] == "driver")
    assert remedy.startswith("the role cuda_stack takes care of it when you deploy; ")


def test_without_peer_traffic_what_would_hang_it_only_warns(tmp_path: Path) -> None:
    host = read_case("acs", tmp_path)
    assert not_ok(judge(host, {**WANTED, "peer": False}, FAIL_ON)) == {"acs": "warn"}


def test_an_accepted_finding_is_named_and_counts_as_ok(tmp_path: Path) -> None:
    host = read_case("stuck", tmp_path)
    verdicts = judge(host, WANTED, FAIL_ON, ["gpu_recovery", "mig"])
    assert "gpu_recovery" not in not_ok(verdicts)
    accepted = [v for v in verdicts if v["accepted"]]
    assert [v["id"] for v in accepted] == ["gpu_recovery"]
    assert "recovery action: Reset" in accepted[0]["read"]


def test_a_node_without_cards_is_asked_nothing_about_them(tmp_path: Path) -> None:
    host = read_case("no-tools", tmp_path)
    ids = {v["id"] for v in judge(host, {**WANTED, "gpus": 0}, FAIL_ON)}
    assert "memlock" in ids
    assert not ids & {"driver", "gpu_count", "acs", "iommu", "cuda_compat", "xid_fatal"}


def test_one_card_needs_no_peers(tmp_path: Path) -> None:
    host = read_case("acs", tmp_path)
    ids = {v["id"] for v in judge(host, {**WANTED, "gpus": 1}, FAIL_ON)}
    assert not ids & {"acs", "iommu", "p2p", "hmm", "topology"}


def test_advice_follows_the_verdicts(tmp_path: Path) -> None:
    tuned = judge(read_case("tunable", tmp_path / "a"), WANTED, FAIL_ON)
    assert advice.advise(tuned) == {
        "cuda_stack_kernel_arguments": ["pcie_aspm=off", "pcie_port_pm=off"],
        "cuda_stack_module_options": {"nvidia_uvm": "uvm_disable_hmm=1"},
    }
    translated = judge(read_case("iommu", tmp_path / "b"), WANTED, FAIL_ON)
    assert advice.advise(translated) == {"cuda_stack_kernel_arguments": ["iommu=pt"]}
    accepted = judge(read_case("iommu", tmp_path / "c"), WANTED, FAIL_ON, ["iommu"])
    assert advice.advise(accepted) == {}


def test_without_root_what_cannot_be_read_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = CASES["acs"].build()
    for name in [name for name in node.files if name.endswith("/config")]:
        node.files[name] = bytes(node.files[name])[:64]  # type: ignore[arg-type]
    node.prints("journalctl", JOURNAL, "No journal files\n", 1)
    node.write(tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    verdicts = judge(read.read_host("sglang.service", [], str(tmp_path)), WANTED, FAIL_ON)
    assert not_ok(verdicts) == {
        "acs": "warn",
        "aspm": "warn",
        "privileges": "warn",
        "xid_fatal": "warn",
    }


def test_a_real_machine_with_other_cards() -> None:
    def judged(name: str, **wanted: Any) -> dict[str, Verdict]:
        reading = json.loads((RECORDINGS / f"h200/reading-{name}.json").read_text())
        found = judge(reading, {**WANTED, "gpus": 2, **wanted}, FAIL_ON)
        return {verdict["id"]: verdict for verdict in found if verdict["verdict"] != "ok"}

    idle = judged("idle")
    # A virtual machine without systemd and without a view of its bridges.
    unseen = {"acs", "memlock", "nofile", "stack_limit", "time_sync"}
    assert set(idle) == {"gpu_names", "gpu_capability"} | unseen
    assert {verdict["verdict"] for verdict in idle.values()} == {"warn"}
    assert idle["gpu_capability"]["read"] == "GPU 0, 1: capability 9.0; 12.0 wanted"
    fitting = judged("idle", gpu_names=["NVIDIA H200"], gpu_capabilities=["9.0"])
    assert set(fitting) == unseen
    busy = judged("busy", gpu_names=[], gpu_capabilities=[])
    assert set(busy) == {"gpu_processes"} | unseen
    assert busy["gpu_processes"]["read"] == "GPU 0, 1: pid 586 (python3, no unit) holds 1634 MiB"
    assert judged("idle", gpus=8)["gpu_count"]["verdict"] == "fail"
