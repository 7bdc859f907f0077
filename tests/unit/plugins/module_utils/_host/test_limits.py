# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._host import limits
from ansible_collections.sm120.sglang.plugins.module_utils._host.tools import Tools
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.host.nodes import RECORDINGS

REPOSITORY = Path(__file__).parents[5]


def test_limits_of_a_real_process() -> None:
    text = (RECORDINGS / "h200/limits.txt").read_text()
    assert limits.parse_process_limits(text) == {
        "memlock": limits.INFINITY,
        "nofile": 20000,
        "stack": limits.INFINITY,  # the hard limit; the soft one is 8 MiB
    }


def test_a_unit_that_is_not_loaded_has_no_limits_of_its_own() -> None:
    text = "LoadState={}\nLimitMEMLOCK=8388608\nLimitNOFILE=infinity\nLimitSTACK=odd\n"
    assert limits.parse_unit_limits(text.format("not-found")) == {}
    assert limits.parse_unit_limits(text.format("loaded")) == {
        "memlock": 8388608,
        "nofile": limits.INFINITY,
    }


def test_the_roles_unit_has_the_limits_that_are_asked_for() -> None:
    unit = (REPOSITORY / "roles/engine/templates/sglang.service.j2").read_text()
    found = limits.parse_unit_limits(f"LoadState=loaded\n{unit}")
    assert found["memlock"] == limits.INFINITY
    assert found["nofile"] >= 65536
    assert found["stack"] == 64 << 20


def test_swaps() -> None:
    text = (
        "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
        "/swap.img                               file\t\t8388604\t\t1024\t\t-2\n"
        "/dev/zram0                              partition\t4096\t\t0\t\t100\n"
    )
    assert limits.parse_swaps(text) == {"total": (8388604 + 4096) * 1024, "used": 1 << 20}
    assert limits.parse_swaps("") == {"total": 0, "used": 0}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/models/x", "zfs"),
        ("/srv/modelsx", "ext4"),
        ("/srv/my models", "xfs"),
        ("/", "ext4"),
    ],
)
def test_the_longest_mount_point_holds_a_path(path: str, kind: str) -> None:
    mounts = limits.parse_mounts(
        "/dev/sda2 / ext4 rw 0 0\ntank/models /srv/models zfs rw 0 0\n"
        "/dev/sdb1 /srv/my\\040models xfs rw 0 0\nodd line\n"
    )
    assert limits.file_system_of(path, mounts) == kind
    assert limits.file_system_of(path, []) == ""


def test_shared_memory_of_a_recording_is_what_its_mount_says(tmp_path: Path) -> None:
    def size(options: str) -> int | None:
        mounts = limits.parse_mounts(f"tmpfs /dev/shm tmpfs {options} 0 0\n")
        found: int | None = limits.read_shm(tmp_path, mounts)["size"]
        return found

    assert size("rw,size=65536k,inode64") == 64 << 20
    assert size("rw,size=16g") == 16 << 30
    assert size("rw") is None
    assert limits.read_shm(tmp_path, [])["mounted"] is False


def test_shared_memory_of_this_machine() -> None:
    found = limits.read_shm(Path("/"), limits.parse_mounts(Path("/proc/mounts").read_text()))
    assert found["mounted"]
    assert found["size"] >= found["free"] > 0


@settings(max_examples=50)
@given(st.text(max_size=200))
def test_any_text_is_parsed(text: str) -> None:
    limits.parse_mounts(text)
    limits.parse_swaps(text)
    limits.parse_process_limits(text)
    limits.parse_unit_limits(text)
    limits.read_shm(Path("/nowhere"), limits.parse_mounts(f"x /dev/shm tmpfs {text} 0 0"))


def test_tools_that_are_missing_are_named(tmp_path: Path) -> None:
    tools = Tools(tmp_path)
    assert limits.read_time(tools) == {"state": "missing", "synchronized": None}
    found = limits.read_limits(tmp_path, tools, "sglang.service")
    assert (found["state"], found["unit"], found["process"]) == ("missing", {}, {})
