# SPDX-License-Identifier: Apache-2.0
"""Files passed on between three real nodes: whole, cut, resumed, damaged, and nothing left."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.fleet.conftest import DEST, INCOMING, MIB, NODES, Files, Fleet, make_files

pytestmark = pytest.mark.fleet

ODD = "model [1] 'x' \"y\" *.bin"
TAKES = "pgrep -f '^sftp .*sglang-pass-on'"
UNIT = "/run/sglang-pass-on"


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Files that make a piece each, and small ones with names that a shell would not like."""
    sizes = {f"weights-{number}.bin": 6 * MIB for number in range(5)}
    sizes |= {"config.json": 900, ODD: 5, "sub/inner.txt": 7, "empty": 0, "sub/empty-too": 0}
    return make_files(tmp_path_factory.mktemp("model"), sizes)


@pytest.fixture(scope="session")
def single(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """One file, which takes a while under a limit."""
    return make_files(tmp_path_factory.mktemp("single"), {"weights.bin": 40 * MIB})


def test_files_come_from_the_controller_once_and_then_from_node_to_node(
    fleet: Fleet, model: Files
) -> None:
    forecast = fleet.run(model, "--check")
    assert len(forecast["lines"]) == len(NODES)
    planned = [item for wave in forecast["waves"] for item in wave]
    assert sum(item["bytes"] for item in planned) == model.size * len(NODES)
    assert sum(item["bytes"] for item in planned if not item["source"]) == model.size
    assert [fleet.holds(name) for name in NODES] == ["", "", ""]

    done = fleet.run(model)
    assert done["changed"]
    assert done["troubles"] == []
    for name in NODES:
        assert fleet.holds(name) == model.digests()
        assert fleet.parts(name) == ""
        modes = fleet.shell(name, f"find {DEST} -name '*.bin' -printf '%U %G %m\\n' | sort -u")
        assert modes == "0 0 644"
    shares = " ".join(done["lines"])
    assert all(f"from {name}" in shares for name in ("the controller", "lab-1", "lab-2"))

    again = fleet.run(model)
    assert (again["changed"], again["lines"]) == (False, [])


def test_what_one_node_has_the_others_get_without_the_controller(
    fleet: Fleet, model: Files
) -> None:
    fleet.put("lab-3", model)
    done = fleet.run(model, controller=False)
    assert done["troubles"] == []
    assert [fleet.holds(name) for name in NODES] == [model.digests()] * 3


def test_a_killed_controller_leaves_parts_alone_and_the_next_run_goes_on(
    fleet: Fleet, single: Files
) -> None:
    fleet.put("lab-1", single)
    process = fleet.begin(single, nodes=["lab-1", "lab-2"], controller=False, fleet_limit=8)
    fleet.wait("lab-2", f"test $(stat -c %s {INCOMING}/* | sort -n | tail -1) -gt 5000000")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    for name in ("lab-1", "lab-2"):
        fleet.wait(name, f"! test -e {UNIT} && ! pgrep -f [a]gent.pyz && ! {TAKES}")
    size, digest = fleet.parts("lab-2").split()
    assert digest == single.files[0]["sha256"]
    assert fleet.holds("lab-2") == ""

    done = fleet.run(single, nodes=["lab-1", "lab-2"], controller=False)
    assert done["resumed"]["lab-2"] >= int(size) > 0
    assert fleet.holds("lab-2") == single.digests()
    assert fleet.parts("lab-2") == ""


def test_a_cut_upload_from_the_controller_goes_on(fleet: Fleet, single: Files) -> None:
    process = fleet.begin(single, nodes=["lab-1"], fleet_controller_limit=8)
    fleet.wait("lab-1", f"test $(stat -c %s {INCOMING}/controller/*) -gt 5000000")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    fleet.wait("lab-1", f"! test -e {UNIT}")
    done = fleet.run(single, nodes=["lab-1"])
    assert done["resumed"]["lab-1"] > 5_000_000
    assert fleet.holds("lab-1") == single.digests()


def test_a_source_that_dies_is_replaced_and_what_it_gave_is_kept(
    fleet: Fleet, single: Files
) -> None:
    fleet.put("lab-1", single)
    process = fleet.begin(single, nodes=["lab-1", "lab-2"], fleet_limit=8)
    fleet.wait("lab-2", f"test $(stat -c %s {INCOMING}/{single.files[0]['sha256']}) -gt 5000000")
    fleet.shell("lab-1", "systemctl kill --signal=KILL sglang-pass-on")
    done = fleet.end(process)
    assert "lab-1: takes no part any more" in " ".join(done["troubles"])
    assert done["resumed"]["lab-2"] > 5_000_000
    assert fleet.holds("lab-2") == single.digests()
    assert fleet.parts("lab-2") == ""


def test_a_damaged_source_is_named_and_another_one_gives(fleet: Fleet, single: Files) -> None:
    fleet.put("lab-1", single)
    fleet.put("lab-3", single)
    # What a disk does: other content under the same times, which the record cannot see.
    digest = single.files[0]["sha256"]
    fleet.shell(
        "lab-1",
        f"""cd {DEST} && printf damaged | dd of=weights.bin conv=notrunc status=none
        python3 - <<'END'
import json, os
seen = os.stat("weights.bin")
now = [seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino]
json.dump({{"weights.bin": ["{digest}", *now]}}, open(".verified.json", "w"))
END""",
    )
    done = fleet.run(single)
    said = " ".join(done["troubles"])
    assert "lab-1 gave lab-2 a damaged file: weights.bin: arrived with sha256" in said
    assert "lab-1: its own file is damaged" in said
    assert fleet.holds("lab-2") == single.digests()
    # The next run finds it lacking on the node that has it damaged, and mends it.
    mended = fleet.run(single)
    assert mended["changed"]
    assert fleet.holds("lab-1") == single.digests()


def test_a_damaged_file_of_the_controller_is_named_and_never_put_in_place(
    fleet: Fleet, tmp_path: Path
) -> None:
    files = make_files(tmp_path / "source", {"weights.bin": MIB})
    (files.folder / "weights.bin").write_bytes(b"x" * MIB)
    done = fleet.run(files, nodes=["lab-1"])
    assert "the controller gave lab-1 a damaged file: weights.bin" in " ".join(done["troubles"])
    assert fleet.holds("lab-1") == ""
    assert fleet.parts("lab-1") == ""


def test_a_source_that_may_not_show_its_file_is_named_and_passed_over(
    fleet: Fleet, single: Files
) -> None:
    fleet.put("lab-1", single)
    fleet.shell("lab-1", f"chmod 0600 {DEST}/weights.bin")
    done = fleet.run(single, nodes=["lab-1", "lab-2"])
    assert "lab-1 does not give lab-2 a file" in " ".join(done["troubles"])
    assert "Permission denied" in " ".join(done["troubles"])
    assert fleet.holds("lab-2") == single.digests()


def test_a_source_that_cannot_be_reached_is_passed_over(fleet: Fleet, single: Files) -> None:
    fleet.put("lab-1", single)
    fleet.address["lab-1"], right = "192.0.2.1", fleet.address["lab-1"]
    try:
        done = fleet.run(single, nodes=["lab-1", "lab-2"])
    finally:
        fleet.address["lab-1"] = right
    assert "lab-1: cannot give files: 192.0.2.1 port 22730" in " ".join(done["troubles"])
    assert fleet.holds("lab-2") == single.digests()


def test_a_node_shows_that_folder_to_its_takers_and_nothing_else(
    fleet: Fleet, single: Files
) -> None:
    fleet.put("lab-1", single)
    own, other = fleet.address["lab-2"], fleet.address["lab-1"]
    process = fleet.begin(single, nodes=["lab-1", "lab-2"], controller=False, fleet_limit=8)
    fleet.wait("lab-2", TAKES)
    connect = (
        f"-P 22730 -F none -o BatchMode=yes -o HostKeyAlias=lab-1 -o IdentitiesOnly=yes "
        f"-o UserKnownHostsFile={UNIT}/known_hosts -o IdentityFile={UNIT}/client"
    )

    def sftp(order: str, source: str = own, user: str = "nobody") -> str:
        return fleet.shell(
            "lab-2",
            f"echo {order!r} | sftp -q -b - {connect} -o BindAddress={source} {user}@{other} 2>&1 "
            "|| true",
        )

    # The limit is sftp's own: 8 MB/s for two streams.
    assert "-l 31250" in fleet.shell("lab-2", f"pgrep -af {TAKES.split(maxsplit=2)[2]}")
    assert sftp("ls -1 /").splitlines()[1:] == ["/0"]
    assert "not found" in sftp("get /../../etc/passwd /tmp/passwd")
    assert "ermission denied" in sftp("put /etc/hostname /0/new")
    assert "ermission denied" in sftp("rm /0/weights.bin")
    assert "Connection closed" in sftp("ls -1 /", user="root")
    assert "Connection closed" in sftp("ls -1 /", source="127.0.0.1")
    ssh = f"ssh {connect.replace('-P', '-p')} -o BindAddress={own} nobody@{other}"
    assert "sftp connections only" in fleet.shell("lab-2", f"{ssh} id 2>&1 || true")
    # Keys are root's alone, and neither the system's SSH server nor root's own folder has one.
    modes = fleet.shell("lab-2", f"stat -c '%U %a' {UNIT}/client {UNIT}/host | sort -u")
    assert modes == "root 600"
    done = fleet.end(process)
    assert done["troubles"] == []


def test_two_runs_at_once_do_not_disturb_each_other(fleet: Fleet, single: Files) -> None:
    fleet.put("lab-1", single)
    process = fleet.begin(single, nodes=["lab-1", "lab-2"], controller=False, fleet_limit=8)
    fleet.wait("lab-2", TAKES)
    second = fleet.begin(single, nodes=["lab-2"], controller=False)
    said, _ = second.communicate()
    assert second.returncode == 0, said
    assert "another run is passing files on there" in fleet.output.read_text()
    fleet.output.unlink()
    assert fleet.end(process)["troubles"] == []
    assert fleet.holds("lab-2") == single.digests()
