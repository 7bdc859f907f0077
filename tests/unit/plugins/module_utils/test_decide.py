# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _decide

UNIT = {
    "name": "sglang.service",
    "fragment_path": "/etc/systemd/system/sglang.service",
    "started_at": 100.0,
    "titles": ["sglang::detokenizer", "sglang::scheduler_TP0"],
    "load_state": "loaded",
    "active_state": "active",
    "sub_state": "running",
    "unit_file_state": "enabled",
    "need_reload": False,
    "launch": "L1",
}
RELEASES = {
    "current": "r1",
    "previous": "",
    "complete": ["r0", "r1"],
    "unfinished": [],
    "drift": {"r1": []},
}
MODEL = {"name": "kimi", "revision": "1", "source": {"on": "controller", "path": "/src"}}
SEEN_MODEL = {"missing": [], "unverified": [], "link": ""}
FILE = {"path": "/etc/x", "sha256": "d", "mode": "0640", "owner": "root", "group": "sglang"}
SEEN_FILE = {"exists": True, "changed_at": 150.0, **FILE}
OURS = [{"port": 30000, "unit": "sglang.service"}]


def edit(name: str, what: str, mend: str = "rebuild", since: float = 0.0) -> dict[str, Any]:
    return {"file": name, "what": what, "mend": mend, "since": since}


def lines(found: list[_decide.Difference]) -> list[str]:
    """`!` marks what makes the engine restart."""
    return [f"{'!' if d['restart'] else ''}{d['item']}: {d['reason']}" for d in found]


@pytest.mark.parametrize(
    ("change", "wanted", "expected"),
    [
        ({}, "r1", []),
        ({}, "r2", ["!release r2: not on this node"]),
        (
            {"drift": {"r1": [edit("a.py", "changed by hand")]}},
            "r1",
            ["!release r1: 1 file(s) not as built: a.py: changed by hand"],
        ),
        (
            {"drift": {"r1": [edit(name, "missing") for name in "abcd"]}},
            "r1",
            ["!release r1: 4 file(s) not as built: a: missing; b: missing; c: missing"],
        ),
        ({"drift": {"r0": [edit("a.py", "missing")], "r1": []}}, "r1", []),
        # What needs no content is mended in place, under the engine.
        (
            {"drift": {"r1": [edit("a", "mode is 600, not 644", "here")]}},
            "r1",
            ["release r1: 1 file(s) not as built: a: mode is 600, not 644"],
        ),
        # What came after the engine's start it cannot have loaded.
        (
            {"drift": {"r1": [edit("x.pth", "added by hand", "here", 201.0)]}},
            "r1",
            ["release r1: 1 file(s) not as built: x.pth: added by hand"],
        ),
        (
            {"drift": {"r1": [edit("x.pth", "added by hand", "here", 199.0)]}},
            "r1",
            ["!release r1: 1 file(s) not as built: x.pth: added by hand"],
        ),
        (
            {"unfinished": [".building-r9", ".replaced-r1"]},
            "r1",
            ["leftovers .building-r9, .replaced-r1: an earlier run was interrupted"],
        ),
        # Building removes them anyway.
        ({"unfinished": [".building-r2"]}, "r2", ["!release r2: not on this node"]),
        ({"complete": [], "current": "", "drift": {}}, "r1", ["!release r1: not on this node"]),
    ],
)
def test_release(change: dict[str, Any], wanted: str, expected: list[str]) -> None:
    node = {"releases": {**RELEASES, **change}, "unit": {"started_at": 200.0}}
    assert lines(_decide.release(node, wanted)) == expected


@pytest.mark.parametrize(
    ("seen", "source", "expected"),
    [
        (SEEN_MODEL, None, []),
        (None, None, ["!model kimi 1: 1 file(s) missing or of another size: everything"]),
        (
            {**SEEN_MODEL, "missing": ["a", "b", "c", "d"], "unverified": ["e"]},
            None,
            ["!model kimi 1: 4 file(s) missing or of another size: a, b, c, ..."],
        ),
        (
            {**SEEN_MODEL, "unverified": ["a", "b", "c"]},
            None,
            ["!model kimi 1: changed since verified: a, b, c"],
        ),
        ({**SEEN_MODEL, "link": "/old"}, None, ["model kimi 1: points to /old"]),
        ({**SEEN_MODEL, "link": "/srv"}, {"on": "node", "path": "/srv"}, []),
        (
            {**SEEN_MODEL, "link": "/old"},
            {"on": "node", "path": "/srv"},
            ["model kimi 1: points to /old"],
        ),
        (SEEN_MODEL, {"on": "node", "path": "/srv"}, ["model kimi 1: points to no other place"]),
    ],
)
def test_models(
    seen: dict[str, Any] | None, source: dict[str, str] | None, expected: list[str]
) -> None:
    node = {"models": {} if seen is None else {"kimi": seen}}
    wanted = {**MODEL, "source": source or MODEL["source"]}
    assert lines(_decide.models(node, [wanted])) == expected


def test_each_model_is_judged_by_itself() -> None:
    other = {**MODEL, "name": "draft"}
    node = {"models": {"kimi": SEEN_MODEL, "draft": {**SEEN_MODEL, "missing": ["x"]}}}
    assert lines(_decide.models(node, [MODEL, other])) == [
        "!model draft 1: 1 file(s) missing or of another size: x"
    ]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (SEEN_FILE, []),
        ({"exists": False}, ["/etc/x: missing"]),
        (None, ["/etc/x: missing"]),
        ({**SEEN_FILE, "sha256": "e"}, ["/etc/x: content differs"]),
        ({**SEEN_FILE, "mode": "0644"}, ["/etc/x: mode is 0644, not 0640"]),
        (
            {**SEEN_FILE, "sha256": "e", "owner": "eve", "group": "users"},
            ["/etc/x: content differs, owner is eve, not root, group is users, not sglang"],
        ),
    ],
)
def test_files(seen: dict[str, Any] | None, expected: list[str]) -> None:
    node = {"files": {} if seen is None else {"/etc/x": seen}, "unit": UNIT}
    assert lines(_decide.files(node, [FILE], "L1")) == expected


@pytest.mark.parametrize(
    ("seen", "unit", "restart"),
    [
        ({"sha256": "e", "changed_at": 50.0}, {}, True),
        ({"sha256": "e", "changed_at": 150.0}, {}, False),
        ({"mode": "0644", "changed_at": 50.0}, {}, False),
        ({"sha256": "e", "changed_at": 50.0}, {"active_state": "failed"}, False),
        # It restarts for its launch, which is another one.
        ({"sha256": "e", "changed_at": 50.0}, {"launch": "L0"}, False),
        # systemd says of the unit's own file whether it was read again.
        ({"sha256": "e", "changed_at": 50.0}, {"fragment_path": "/etc/x"}, False),
    ],
)
def test_an_engine_that_was_started_with_an_edited_file_restarts(
    seen: dict[str, Any], unit: dict[str, Any], restart: bool
) -> None:
    node = {"files": {"/etc/x": {**SEEN_FILE, **seen}}, "unit": {**UNIT, **unit}}
    (found,) = _decide.files(node, [FILE], "L1")
    assert found["restart"] is restart
    assert ("the engine was started with it" in found["reason"]) is restart


@pytest.mark.parametrize(
    ("titles", "ports", "arguments", "says"),
    [
        (["sglang::detokenizer"], OURS, {}, "its scheduler was killed"),
        (["sglang::scheduler"], OURS, {}, "its detokenizer was killed"),
        (
            ["sglang::scheduler_TP0", "sglang::detokenizer"],
            OURS,
            {"--tp-size": "2"},
            "its scheduler_TP1 was killed",
        ),
        # Of an engine over several nodes the first one alone has a detokenizer.
        (["sglang::scheduler_TP1"], OURS, {"--node-rank": "1"}, ""),
        (["sglang::other"], OURS, {"--node-rank": "1"}, "its scheduler was killed"),
        # It starts, or this release names no process.
        (["sglang::scheduler"], [], {}, ""),
        (["sglang::scheduler"], [{"port": 30000, "unit": "other.service"}], {}, ""),
        ([], OURS, {}, ""),
    ],
)
def test_a_part_that_was_killed_is_seen_by_the_processes(
    titles: list[str], ports: list[dict[str, Any]], arguments: dict[str, str], says: str
) -> None:
    node = {
        "unit": {**UNIT, "titles": titles},
        "releases": RELEASES,
        "ports": ports,
        "configured": {"arguments": arguments},
    }
    found = lines(_decide.engine(node, "r1", "L1", True))
    assert [line for line in found if says in line and line.startswith("!engine")] == found
    assert bool(found) is bool(says)


@pytest.mark.parametrize(
    ("unit", "releases", "enabled", "expected"),
    [
        ({}, {}, True, []),
        ({}, {"current": "r0"}, True, ["!current release: is r0"]),
        ({}, {"current": ""}, True, ["!current release: is none"]),
        (
            {"launch": "L0"},
            {},
            True,
            ["!engine: runs with another launch command, environment or release"],
        ),
        (
            {"launch": ""},
            {},
            True,
            ["!engine: runs with another launch command, environment or release"],
        ),
        (
            {"active_state": "inactive", "sub_state": "dead", "launch": ""},
            {},
            True,
            ["!engine: is inactive (dead)"],
        ),
        (
            {"active_state": "activating", "sub_state": "auto-restart", "launch": ""},
            {},
            True,
            ["!engine: is activating (auto-restart)"],
        ),
        (
            {"load_state": "masked", "active_state": "inactive"},
            {},
            True,
            ["unit: is masked; unmask it with systemctl unmask"],
        ),
        ({"need_reload": True}, {}, True, ["unit: changed on disk since systemd read it"]),
        ({"unit_file_state": "disabled"}, {}, True, ["unit: is disabled, not enabled"]),
        ({"unit_file_state": "disabled"}, {}, False, []),
        ({}, {}, False, ["unit: is enabled, and should not start at boot"]),
        (
            {
                "load_state": "not-found",
                "active_state": "inactive",
                "sub_state": "dead",
                "unit_file_state": "",
                "launch": "",
            },
            {"current": ""},
            True,
            ["!current release: is none", "!engine: is inactive (dead)"],
        ),
    ],
)
def test_engine(
    unit: dict[str, Any], releases: dict[str, Any], enabled: bool, expected: list[str]
) -> None:
    node = {"unit": {**UNIT, **unit}, "releases": {**RELEASES, **releases}, "ports": OURS}
    assert lines(_decide.engine(node, "r1", "L1", enabled)) == expected


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (
            {"launch": "L0"},
            [
                "!engine: runs with another launch command, environment or release",
                "!launch: --tp-size 8 -> 4",
                "!launch: + A=1",
            ],
        ),
        (
            {"active_state": "inactive", "sub_state": "dead", "launch": ""},
            ["!engine: is inactive (dead)", "launch: --tp-size 8 -> 4", "launch: + A=1"],
        ),
    ],
)
def test_a_plan_names_what_changes_of_the_launch(unit: dict[str, Any], expected: list[str]) -> None:
    node = {"unit": {**UNIT, **unit}, "releases": RELEASES}
    assert lines(_decide.engine(node, "r1", "L1", True, ["--tp-size 8 -> 4", "+ A=1"])) == expected


def test_packages() -> None:
    node = {"system": {"packages": {"g++": "4:12", "python3-dev": None}}}
    found = _decide.packages(node, ["g++", "python3-dev", "never-read"])
    assert lines(found) == [
        "package python3-dev: not installed",
        "package never-read: not installed",
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("engine_port", None),
        ("engine_prot", "engine_prot: no role has this variable; did you mean engine_port?"),
        ("engine_nothing_like_it", "engine_nothing_like_it: no role has this variable"),
        ("model_stroe_target", "did you mean model_store_target?"),
        ("enginee_port", "did you mean engine_port?"),
        ("site_name", None),
        ("my_port", None),
        ("_engine_derived", None),
        ("ansible_host", None),
        ("molecule_yml", None),
    ],
)
def test_mistyped_variables(name: str, expected: str | None) -> None:
    known = ["engine_port", "engine_host", "model_store_target", "model_store_root"]
    found = _decide.unknown_variables([name, "inventory_dir"], known, ["engine", "model_store"])
    if expected is None:
        assert found == []
    else:
        assert len(found) == 1
        assert expected in found[0]


def test_every_mistyped_variable_is_named_once() -> None:
    found = _decide.unknown_variables(["engine_b", "engine_a", "engine_b"], [], ["engine"])
    assert found == ["engine_a: no role has this variable", "engine_b: no role has this variable"]


QUIET: _decide.Difference = {"item": "/etc/x", "reason": "mode is 0644", "restart": False}
LOUD: _decide.Difference = {"item": "release r2", "reason": "not on this node", "restart": True}


@pytest.mark.parametrize(
    ("differences", "serving", "expected"),
    [
        ({}, True, ["nothing to do"]),
        ({"engine": []}, False, ["nothing to do"]),
        (
            {"engine": [QUIET]},
            True,
            ["engine: /etc/x: mode is 0644", "the engine goes on without a restart"],
        ),
        ({"engine": [QUIET]}, False, ["engine: /etc/x: mode is 0644", "the engine starts"]),
        (
            {"engine_release": [LOUD], "engine": [QUIET]},
            True,
            [
                "engine_release: release r2: not on this node",
                "engine: /etc/x: mode is 0644",
                "the engine RESTARTS",
            ],
        ),
    ],
)
def test_the_plan_for_people(
    differences: dict[str, list[_decide.Difference]], serving: bool, expected: list[str]
) -> None:
    assert _decide.summary(differences, serving) == expected
