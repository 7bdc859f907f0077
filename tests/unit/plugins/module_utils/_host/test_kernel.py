# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._host import kernel
from ansible_collections.sm120.sglang.plugins.module_utils._host.tools import Tools
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.host.nodes import RECORDINGS, Node


def test_arguments_of_a_real_kernel() -> None:
    found = kernel.parse_arguments((RECORDINGS / "h200/cmdline.txt").read_text())
    assert found["pci"] == "realloc=off"
    assert found["quiet"] == ""
    assert "--init-argument" not in found  # init's, not the kernel's


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("iommu=on iommu=pt\n", {"iommu": "pt"}),
        ('dyndbg="file a +p" quiet', {"dyndbg": "file a +p", "quiet": ""}),
        ('odd="quote', {"odd": '"quote'}),
        ("", {}),
    ],
)
def test_arguments(text: str, found: dict[str, str]) -> None:
    assert kernel.parse_arguments(text) == found


@settings(max_examples=50)
@given(st.text(max_size=200))
def test_any_text_is_parsed(text: str) -> None:
    kernel.parse_arguments(text)
    kernel.parse_xids(text)
    kernel.parse_driver(text)
    kernel.parse_choice(text)


def test_a_real_log_has_no_xid() -> None:
    assert kernel.parse_xids((RECORDINGS / "h200/kernel.log").read_text()) == []


def test_xids_in_every_time_format_and_each_once() -> None:
    # Lines as in open-gpu-kernel-modules#1151 and #1353.
    text = (
        "[  127.8] NVRM: Xid (PCI:0000:06:00): 79, GPU has fallen off the bus.\n"
        "Nov 29 03:00:00 node kernel: NVRM: Xid (PCI:0000:C1:00): 31, pid=7, name=python, Ch 8\n"
        "2026-11-29T03:00:00+0000 node kernel: NVRM: Xid (PCI:0000:c1:00): 31, pid=8, name=x\n"
        "NVRM: Xid (PCI:0000:06:00): 154, GPU recovery action changed from 0x0 (None)\n"
        "NVRM: GPU 0000:06:00.0: GPU has fallen off the bus.\n"
    )
    found = kernel.parse_xids(text)
    assert [(error["address"], error["code"]) for error in found] == [
        ("0000:06:00", 79),
        ("0000:c1:00", 31),
        ("0000:06:00", 154),
    ]
    assert found[1]["text"] == "pid=8, name=x"  # the last of its kind


def test_many_xids_are_cut_at_the_front() -> None:
    text = "".join(f"NVRM: Xid (PCI:0000:06:00): {code}, x\n" for code in range(1, 90))
    found = kernel.parse_xids(text)
    assert (len(found), found[-1]["code"]) == (50, 89)


def test_flavours_of_the_module() -> None:
    opened = kernel.parse_driver((RECORDINGS / "h200/version.txt").read_text())
    assert opened == {"version": "580.159.04", "open": True}
    closed = kernel.parse_driver(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.07  Sat Feb 17 22:55:48 UTC 2024\n"
    )
    assert closed == {"version": "535.161.07", "open": False}
    assert kernel.parse_driver("") == {"version": "", "open": False}


def test_the_ring_buffer_stands_in_for_a_journal(tmp_path: Path) -> None:
    node = Node()
    node.prints("dmesg", "", "NVRM: Xid (PCI:0000:06:00): 79, GPU has fallen off the bus.\n")
    node.write(tmp_path)
    found = kernel.read_log(Tools(tmp_path))
    assert (found["state"], found["xids"][0]["code"]) == ("ok", 79)


def test_a_log_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    node = Node()
    node.prints("dmesg", "", "dmesg: read kernel buffer failed: Operation not permitted\n", 1)
    node.write(tmp_path)
    found = kernel.read_log(Tools(tmp_path))
    assert found["xids"] == []
    assert found["state"] == "missing"


def test_this_machine_can_be_read() -> None:
    found = kernel.read_kernel(Path("/"), Tools(Path("/")))
    assert found["arguments"]
    # A value of /proc/sys: the kernel refuses a buffer of more than 4 MiB for those.
    assert found["nr_open"] is not None
    assert found["nr_open"] > 0
