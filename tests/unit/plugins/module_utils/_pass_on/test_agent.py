# SPDX-License-Identifier: Apache-2.0
"""The agent's own work with files; its servers and transfers run on real nodes in tests/fleet."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._pass_on import agent
from ansible_collections.sm120.sglang.plugins.plugin_utils._pass_on import program

ONE, TWO = b"one" * 1000, b"two" * 10


def described(name: str, content: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    return {"name": name, "sha256": digest, "size": len(content)}


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Wait:
    """Events as they come, from whichever thread."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def __call__(self, event: dict[str, Any]) -> None:
        self.events.append(event)

    def one(self, kind: str) -> dict[str, Any]:
        for _ in range(500):
            found = [event for event in self.events if event["event"] == kind]
            if found:
                return found[0]
            time.sleep(0.01)
        raise AssertionError(self.events)


@pytest.fixture
def events() -> Wait:
    return Wait()


def opened(tmp_path: Path, events: Wait, *folders: dict[str, Any], read: bool = True) -> Any:
    own = tmp_path / "own"
    own.mkdir()
    working = agent.Agent(own, events)
    user = getpass.getuser()
    order = {"do": "open", "address": "127.0.0.1", "folders": folders, "read": read, "user": user}
    working.order(order)
    return working


def folder(tmp_path: Path, name: str, *files: dict[str, Any]) -> dict[str, Any]:
    return {"dest": str(tmp_path / name), "record": "", "files": list(files)}


def test_it_tells_what_is_lacking_and_makes_keys_that_stay_with_it(
    tmp_path: Path, events: Wait
) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/two").write_bytes(TWO)
    opened(tmp_path, events, folder(tmp_path, "m", described("one", ONE), described("two", TWO)))
    told = events.one("opened")
    assert told["lacking"] == [[sha(ONE)]]
    assert all(key.startswith("ssh-ed25519 ") for key in told["keys"].values())
    modes = {(tmp_path / "own" / name).stat().st_mode & 0o777 for name in ("host", "client")}
    assert modes == {0o600}


def test_a_look_changes_nothing_and_reads_nothing(tmp_path: Path, events: Wait) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/two").write_bytes(b"wrong"[:5] * 6)
    opened(tmp_path, events, folder(tmp_path, "m", described("two", TWO)), read=False)
    assert events.one("opened")["lacking"] == [[]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "own"]
    assert list((tmp_path / "own").iterdir()) == []


def test_a_file_that_two_folders_want_arrives_once_and_is_in_both(
    tmp_path: Path, events: Wait
) -> None:
    working = opened(
        tmp_path,
        events,
        folder(tmp_path, "m", described("one", ONE)),
        folder(tmp_path, "n", described("other", ONE), described("sub/again", ONE)),
    )
    working.order({"do": "expect", "id": 1, "files": [sha(ONE)]})
    part = events.one("ready")["parts"][0]
    assert part["missing"] == len(ONE)
    Path(part["path"]).write_bytes(ONE)
    working.order({"do": "adopt", "id": 1, "files": [sha(ONE)], "resumed": 7})
    assert events.one("done")["resumed"] == 7
    for name in ("m/one", "n/other", "n/sub/again"):
        assert (tmp_path / name).read_bytes() == ONE
    working.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "n", "own"]


def test_a_folder_that_has_the_file_already_is_left_alone(tmp_path: Path, events: Wait) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/one").write_bytes(ONE)
    inode = (tmp_path / "m/one").stat().st_ino
    working = opened(
        tmp_path,
        events,
        folder(tmp_path, "m", described("one", ONE)),
        folder(tmp_path, "n", described("one", ONE)),
    )
    working.order({"do": "expect", "id": 1, "files": [sha(ONE)]})
    path = Path(events.one("ready")["parts"][0]["path"])
    assert path.parent.parent == tmp_path / ".n.incoming"
    path.write_bytes(ONE)
    working.order({"do": "adopt", "id": 1, "files": [sha(ONE)], "resumed": 0})
    events.one("done")
    assert (tmp_path / "n/one").read_bytes() == ONE
    assert (tmp_path / "m/one").stat().st_ino == inode


def test_what_came_by_one_way_is_gone_on_with_by_the_other(tmp_path: Path, events: Wait) -> None:
    incoming = tmp_path / ".m.incoming"
    (incoming / "controller").mkdir(parents=True)
    (incoming / sha(ONE)).write_bytes(ONE[:2000])
    (incoming / "controller" / sha(ONE)).write_bytes(ONE[:100])
    working = opened(tmp_path, events, folder(tmp_path, "m", described("one", ONE)))
    working.order({"do": "expect", "id": 1, "files": [sha(ONE)]})
    part = events.one("ready")["parts"][0]
    assert part["here"] == 2000
    assert Path(part["path"]).read_bytes() == ONE[:2000]
    assert not (incoming / sha(ONE)).exists()


def test_parts_that_nobody_wants_any_more_are_removed(tmp_path: Path, events: Wait) -> None:
    incoming = tmp_path / ".m.incoming"
    incoming.mkdir()
    (incoming / sha(TWO)).write_bytes(b"t")
    (incoming / sha(ONE)).write_bytes(b"o")
    opened(tmp_path, events, folder(tmp_path, "m", described("one", ONE)))
    events.one("opened")
    kept = sorted(path.name for path in incoming.iterdir())
    assert kept == sorted([sha(ONE), "controller"])


def test_a_link_in_place_of_a_part_is_not_written_through(tmp_path: Path, events: Wait) -> None:
    (tmp_path / "victim").write_bytes(b"v")
    incoming = tmp_path / ".m.incoming/controller"
    incoming.mkdir(parents=True)
    (incoming / sha(ONE)).symlink_to(tmp_path / "victim")
    working = opened(tmp_path, events, folder(tmp_path, "m", described("one", ONE)))
    working.order({"do": "expect", "id": 1, "files": [sha(ONE)]})
    assert events.one("ready")["parts"][0]["here"] == 0
    assert not (incoming / sha(ONE)).is_symlink()
    assert (tmp_path / "victim").read_bytes() == b"v"


def test_an_error_of_the_node_is_told_for_its_transfer(tmp_path: Path, events: Wait) -> None:
    working = opened(tmp_path, events, folder(tmp_path, "m", described("one", ONE)))
    working.order({"do": "adopt", "id": 5, "files": [sha(ONE)], "resumed": 0})
    told = events.one("failed")
    assert (told["id"], told["why"]) == (5, "local")
    assert "No such file" in told["text"]


def test_the_archive_is_a_program_that_ends_with_its_input(tmp_path: Path) -> None:
    (tmp_path / "agent.pyz").write_bytes(program.archive())
    wanted = folder(tmp_path, "m", described("one", ONE))
    order = {"do": "open", "address": "", "folders": [wanted], "read": False, "user": "x"}
    done = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "agent.pyz")],
        input=json.dumps(order) + "\n",
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "RUNTIME_DIRECTORY": str(tmp_path)},
        timeout=60,
    )
    assert json.loads(done.stdout) == {"event": "opened", "lacking": [[sha(ONE)]]}
