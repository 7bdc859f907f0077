# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._host.tools import (
    Tools,
    read_int,
    read_text,
)


def program(root: Path, name: str, script: str) -> None:
    path = root / "usr/bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_tool_answers_in_english_whatever_the_system_speaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de")
    program(
        tmp_path,
        "timedatectl",
        'if [ "$LC_ALL$LANGUAGE$LANG" = CC ]; then echo yes; else echo ja; fi',
    )
    assert Tools(tmp_path).run("timedatectl").text == "yes\n"


def test_a_recorded_systems_tools_are_its_own(tmp_path: Path) -> None:
    assert Tools(tmp_path).run("sh", "-c", "true").state == "missing"
    assert Tools(Path("/")).run("sh", "-c", "true").state == "ok"


def test_a_tool_that_hangs_is_left(tmp_path: Path) -> None:
    program(tmp_path, "nvidia-smi", "exec /bin/sleep 60")
    started = time.monotonic()
    answer = Tools(tmp_path).run("nvidia-smi", seconds=0.2)
    assert time.monotonic() - started < 10
    assert (answer.state, answer.error) == ("timeout", "no answer within 0 s")


def test_what_a_hanging_tool_started_goes_with_it(tmp_path: Path) -> None:
    # The grandchild keeps the pipes open.
    program(tmp_path, "tool", f"/bin/sleep 60 & echo $! > {tmp_path}/pid; wait")
    assert Tools(tmp_path).run("tool", seconds=2).state == "timeout"
    place = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    # The signal is on its way; on a busy machine the kernel takes a moment to act on it.
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and alive(place):
        time.sleep(0.05)
    assert not alive(place)


def alive(place: Path) -> bool:
    state = read_text(place)
    return bool(state) and state.rpartition(")")[2].split()[0] != "Z"


def test_a_failure_keeps_both_streams(tmp_path: Path) -> None:
    program(tmp_path, "tool", "echo out; echo err >&2; exit 3")
    answer = Tools(tmp_path).run("tool")
    assert (answer.state, answer.said) == ("failed", "out err")


def test_a_program_that_cannot_be_run_is_a_failure(tmp_path: Path) -> None:
    program(tmp_path, "tool", "")
    (tmp_path / "usr/bin/tool").write_bytes(b"\x7fELF nothing")
    assert Tools(tmp_path).run("tool").state == "failed"


def test_bytes_that_are_no_text_do_not_stop_anything(tmp_path: Path) -> None:
    program(tmp_path, "tool", "printf 'caf\\351'")
    assert Tools(tmp_path).run("tool").text == "caf\N{REPLACEMENT CHARACTER}"


def test_files(tmp_path: Path) -> None:
    (tmp_path / "hex").write_text("0x10de\n")
    (tmp_path / "word").write_text("yes\n")
    assert read_int(tmp_path / "hex") == 0x10DE
    assert read_int(tmp_path / "word") is None
    assert read_int(tmp_path / "missing") is None
    assert read_text(tmp_path) == ""  # a folder
