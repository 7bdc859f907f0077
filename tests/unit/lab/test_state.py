# SPDX-License-Identifier: Apache-2.0
"""The lab's folder, records and lock."""

from __future__ import annotations

import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from lab import state
from lab.process import Process
from lab.state import Lab, LabError, Node

NODE = Node("lab-1", "127.120.0.1", 22120, "/r/bookworm-0", "overlay", "lab-1-0", "00ff")


def test_the_folder_is_that_of_the_repository_unless_told() -> None:
    assert state.state_dir({}) == state.REPOSITORY / ".lab"
    assert state.state_dir({"LAB_STATE": ""}) == state.REPOSITORY / ".lab"
    assert state.state_dir({"LAB_STATE": "/x"}) == Path("/x")
    assert state.state_dir({"LAB_STATE": "rel"}) == Path.cwd() / "rel"
    assert (state.REPOSITORY / "lab" / "state.py").is_file()


@pytest.mark.parametrize("value", ["127.120.9.", "127.0.0.", "127.255.255."])
def test_address_base(value: str) -> None:
    assert state.address_base({"LAB_ADDRESS_BASE": value}) == value


def test_address_base_left_out() -> None:
    assert state.address_base({}) == "127.120.0."
    assert state.address_base({"LAB_ADDRESS_BASE": ""}) == "127.120.0."


@pytest.mark.parametrize(
    "value", ["10.0.0.", "127.120.9", "127.120.9.1", "127.256.0.", "127.1.1.\n"]
)
def test_address_base_outside_loopback(value: str) -> None:
    with pytest.raises(LabError, match="LAB_ADDRESS_BASE"):
        state.address_base({"LAB_ADDRESS_BASE": value})


@pytest.mark.parametrize(("value", "count"), [("1", 1), ("99", 99), ("", 1)])
def test_node_count(value: str, count: int) -> None:
    assert state.node_count({"LAB_NODES": value}) == count


@pytest.mark.parametrize("value", ["0", "100", "-1", "two", "1.5", "²"])
def test_node_count_refused(value: str) -> None:
    with pytest.raises(LabError, match=r"1 to 99"):
        state.node_count({"LAB_NODES": value})


@pytest.mark.parametrize("index", [1, 9, 10, 99])
def test_names_and_indexes_agree(index: int) -> None:
    assert state.node_index(state.node_name(index)) == index


@pytest.mark.parametrize(
    "name", ["lab-0", "lab-01", "lab-100", "lab-", "lab", "../lab-1", "lab-1\n"]
)
def test_names_that_are_no_nodes(name: str) -> None:
    with pytest.raises(LabError, match="is not a lab node"):
        state.node_index(name)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path / "lab")
    lab.node_dir("lab-1").mkdir(parents=True)
    return lab


def test_a_record_reads_back(lab: Lab) -> None:
    assert lab.load("lab-1") is None
    lab.save(NODE)
    assert lab.load("lab-1") == NODE
    assert lab.nodes_recorded() == [NODE]


def test_node_names_are_in_order_and_only_nodes(lab: Lab) -> None:
    for name in ("lab-10", "lab-2", "other", ".lab-3"):
        lab.node_dir(name).mkdir()
    assert lab.node_names() == ["lab-1", "lab-2", "lab-10"]
    assert lab.nodes_recorded() == []
    assert Lab(lab.path / "missing").node_names() == []


@pytest.mark.parametrize("text", ["{", "[]", '{"name": "lab-1"}', ""])
@pytest.mark.parametrize("file", ["node.json", "process.json"])
def test_a_damaged_record_says_which_file_and_what_to_do(lab: Lab, file: str, text: str) -> None:
    path = lab.node_dir("lab-1") / file
    path.write_text(text)
    load = lab.load if file == "node.json" else lab.load_process
    with pytest.raises(LabError) as caught:
        load("lab-1")
    assert str(path) in str(caught.value)
    assert "python -m lab down" in str(caught.value)


def test_running_and_ready_follow_the_process(lab: Lab) -> None:
    from lab.process import identify

    assert lab.running("lab-1") is None
    me = identify(os.getpid())
    assert me is not None
    lab.save_process("lab-1", me)
    assert lab.running("lab-1") == me
    assert not lab.ready("lab-1")
    lab.mark_ready("lab-1")
    assert lab.ready("lab-1")
    lab.save_process("lab-1", Process(me.pid, me.start_ticks + 1, me.boot_id))
    assert lab.running("lab-1") is None
    assert not lab.ready("lab-1")


def test_writing_replaces_the_file_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    with path.open() as reader:
        state.write_atomic(path, "new", 0o640)
        assert reader.read() == "old"
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def _hold(path: Path, held: object, release: object) -> None:
    with Lab(path).lock(lambda _: None):
        held.set()  # type: ignore[attr-defined]
        release.wait()  # type: ignore[attr-defined]


def test_the_lock_keeps_another_process_out_and_names_it(lab: Lab) -> None:
    spawn = multiprocessing.get_context("spawn")
    held, release = spawn.Event(), spawn.Event()
    holder = spawn.Process(target=_hold, args=(lab.path, held, release))
    holder.start()
    try:
        assert held.wait(30)
        told: list[str] = []
        with (
            pytest.raises(LabError, match=f"process {holder.pid}"),
            lab.lock(told.append, seconds=0.15),
        ):
            pytest.fail("two at once")
        assert told == [f"waiting for another lab command (process {holder.pid})"]
    finally:
        release.set()
        holder.join()
    with lab.lock(pytest.fail, seconds=0):
        pass


def test_the_lock_goes_when_its_holder_dies(lab: Lab) -> None:
    spawn = multiprocessing.get_context("spawn")
    held, release = spawn.Event(), spawn.Event()
    holder = spawn.Process(target=_hold, args=(lab.path, held, release))
    holder.start()
    assert held.wait(30)
    holder.kill()
    holder.join()
    with lab.lock(pytest.fail, seconds=0):
        pass


def test_a_lock_file_that_was_removed_locks_nobody(lab: Lab) -> None:
    with lab.lock(pytest.fail, seconds=0):
        (lab.path / "lock").unlink()
        with lab.lock(pytest.fail, seconds=0):
            assert (lab.path / "lock").read_text() == f"{os.getpid()}\n"


def test_files_made_under_sudo_go_to_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    path = tmp_path / "f"
    path.touch()
    monkeypatch.delenv("SUDO_UID", raising=False)
    state.give_to_invoker(path)
    assert path.stat().st_uid == 0
    monkeypatch.setenv("SUDO_UID", "1234")
    monkeypatch.setenv("SUDO_GID", "1235")
    state.give_to_invoker(path)
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)
