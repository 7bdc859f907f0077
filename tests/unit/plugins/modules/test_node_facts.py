# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import os
import pwd
import socket
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _decide, _release
from ansible_collections.sm120.sglang.plugins.module_utils._node import deployment
from ansible_collections.sm120.sglang.plugins.modules import node_facts

from tests.host.cases import CASES

UNIT = "no-such-unit-anywhere.service"


@pytest.fixture
def arguments(tmp_path: Path) -> dict[str, Any]:
    return {
        "root": str(tmp_path / "product"),
        "config": str(tmp_path / "etc"),
        "failures": str(tmp_path / "failures"),
        "releases": ["r1"],
        "unit": UNIT,
        "user": "no-such-user-here",
        "files": [str(tmp_path / "engine.env")],
        "models": [
            {
                "name": "kimi",
                "path": str(tmp_path / "model"),
                "record": str(tmp_path / "record.json"),
                "files": [
                    {"name": "a", "sha256": hashlib.sha256(b"x").hexdigest(), "size": 1},
                ],
            }
        ],
        "disks": [str(tmp_path / "product")],
        "commands": ["sh"],
    }


@pytest.mark.parametrize("check", [True, False])
def test_a_bare_node(run_module: Any, arguments: dict[str, Any], check: bool) -> None:
    found = run_module(node_facts, arguments, check=check)
    assert found["changed"] is False
    assert found["releases"] == {
        "current": "",
        "previous": "",
        "complete": [],
        "built": {},
        "unfinished": [],
        "drift": {},
        "proofs": {"r1": {}},
    }
    empty = {"serving": "", "before": "", "configured": "", "rolled_back": {}, "records": {}}
    assert found["launches"] == empty
    assert found["failures"] == []
    assert found["models"]["kimi"]["missing"] == ["a"]
    assert found["unit"]["load_state"] == "not-found"
    assert found["files"] == {arguments["files"][0]: {"exists": False}}
    assert found["configured"] == {"arguments": {}, "environment": {}}
    assert found["ports"] == []
    assert found["user"] == {"exists": False}
    assert found["system"]["disks"][arguments["disks"][0]]["free"] > 0
    # What is read is what the deciders take.
    assert _decide.release(found, "r1")[0]["reason"] == "not on this node"
    assert [d["item"] for d in _decide.engine(found, "r1", "L", True)] == [
        "current release",
        "engine",
    ]
    assert (
        _decide.files(
            found,
            [{"path": arguments["files"][0], "sha256": "", "mode": "", "owner": "", "group": ""}],
            "L1",
        )[0]["reason"]
        == "missing"
    )


def test_a_node_with_everything(
    run_module: Any,
    arguments: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paths = _release.Paths(Path(arguments["root"]), "r1")
    package = paths.building / "venv/lib/python3.11/site-packages/sglang"
    package.mkdir(parents=True)
    (package / "a.py").write_text("x = 1\n")
    _release.seal(paths)
    _release.switch(paths.root, "r1")
    (tmp_path / "engine.env").write_text("A=1\n")
    monkeypatch.setattr(deployment, "UNITS", tmp_path)
    start = "[Service]\nExecStart=python -m sglang.launch_server \\\n  --tp-size 8\n"
    (tmp_path / arguments["unit"]).write_text(start)
    (tmp_path / "model").mkdir()
    (tmp_path / "model/a").write_bytes(b"x")
    me = pwd.getpwuid(os.geteuid()).pw_name
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        found = run_module(
            node_facts, {**arguments, "user": me, "ports": [port], "config": str(tmp_path)}
        )
    assert found["configured"] == {"arguments": {"--tp-size": "8"}, "environment": {"A": "1"}}
    assert found["releases"]["current"] == "r1"
    assert found["releases"]["drift"] == {"r1": []}
    assert found["models"]["kimi"]["unverified"] == ["a"]
    assert found["files"][arguments["files"][0]]["sha256"] == hashlib.sha256(b"A=1\n").hexdigest()
    assert [(entry["port"], entry["pid"]) for entry in found["ports"]] == [(port, os.getpid())]
    assert found["user"]["uid"] == os.geteuid()
    assert _decide.release(found, "r1") == []
    # A file edited by hand is a difference, whatever a record says.
    (_release.site_packages(paths.final) / "sglang/a.py").write_text("x = 2\n")
    again = run_module(node_facts, arguments)
    assert _decide.release(again, "r1")[0]["reason"] == (
        "1 file(s) not as built: venv/lib/python3.11/site-packages/sglang/a.py: changed by hand"
    )


def test_a_bad_manifest_fails_with_a_sentence(run_module: Any, arguments: dict[str, Any]) -> None:
    arguments["models"][0]["files"] = [{"name": "../x", "sha256": "0" * 64, "size": 1}]
    found = run_module(node_facts, arguments)
    assert found["failed"]
    assert "'../x' must be relative and stay in its folder" in found["msg"]


def test_a_folder_of_somebody_else_fails_with_a_sentence(
    run_module: Any, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_words: Any) -> None:
        raise PermissionError(13, "Permission denied", "/opt/sglang/releases")

    # Root may read everything, and the tests may be root.
    monkeypatch.setattr(deployment, "read_releases", refuse)
    found = run_module(node_facts, arguments)
    assert found["failed"]
    assert found["msg"].startswith("/opt/sglang/releases is not readable")
    assert found["msg"].endswith("run with become")


def test_the_host_is_read_when_it_is_asked_for(
    run_module: Any, arguments: dict[str, Any], tmp_path: Path
) -> None:
    assert run_module(node_facts, arguments)["host"] == {}
    recorded = tmp_path / "recorded"
    CASES["good"].build().write(recorded)
    found = run_module(node_facts, {**arguments, "host": True, "host_root": str(recorded)})
    assert len(found["host"]["smi"]["gpus"]) == 8


def test_somebody_else_at_the_port_is_not_asked(run_module: Any, arguments: dict[str, Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        engine = {"host": "127.0.0.1", "port": port, "api_key": "the-key", "model": "kimi"}
        found = run_module(node_facts, {**arguments, "ports": [port], "engine": engine})
        assert [entry["port"] for entry in found["ports"]] == [port]
        assert found["answer"] == {}
        other.settimeout(0.2)
        with pytest.raises(TimeoutError):
            other.accept()  # nobody came, and so no key either
