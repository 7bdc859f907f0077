# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._node import parts, service


@pytest.mark.parametrize(
    ("titles", "expected"),
    [
        (["sglang::scheduler", "sglang::detokenizer"], []),
        (["sglang::scheduler_TP0", "sglang::scheduler_TP1", "sglang::detokenizer"], []),
        (["sglang::detokenizer"], ["scheduler"]),
        (["sglang::scheduler_TP1"], ["detokenizer"]),
        (["sglang::http_server"], ["scheduler", "detokenizer"]),
        ([], []),
        (["python"], []),
    ],
)
def test_which_parts_are_gone(titles: list[str], expected: list[str]) -> None:
    assert parts.gone(titles) == expected


def test_processes_are_read_by_title_and_unit() -> None:
    own = service.process_unit(Path("/proc/self/cgroup").read_text())
    command = ["bash", "-c", "exec -a sglang::scheduler_TP0 sleep 60"]
    with subprocess.Popen(command) as process:
        try:
            while b"sglang" not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
                pass
            assert "sglang::scheduler_TP0" in parts.read(own)
            assert parts.read("no-such-unit-anywhere.service") == []
        finally:
            process.kill()
