# SPDX-License-Identifier: Apache-2.0
"""One run on the node, with a small package in the place of SGLang's load generator."""

from __future__ import annotations

import base64
import gzip
import json
import os
import pwd
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._node import service
from ansible_collections.sm120.sglang.plugins.modules import benchmark_run

KEY = "sesame-0815"
GENERATOR = """
import json, os, sys, time
assert os.environ["OPENAI_API_KEY"] == "sesame-0815" and "sesame" not in str(sys.argv)
answer = {"id": "r", "spec_verify_ct": 2, "spec_num_correct_drafts": 3}
json.loads(json.dumps({"meta_info": answer}))
# A sample is taken between the first answer and the last.
place = os.environ["PYTHONPATH"]
open(place + "/answering", "w").close()
while not os.path.exists(place + "/sampled"):
    time.sleep(0.01)
json.loads(json.dumps({"meta_info": answer}))
mode = sys.argv[sys.argv.index("--tag") + 1]
if mode == "slow":
    time.sleep(60)
if mode == "broken":
    raise OSError("no such data set")
line = {"duration": 2.0, "output_lens": [4], "ttfts": [0.5], "itls": [[0.5, 0.5, 0.5]],
        "errors": ["boom" if mode == "failing" else ""], "server_info": {"api_key": "sesame-0815"}}
with open(sys.argv[sys.argv.index("--output-file") + 1], "w") as file:
    file.write(json.dumps(line))
"""
SMI = """#!/bin/sh
until [ -e {folder}/answering ]; do sleep 0.01; done
sleep 0.01
echo "$(date '+%Y/%m/%d %H:%M:%S.%3N'), 300.0, 2400, 60"
touch {folder}/sampled
exec sleep 60
"""
DECODE = (
    "Decode batch, #running-req: {running}, #token: 9, token usage: 0.25, "
    "gen throughput (token/s): 9.0, #queue-req: 0"
)


class Engine:
    """What systemd and the journal say of the engine."""

    def __init__(self) -> None:
        self.states = [{"active_state": "active", "invocation_id": "i1"}]
        self.log = [DECODE.format(running=1)]

    def read(self, _unit: str) -> dict[str, str]:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Engine:
    found = Engine()
    monkeypatch.setattr(service, "read_unit", found.read)
    monkeypatch.setattr(benchmark_run, "journal", lambda _unit, _since: found.log)
    smi = tmp_path / "bin/nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(SMI.format(folder=tmp_path))
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{smi.parent}:{os.environ['PATH']}")
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang/__init__.py").touch()
    (tmp_path / "sglang/bench_serving.py").write_text(GENERATOR)
    return found


def measure(tmp_path: Path, mode: str = "fine", timeout: float = 60.0) -> dict[str, Any]:
    return benchmark_run.measure(
        {
            "python": sys.executable,
            "unit": "u",
            "user": pwd.getpwuid(os.geteuid()).pw_name,
            "environment": {"PYTHONPATH": str(tmp_path)},
            "api_key": KEY,
            "arguments": ["--tag", mode],
            "concurrency": 1,
            "timeout": timeout,
        }
    )


def test_a_run_is_measured_and_what_is_secret_stays(engine: Engine, tmp_path: Path) -> None:
    found = measure(tmp_path)
    run = found["run"]
    assert (run["state"], run["reason"], found["dead"]) == ("ok", "", False)
    assert (run["output_tok_s"], run["request_tok_s"], run["completed"]) == (2.0, 2.0, 1)
    assert run["accept"]["length"] == 2.5
    assert run["kv_use"] == 0.25
    assert run["gpu"]["power_w"] == {"median": 300.0, "max": 300.0}
    raw = gzip.decompress(base64.b64decode(found["raw_gz"])).decode()
    assert json.loads(raw)["duration"] == 2.0
    assert KEY not in raw + json.dumps(run)


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("failing", "1 of 1 requests failed: boom"),
        ("broken", "ended with status 1: OSError: no such data set"),
    ],
)
def test_what_fails_has_a_reason(engine: Engine, tmp_path: Path, mode: str, why: str) -> None:
    run = measure(tmp_path, mode)["run"]
    assert run["state"] == "failed"
    assert why in run["reason"]


def test_a_run_is_ended_at_its_bound(engine: Engine, tmp_path: Path) -> None:
    run = measure(tmp_path, "slow", timeout=1.0)["run"]
    assert (run["state"], run["reason"]) == ("failed", "not finished within 1 s")


@pytest.mark.parametrize(
    "after",
    [
        {"active_state": "active", "invocation_id": "i2"},
        {"active_state": "failed", "invocation_id": "i1"},
    ],
    ids=["restarted", "dead"],
)
def test_an_engine_that_ended_meanwhile_spoils_the_run(
    engine: Engine, tmp_path: Path, after: dict[str, str]
) -> None:
    engine.states = [*engine.states, after]
    found = measure(tmp_path)
    assert found["dead"]
    assert (found["run"]["state"], found["run"]["reason"]) == (
        "failed",
        "the engine ended meanwhile",
    )


def test_requests_of_somebody_else_spoil_the_run(engine: Engine, tmp_path: Path) -> None:
    engine.log = [DECODE.format(running=3)]
    run = measure(tmp_path)["run"]
    assert run["reason"] == "2 requests of somebody else ran or waited meanwhile"
