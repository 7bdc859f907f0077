# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._host import smi
from ansible_collections.sm120.sglang.plugins.module_utils._host.tools import Output
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.host.nodes import RECORDINGS


def recorded(name: str) -> str:
    return (RECORDINGS / name).read_text()


def test_two_real_cards_at_rest() -> None:
    found = smi.parse_query(recorded("h200/query-idle.xml"))
    assert (found["driver"], found["cuda"]) == ("580.159.04", "13.0")
    assert [gpu["index"] for gpu in found["gpus"]] == [0, 1]
    first = found["gpus"][0]
    assert first["name"] == "NVIDIA H200"
    assert first["address"] == "0000:00:06.0"
    assert (first["memory_mib"], first["bar1_mib"]) == (143771, 262144)
    assert (first["persistence"], first["mig"]) == (True, False)
    assert first["link"] == {
        "generation": 5,
        "generation_max": 5,
        "generation_device": 5,
        "generation_host": None,  # a virtual machine sees no host side
        "width": 16,
        "width_max": 16,
    }
    assert first["rows"] == {"pending": False, "failure": False}
    assert first["uncorrected"] == 0
    assert first["processes"] == []
    assert first["utilization"] == 0
    assert first["slowdown"] == []
    assert first["recovery"] == "None"


def test_the_same_cards_at_work() -> None:
    found = smi.parse_query(recorded("h200/query-busy.xml"))
    for gpu in found["gpus"]:
        assert gpu["utilization"] > 90
        assert gpu["used_mib"] == 1643
        assert gpu["processes"] == [{"pid": 610, "type": "C", "name": "python3", "mib": 1634}]


def test_branch_430_with_the_names_of_its_time() -> None:
    gpu = smi.parse_query(recorded("derived/query-430.xml"))["gpus"][0]
    assert gpu["slowdown"] == ["hw_slowdown", "hw_thermal_slowdown"]
    assert gpu["uncorrected"] == 2
    assert gpu["persistence"] is False
    assert (gpu["link"]["width"], gpu["link"]["width_max"]) == (8, 16)
    # What that branch does not say is not known, and no guess.
    assert gpu["mig"] is None
    assert gpu["rows"] == {"pending": None, "failure": None}
    assert gpu["link"]["generation_device"] is None
    assert gpu["utilization"] is None
    assert (gpu["recovery"], gpu["addressing"]) == ("", "")


def test_branch_535_with_mig() -> None:
    gpu = smi.parse_query(recorded("derived/query-535.xml"))["gpus"][0]
    assert gpu["mig"] is True
    assert gpu["memory_mib"] == 81920  # of the card, not of an instance
    assert gpu["rows"]["pending"] is True
    assert gpu["uncorrected"] == 1
    assert gpu["processes"] == [
        {"pid": 4711, "type": "C", "name": "[Insufficient Permissions]", "mib": None}
    ]


def test_warnings_before_the_xml_are_skipped() -> None:
    text = "WARNING: infoROM is corrupted at gpu 0000:03:00.0\n"
    found = smi.parse_query(text + recorded("derived/query-blackwell.xml"))
    assert found["gpus"][0]["name"].startswith("NVIDIA RTX PRO 6000")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "no <nvidia_smi_log>"),
        ("<nvidia_smi_log><gpu></nvidia_smi_log>", "broken XML"),
        (
            '<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaa">]><nvidia_smi_log>&a;</nvidia_smi_log>',
            "document type",
        ),
        ('<nvidia_smi_log><!ENTITY a "a">&a;</nvidia_smi_log>', "document type"),
        ("<nvidia_smi_log>" + "x" * smi.XML_LIMIT + "</nvidia_smi_log>", "characters"),
    ],
)
def test_what_is_no_answer_is_refused(text: str, error: str) -> None:
    with pytest.raises(smi.SmiError, match=error):
        smi.parse_query(text)


@settings(max_examples=50)
@given(st.text(st.characters(exclude_categories=["C"]), max_size=40))
def test_a_process_may_have_any_name(name: str) -> None:
    text = recorded("derived/query-535.xml").replace("[Insufficient Permissions]", name)
    process = smi.parse_query(text)["gpus"][0]["processes"][0]
    assert process["pid"] == 4711


@settings(max_examples=50)
@given(st.text(max_size=300))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for wrapped in (text, f"<nvidia_smi_log>{text}</nvidia_smi_log>"):
        with contextlib.suppress(smi.SmiError):
            smi.parse_query(wrapped)
    smi.parse_matrix(text)
    smi.parse_capabilities(text)
    assert smi.problem_of(Output("failed", text)) in {
        "mismatch",
        "no_driver",
        "no_library",
        "no_devices",
        "lost",
        "denied",
        "unknown",
    }


def test_matrices_of_real_cards_have_escape_sequences() -> None:
    text = recorded("h200/topo-m.txt")
    assert "\x1b[4m" in text
    assert smi.parse_matrix(text) == {"0-1": "NV18", "1-0": "NV18"}
    assert smi.parse_matrix(recorded("h200/topo-p2p-r.txt")) == {"0-1": "OK", "1-0": "OK"}
    assert smi.parse_matrix(recorded("h200/topo-p2p-p.txt")) == {"0-1": "NS", "1-0": "NS"}


def test_a_matrix_with_network_cards_gives_the_cards_alone() -> None:
    cells = smi.parse_matrix(recorded("derived/topo-8.txt"))
    assert len(cells) == 8 * 7
    assert cells["0-3"] == "NODE"
    assert cells["0-4"] == cells["7-3"] == "SYS"
    assert smi.parse_matrix("No devices were found\n") == {}


def test_capabilities() -> None:
    rows = [line.split(", ") for line in recorded("h200/query-gpu.csv").splitlines()]
    text = "".join(f"{row[1]}, {row[4]}\n" for row in rows)
    found = smi.parse_capabilities(text)
    assert list(found.values()) == ["9.0", "9.0"]
    query = smi.parse_query(recorded("h200/query-idle.xml"))
    filled = smi.with_capabilities(query, found)
    assert [gpu["capability"] for gpu in filled["gpus"]] == ["9.0", "9.0"]
    # A driver that does not know the column.
    assert smi.parse_capabilities(recorded("h200/query-gpu-unknown-field.txt")) == {}


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        (Output("missing"), "missing"),
        (Output("timeout"), "timeout"),
        (
            Output("failed", "Failed to initialize NVML: Driver/library version mismatch\n"),
            "mismatch",
        ),
        (
            Output(
                "failed",
                "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
                "Make sure that the latest NVIDIA driver is installed and running.\n",
            ),
            "no_driver",
        ),
        (Output("failed", "Failed to initialize NVML: Driver Not Loaded\n"), "no_driver"),
        (Output("ok", "No devices were found\n"), "no_devices"),
        (Output("failed", recorded("h200/no-library.txt")), "no_library"),
        (Output("failed", "", "Unable to determine the device handle for GPU0: x\n"), "lost"),
        (Output("failed", "Failed to initialize NVML: Insufficient Permissions\n"), "denied"),
        (Output("failed", "Failed to initialize NVML: Unknown Error\n"), "unknown"),
    ],
)
def test_a_failure_has_a_name(output: Output, problem: str) -> None:
    assert smi.problem_of(output) == problem


def test_recordings_name_nobody() -> None:
    for path in Path(RECORDINGS).rglob("*.xml"):
        text = path.read_text()
        assert "GPU-00000000-0000-0000-0000-" in text
        assert text.count("<uuid>") == text.count("<uuid>GPU-00000000-0000-0000-0000-")
