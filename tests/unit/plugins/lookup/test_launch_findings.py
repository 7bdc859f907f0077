# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible import constants
from ansible.errors import AnsibleLookupError
from ansible_collections.sm120.sglang.plugins.lookup import launch_findings

SERVER_ARGS = """
class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", required=True)
        parser.add_argument("--tp-size", type=int)
        parser.add_argument("--config")
"""


def wheel(folder: Path, text: str = SERVER_ARGS, name: str = "sglang-1.0-py3-none-any.whl") -> str:
    """Make a small release; returns its digest."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / name, "w") as archive:
        archive.writestr("sglang/__init__.py", "")
        archive.writestr("sglang/srt/server_args.py", text)
        archive.writestr("sglang/srt/environ.py", "SGLANG_KNOWN = EnvBool(False)\n")
        archive.writestr("sglang-1.0.dist-info/METADATA", "Name: sglang\nVersion: 1.0\n")
        archive.writestr("sglang-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
    return hashlib.sha256((folder / name).read_bytes()).hexdigest()


def stack(tmp_path: Path, *digests: str) -> dict[str, Any]:
    lock = tmp_path / "site-py312.lock"
    lock.write_text("sglang==1.0" + "".join(f" --hash=sha256:{d}" for d in digests) + "\n")
    return {"sglang": "1.0", "locks": {"3.12": {"path": str(lock), "sha256": "x"}}}


def look_up(terms: list[Any], **options: Any) -> dict[str, Any]:
    plugin: Any = launch_findings.LookupModule()
    plugin._load_name = "sm120.sglang.launch_findings"
    described = yaml.safe_load(launch_findings.DOCUMENTATION)["options"]
    constants.config.initialize_plugin_configuration_definitions(
        "lookup", plugin._load_name, described
    )
    (found,) = plugin.run(terms, {}, **options)
    result: dict[str, Any] = found
    return result


def test_the_launch_is_judged_by_the_wheel_of_the_lock(tmp_path: Path) -> None:
    house = tmp_path / "house"
    digest = wheel(house / "site-py312-0123")
    found = look_up(
        [stack(tmp_path, digest)],
        words=["--model-path", "m", "--tp-size", "x", "--old"],
        environment={"SGLANG_KNOWN": "1", "SGLANG_KNWON": "1"},
        wheelhouse=str(house),
        history={"arguments": {"old": {"last": "0.9", "successor": "--new"}}},
    )
    assert found["wheel"] == str(house / "site-py312-0123/sglang-1.0-py3-none-any.whl")
    assert [(row["argument"], row["kind"], row["severity"]) for row in found["findings"]] == [
        ("--tp-size", "bad_value", "error"),
        ("--old", "renamed", "error"),
        ("SGLANG_KNWON", "advice", "warn"),
    ]


def test_a_second_spelling_of_what_the_role_sets_is_an_error(tmp_path: Path) -> None:
    digest = wheel(tmp_path / "house/a")
    found = look_up(
        [stack(tmp_path, digest)],
        words=["--model-path", "m", "--tp", "2", "--tp-size", "1"],
        wheelhouse=str(tmp_path / "house"),
    )
    errors = [row for row in found["findings"] if row["severity"] == "error"]
    assert [(row["argument"], row["remedy"]) for row in errors] == [("--tp", "set engine_tp_size")]


def test_no_remedy_leads_into_what_a_rule_speaks_against(tmp_path: Path) -> None:
    text = SERVER_ARGS + '        parser.add_argument("--old", help="[Deprecated] Use --worse.")\n'
    digest = wheel(tmp_path / "house/a", text)
    rule = {
        "id": "r", "argument": "old", "verdict": "fatal", "reason": "it ends", "source": "a#1",
        "remedy": "remove it", "hardware": "sm120",
    }  # fmt: skip
    words = ["--model-path", "m", "--old", "1"]
    for rules, remedy in (([], "use --worse"), ([rule], "")):
        house = str(tmp_path / "house")
        found = look_up([stack(tmp_path, digest)], words=words, wheelhouse=house, rules=rules)
        assert [row["remedy"] for row in found["findings"]] == [remedy]


def test_what_was_judged_is_kept_until_wheel_launch_code_or_python_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = tmp_path / "house"
    digest = wheel(house / "a")
    options: dict[str, Any] = {"words": ["--old"], "wheelhouse": str(house)}
    wanted = stack(tmp_path, digest)
    first = look_up([wanted], **options)
    with monkeypatch.context() as patched:
        # Read only where it has to be judged anew.
        patched.delattr(launch_findings, "read_parser")
        assert look_up([wanted], **options) == first
        with pytest.raises(NameError):
            look_up([wanted], **{**options, "words": ["--config", "c"]})
        with pytest.raises(NameError):
            look_up([wanted], **options, environment={"SGLANG_X": "1"})
        patched.setattr(launch_findings, "own_files", lambda: [["changed"]])
        with pytest.raises(NameError):
            look_up([wanted], **options)
    # Another Python on the controller may read the release's source in another way.
    with monkeypatch.context() as patched:
        patched.delattr(launch_findings, "read_parser")
        assert look_up([wanted], **options) == first
        for other in ((*sys.version_info[:2], 99), (3, 99, 0)):
            patched.setattr(sys, "version_info", other)
            with pytest.raises(NameError):
                look_up([wanted], **options)
    again = wheel(house / "a", SERVER_ARGS + '        parser.add_argument("--old")\n')
    assert look_up([wanted], **options)["wheel"] == ""  # not the lock's any more
    assert look_up([stack(tmp_path, again)], **options)["findings"] != first["findings"]


def test_another_wheel_of_the_same_name_is_not_taken(tmp_path: Path) -> None:
    house = tmp_path / "house"
    wheel(house / "other", SERVER_ARGS + "# changed\n")
    options: dict[str, Any] = {"words": ["--model-path", "m"], "wheelhouse": str(house)}
    assert look_up([stack(tmp_path, "0" * 64)], **options) == {"wheel": "", "findings": []}
    # A lock without a digest names no particular file.
    assert look_up([stack(tmp_path)], **options)["wheel"] != ""


def test_a_wheelhouse_that_is_not_there_has_no_wheel(tmp_path: Path) -> None:
    found = look_up([stack(tmp_path, "0" * 64)], words=[], wheelhouse=str(tmp_path / "none"))
    assert found == {"wheel": "", "findings": []}


def test_a_release_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    digest = wheel(tmp_path / "house/a", "class Other: pass\n")
    with pytest.raises(AnsibleLookupError, match=r"SGLang 1\.0: .*has no ServerArgs"):
        look_up([stack(tmp_path, digest)], words=[], wheelhouse=str(tmp_path / "house"))
