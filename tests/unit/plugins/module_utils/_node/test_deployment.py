# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import grp
import hashlib
import json
import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _release, _verified
from ansible_collections.sm120.sglang.plugins.module_utils._node import deployment


def release(root: Path, name: str) -> Path:
    paths = _release.Paths(root, name)
    package = paths.building / "venv/lib/python3.11/site-packages/sglang"
    package.mkdir(parents=True)
    (package / "a.py").write_text("x = 1\n")
    _release.seal(paths)
    return paths.final / package.relative_to(paths.building)


def test_a_bare_node_has_no_release(tmp_path: Path) -> None:
    assert deployment.read_releases(tmp_path / "none", ["r1"]) == {
        "current": "",
        "previous": "",
        "complete": [],
        "built": {},
        "unfinished": [],
        "drift": {},
        "proofs": {"r1": {}},
    }


def test_releases_are_read(tmp_path: Path) -> None:
    packages = {name: release(tmp_path, name) for name in ("r1", "r2", "r3")}
    for name in ("r1", "r2"):
        _release.switch(tmp_path, name)
    (tmp_path / "releases/.building-r4/venv").mkdir(parents=True)
    (tmp_path / "releases/r5").mkdir()  # without COMPLETE
    for package in packages.values():
        (package / "a.py").write_text("x = 23\n")
    found = deployment.read_releases(tmp_path, ["r3", "r5", "r9"])
    assert (found["current"], found["previous"]) == ("r2", "r1")
    assert found["complete"] == ["r1", "r2", "r3"]
    assert found["unfinished"] == [".building-r4"]
    # The wanted and the current one are looked into, the others are not.
    told = {name: [change["what"] for change in found["drift"][name]] for name in found["drift"]}
    assert told == {name: ["changed by hand"] for name in ("r2", "r3")}
    also = deployment.read_releases(tmp_path, [], also=["r1", "r9"])["drift"]
    assert sorted(also) == ["r1", "r2"]


def test_what_is_gone_from_a_release_is_named(tmp_path: Path) -> None:
    package = release(tmp_path, "r1")
    (package / "a.py").unlink()
    (found,) = deployment.read_releases(tmp_path, ["r1"])["drift"].values()
    (name,) = _release.lost(found)
    assert name.endswith("/a.py")
    (package / "a.py").write_text("x = 23\n")
    (found,) = deployment.read_releases(tmp_path, ["r1"])["drift"].values()
    assert _release.lost(found) == []


def test_a_release_taken_away_leaves_no_current(tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to("releases/gone")
    found = deployment.read_releases(tmp_path, [])
    assert (found["current"], found["complete"], found["drift"]) == ("gone", [], {})


def model(folder: Path, **change: Any) -> dict[str, Any]:
    content = b'{"model_type": "kimi"}'
    return {
        "name": "kimi",
        "path": str(folder),
        "record": str(folder.with_name(".record.json")),
        "files": [
            {
                "name": "config.json",
                "sha256": hashlib.sha256(content).hexdigest(),
                "size": len(content),
            }
        ],
        **change,
    }


def test_a_missing_model(tmp_path: Path) -> None:
    assert deployment.read_models([model(tmp_path / "m")]) == {
        "kimi": {
            "missing": ["config.json"],
            "unverified": [],
            "attributes": [],
            "link": "",
            "config": None,
            "weights": {"groups": [], "problem": "no safetensors files"},
        }
    }


def test_a_model_before_and_after_it_was_verified(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "kimi"}')
    wanted = model(folder)
    seen = deployment.read_models([wanted])["kimi"]
    assert seen == {
        "missing": [],
        "unverified": ["config.json"],
        "attributes": [],
        "link": "",
        "config": {"model_type": "kimi"},
        "weights": {"groups": [], "problem": "no safetensors files"},
    }
    record: dict[str, Any] = {}
    files = _verified.parse_wanted(wanted["files"])
    _verified.verify(folder, files, record, ["config.json"])
    _verified.save_record(Path(wanted["record"]), record)
    assert deployment.read_models([wanted])["kimi"]["unverified"] == []


def verified(folder: Path) -> dict[str, Any]:
    """A model of the product's own, brought and verified."""
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "kimi"}')
    (folder / "config.json").chmod(0o644)
    wanted = model(folder, source={"on": "controller", "path": "/src"})
    record: dict[str, Any] = {}
    _verified.verify(folder, _verified.parse_wanted(wanted["files"]), record, ["config.json"])
    _verified.save_record(Path(wanted["record"]), record)
    return wanted


def groups(wanted: dict[str, Any], full: bool = False) -> dict[str, list[str]]:
    seen = deployment.read_models([wanted], full)["kimi"]
    names = ("missing", "unverified", "attributes")
    return {name: seen[name] for name in names if seen[name]}


def test_another_mode_is_not_another_content(tmp_path: Path) -> None:
    wanted = verified(tmp_path / "m")
    assert groups(wanted) == {}
    (tmp_path / "m/config.json").chmod(0o600)
    assert groups(wanted) == {"attributes": ["config.json"]}
    # Files that lie on the node are their owner's.
    assert groups({**wanted, "source": {"on": "node", "path": str(tmp_path / "m")}}) == {
        "unverified": ["config.json"]
    }
    (tmp_path / "m/config.json").write_text('{"model_type": "kiwi"}')
    assert groups(wanted) == {"unverified": ["config.json"]}


def test_a_link_is_not_the_file_that_was_brought(tmp_path: Path) -> None:
    wanted = verified(tmp_path / "m")
    (tmp_path / "m/config.json").rename(tmp_path / "elsewhere")
    (tmp_path / "m/config.json").symlink_to(tmp_path / "elsewhere")
    assert groups(wanted)["missing"] == ["config.json"]


def test_reading_all_forgets_what_the_disk_lost(tmp_path: Path) -> None:
    """Whatever a record says: here of a content that was never there."""
    wanted = verified(tmp_path / "m")
    assert groups(wanted, full=True) == {}
    (tmp_path / "m/config.json").write_text('{"model_type": "kiwi"}')
    fingerprint = _verified.fingerprint(tmp_path / "m/config.json")
    assert fingerprint is not None
    record = {"config.json": [wanted["files"][0]["sha256"], *fingerprint]}
    _verified.save_record(Path(wanted["record"]), record)
    assert groups(wanted) == {}
    assert groups(wanted, full=True) == {"unverified": ["config.json"]}
    assert groups(wanted) == {"unverified": ["config.json"]}


def test_a_model_that_lies_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "srv").mkdir()
    (tmp_path / "srv/config.json").write_text('{"model_type": "kimi"}')
    (tmp_path / "m").symlink_to(tmp_path / "srv")
    seen = deployment.read_models([model(tmp_path / "m")])["kimi"]
    assert (seen["link"], seen["missing"]) == (str(tmp_path / "srv"), [])


def test_a_model_on_the_node_is_read_before_anything_points_to_it(tmp_path: Path) -> None:
    (tmp_path / "srv").mkdir()
    (tmp_path / "srv/config.json").write_text('{"model_type": "kimi"}')
    source = {"on": "node", "path": str(tmp_path / "srv")}
    seen = deployment.read_models([model(tmp_path / "m", source=source)])["kimi"]
    assert (seen["missing"], seen["config"]) == (["config.json"], {"model_type": "kimi"})


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_a_damaged_config_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    assert deployment.read_models([model(tmp_path)])["kimi"]["config"] is None


def test_a_bad_manifest_is_refused(tmp_path: Path) -> None:
    bad = [{"name": "../x", "sha256": "0" * 64, "size": 1}]
    with pytest.raises(_verified.VerifyError, match="stay in its folder"):
        deployment.read_models([model(tmp_path, files=bad)])


def test_users() -> None:
    me = pwd.getpwuid(os.getuid())
    assert deployment.read_user(me.pw_name) == {
        "exists": True,
        "uid": me.pw_uid,
        "gid": me.pw_gid,
        "group": grp.getgrgid(me.pw_gid).gr_name,
        "home": me.pw_dir,
        "shell": me.pw_shell,
    }
    assert deployment.read_user("no-such-user-here") == {"exists": False}


def test_what_is_read_can_travel(tmp_path: Path) -> None:
    release(tmp_path, "r1")
    reading = deployment.read_releases(tmp_path, ["r1"])
    assert json.loads(json.dumps(reading)) == reading
