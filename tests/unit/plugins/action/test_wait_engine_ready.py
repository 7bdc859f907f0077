# SPDX-License-Identifier: Apache-2.0
"""The wait as a play runs it: inventory, connection options, live output, result."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.plugins.action.engine_play import (
    FAILED,
    KEY,
    REPOSITORY,
    PlayNode,
    over_ssh,
    play,
    prepare,
)
from tests.unit.plugins.module_utils._engine.recordings import exchanges, raw_journal
from tests.unit.plugins.plugin_utils.sshd import Sshd, free_port, new_key
from tests.unit.plugins.plugin_utils.web import ADDRESS, running_web

if TYPE_CHECKING:
    from collections.abc import Callable

ACTION = "sm120.sglang.wait_engine_ready"
REMEDIES = [{"pattern": "set_eagle3_layers_to_capture", "remedy": "apply the patch"}]


def serve(path: str, _body: Any, headers: dict[str, str]) -> tuple[int, Any]:
    """As a 0.5.9 that is ready, its key checked."""
    if path != "/health" and headers.get("Authorization") != f"Bearer {KEY}":
        return 401, {"error": "Unauthorized"}
    if path == "/server_info":
        return 200, {"version": "0.5.9", "api_key": KEY}
    names = {"/model_info": "model_info", "/ready": "ready_404", "/health": "health"}
    one = exchanges("http-hit")[names[path]]
    return one["status"], one["body"]


def arguments(port: int, **more: Any) -> dict[str, Any]:
    return {"host": ADDRESS, "port": port, "api_key": KEY, "timeout": 30, **more}


@pytest.mark.parametrize("connection", ["ssh", "local"])
def test_an_engine_that_serves(
    tmp_path: Path, node: PlayNode, server: Sshd, connection: str
) -> None:
    local = {"ansible_connection": "local"}
    host = over_ssh(server) if connection == "ssh" else local
    path = node.path if connection == "local" else ""
    with running_web(serve) as web:
        played = play(tmp_path, host, ACTION, arguments(web.port), path=path)
    assert played.status == 0, played.output
    result = played.result
    assert (result["ready"], result["already_serving"], result["changed"]) == (True, True, False)
    assert result["release"] == "0.5.9"
    assert (result["main_pid"], result["invocation_id"]) == (4242, "aa11")
    assert result["engine"]["architectures"] == ["KimiK25ForConditionalGeneration"]
    assert KEY not in played.output
    assert KEY not in str(result)


def test_a_death_is_told_with_cause_and_remedy(
    tmp_path: Path, node: PlayNode, server: Sshd
) -> None:
    node.journal(raw_journal("unpatched"))
    node.state(FAILED)
    port = free_port(ADDRESS)
    played = play(tmp_path, over_ssh(server), ACTION, arguments(port, remedies=REMEDIES))
    assert played.status == 2
    message = played.result["msg"].splitlines()
    assert re.fullmatch(
        r"node-1: the engine failed after \d+ s: the unit is failed \(failed\)\. "
        r"Last phase: KV cache allocated: 4096 tokens\.",
        message[0],
    )
    assert message[1] == (
        "Cause: AttributeError: 'KimiK25ForConditionalGeneration' object has no attribute "
        "'set_eagle3_layers_to_capture' (model_runner.py:622)"
    )
    assert message[2] == "Remedy: apply the patch"
    assert played.result["cause"]["signature"] == "remedy-1"
    assert played.result["ready"] is False
    assert "no_verdict" not in played.result


def test_the_death_of_another_node_ends_the_wait_for_its_engine(
    tmp_path: Path, node: PlayNode, server: Sshd
) -> None:
    """node-1 loads for ever, as a head does without the others; node-2 is dead."""
    node.journal(raw_journal("unpatched"))
    node.state(FAILED)
    alive = PlayNode(tmp_path / "alive")
    port = free_port(ADDRESS)
    names = ["node-1", "node-2"]
    options = arguments(port, timeout=120, remedies=REMEDIES)
    options |= {
        "rank": "{{ names.index(inventory_hostname) }}",
        "others": "{{ names | difference([inventory_hostname]) }}",
    }
    command, environment, _answer = prepare(
        tmp_path, {"ansible_connection": "local"}, ACTION, options, path=alive.path
    )
    hosts = {"node-1": {"ansible_connection": "local"}, "node-2": over_ssh(server)}
    show = {"name": "show", "ansible.builtin.debug": {"msg": "{{ seen.msg }}"}}
    look = {"name": "look", ACTION: options, "register": "seen", "ignore_errors": True}
    plays = [
        {"hosts": "all", "gather_facts": False, "tasks": [look, show], "vars": {"names": names}}
    ]
    (tmp_path / "hosts.yml").write_text(json.dumps({"all": {"hosts": hosts}}))
    (tmp_path / "play.yml").write_text(json.dumps(plays))
    begun = time.monotonic()
    done = subprocess.run(
        command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert time.monotonic() - begun < 100, done.stdout
    said = " ".join(done.stdout.split())
    assert "node-1: the engine cannot come up without node-2, which failed" in said
    assert "node-2: the engine failed after" in said
    assert said.count("set_eagle3_layers_to_capture") >= 2, "each says why"


def test_progress_is_printed_while_it_goes_on(tmp_path: Path, node: PlayNode, server: Sshd) -> None:
    recorded = raw_journal("unpatched")
    node.journal(recorded[:-4])
    command, environment, _answer = prepare(
        tmp_path, over_ssh(server), ACTION, arguments(free_port(ADDRESS), timeout=60)
    )
    with subprocess.Popen(
        command,
        env=environment,
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert any("KV cache allocated: 4096 tokens" in line for line in lines)
        died = time.monotonic()
        node.journal(recorded[-4:])
        node.state(FAILED)
        rest = ""
        for line in lines:
            rest += line
            if "Cause: AttributeError" in line:
                break
        assert "Cause: AttributeError" in rest, rest
        assert time.monotonic() - died < 5
        rest += "".join(lines)
    assert process.returncode == 2, rest
    assert _all_gone(node)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_play_leaves_nothing_on_the_node(
    tmp_path: Path, node: PlayNode, server: Sshd, number: signal.Signals
) -> None:
    command, environment, _answer = prepare(
        tmp_path, over_ssh(server), ACTION, arguments(free_port(ADDRESS))
    )
    with subprocess.Popen(
        command,
        env=environment,
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert _eventually(lambda: bool(node.followers()))
        process.send_signal(number)
        process.wait(timeout=30)
    assert _all_gone(node)


def test_check_mode_asks_nothing(tmp_path: Path, node: PlayNode, server: Sshd) -> None:
    port = free_port(ADDRESS)
    played = play(tmp_path, over_ssh(server), ACTION, arguments(port), options=("--check",))
    assert played.status == 0, played.output
    assert played.result["skipped"] is True
    assert "check mode: the engine on node-1 is not asked" in played.result["msg"]
    assert not (node.folder / "systemctl.log").exists()


def test_a_wrong_key(tmp_path: Path, server: Sshd) -> None:
    with running_web(serve) as web:
        wrong = arguments(web.port, api_key="another-key-4711")
        played = play(tmp_path, over_ssh(server), ACTION, wrong)
    assert played.status == 2
    assert "answers 401 to /model_info" in played.result["msg"]
    assert "another-key-4711" not in played.output


def test_a_changed_host_key(tmp_path: Path, server: Sshd) -> None:
    other = new_key(tmp_path / "other").with_suffix(".pub").read_text().split()[1]
    server.known_hosts.write_text(f"[{server.address}]:{server.port} ssh-ed25519 {other}\n")
    played = play(tmp_path, over_ssh(server), ACTION, arguments(free_port(ADDRESS)))
    assert played.status == 2
    assert "has CHANGED" in played.result["msg"]
    assert "ssh-keygen -R" in played.result["msg"]
    # Nobody looked at the engine: that is no reason to replace it.
    assert played.result["no_verdict"] is True


def test_a_jump_host_of_the_inventory(tmp_path: Path, node: PlayNode, server: Sshd) -> None:
    config = tmp_path / "config"
    common = f" IdentityFile {server.key}\n UserKnownHostsFile {server.known_hosts}\n"
    config.write_text(
        f"Host gate\n HostName {server.address}\n Port {server.port}\n{common}"
        f"Host inside\n HostName {server.address}\n Port {server.port}\n{common} ProxyJump gate\n"
    )
    host = {"ansible_host": "inside", "ansible_ssh_common_args": f"-F {config}"}
    with running_web(serve) as web:
        played = play(tmp_path, host, ACTION, arguments(web.port))
    assert played.status == 0, played.output
    assert played.result["ready"] is True


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({"remedies": [{"pattern": "(", "remedy": "x"}]}, "remedies[1].pattern"),
        ({"no_such_parameter": 1}, "no_such_parameter"),
        ({"port": "many"}, "port"),
    ],
)
def test_bad_parameters(tmp_path: Path, server: Sshd, more: dict[str, Any], wanted: str) -> None:
    played = play(tmp_path, over_ssh(server), ACTION, {**arguments(1), **more})
    assert played.status == 2
    assert wanted in played.output


@pytest.mark.parametrize(
    ("host", "wanted"),
    [
        ({"ansible_become_method": "su"}, "become_method 'su' is not supported"),
        ({"ansible_ssh_common_args": "-o NoSuchOption=1"}, "ssh does not accept the inventory's"),
    ],
)
def test_settings_that_cannot_be_honoured(
    tmp_path: Path, server: Sshd, host: dict[str, Any], wanted: str
) -> None:
    user = {"ansible_become": True, "ansible_user": "somebody"}
    played = play(tmp_path, over_ssh(server, **user, **host), ACTION, arguments(1))
    assert played.status == 2
    assert wanted in played.output.replace("\n", " ").replace("''", "'")


def _eventually(true: Callable[[], bool]) -> bool:
    limit = time.monotonic() + 30
    while time.monotonic() < limit:
        if true():
            return True
        time.sleep(0.05)
    return False


def _all_gone(node: PlayNode) -> bool:
    assert node.followers(), "the journal was followed"
    return _eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in node.followers()))
