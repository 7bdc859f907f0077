# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._host.fabric import (
    has_multicast,
    has_nvlink,
    parse_multicast,
    read_multicast,
)
from ansible_collections.sm120.sglang.plugins.module_utils._host.smi import parse_matrix

RECORDINGS = Path(__file__).parents[4] / "recordings/host"


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-c", code)


def test_the_recorded_gpus_support_multicast() -> None:
    text = (RECORDINGS / "h200/multicast.json").read_text()
    found = parse_multicast(0, text, "")
    assert [device["capability"] for device in found["devices"]] == ["9.0", "9.0"]
    assert has_multicast(found) is True


def test_one_gpu_without_multicast_is_enough_for_no() -> None:
    devices = [{"multicast": True}, {"multicast": False}]
    assert has_multicast({"state": "ok", "devices": devices}) is False


@pytest.mark.parametrize(
    ("status", "text", "error", "state"),
    [
        (1, "", "no libcuda.so.1: cannot open", "no libcuda.so.1: cannot open"),
        (1, "", "cuInit: CUDA_ERROR_NO_DEVICE\n", "cuInit: CUDA_ERROR_NO_DEVICE"),
        (-11, "", "", "exit status -11"),
        (0, "{}", "", "{}"),
        (0, "not json", "", "not json"),
    ],
)
def test_what_cannot_be_asked_is_not_known(status: int, text: str, error: str, state: str) -> None:
    found = parse_multicast(status, text, error)
    assert found == {"state": state, "devices": []}
    assert has_multicast(found) is None


def test_a_node_without_gpus_knows_nothing() -> None:
    assert has_multicast({"state": "ok", "devices": []}) is None
    assert has_multicast({}) is None


def test_this_machine_is_asked_for_real() -> None:
    found = read_multicast()
    if found["state"] == "ok":
        assert all(isinstance(device["multicast"], bool) for device in found["devices"])
    else:
        assert "cuda" in found["state"].lower()


def test_a_driver_that_never_answers_is_left_behind() -> None:
    start = time.monotonic()
    found = read_multicast(python("import time; time.sleep(60)"), seconds=0.3)
    assert time.monotonic() - start < 5
    assert "no answer" in found["state"]


def test_a_broken_driver_does_not_break_the_reading() -> None:
    assert read_multicast(python("import os; os.abort()"))["state"].startswith("exit status -6")
    assert "No such file" in read_multicast(("/no/python",))["state"]
    answer = json.dumps([{"multicast": True}])
    assert read_multicast(python(f"print('{answer}')"))["state"] == "ok"


def test_nvlink_is_seen_in_recorded_topologies() -> None:
    for name, expected in (("h200/topo-m.txt", True), ("derived/topo-8.txt", False)):
        cells = parse_matrix((RECORDINGS / name).read_text())
        assert has_nvlink({"state": "ok", "cells": cells}) is expected
    assert has_nvlink({"state": "timeout", "cells": {}}) is None
    assert has_nvlink({"state": "ok", "cells": {"0-1": "NODE"}}) is False
