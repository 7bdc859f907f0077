# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible import constants
from ansible.errors import AnsibleLookupError
from ansible_collections.sm120.sglang.plugins.lookup import patch_forecast

ENTRY = {
    "id": "twelve",
    "title": "Twelve is known",
    "file": "srt/sizes.py",
    "rule": {
        "kind": "ensure_dict_entry",
        "table": "SIZES",
        "key": 12,
        "like": 10,
        "lookups": ["srt/sizes.py"],
    },
}
LACKING = "SIZES = {9: 1, 10: 2}\n\n\ndef size(key):\n    return SIZES[key]\n"


def wheel(folder: Path, text: str) -> str:
    path = folder / "sglang-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("sglang/__init__.py", "")
        archive.writestr("sglang/srt/sizes.py", text)
        archive.writestr("sglang-1.0.dist-info/METADATA", "Name: sglang\nVersion: 1.0\n")
        archive.writestr("sglang-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
    return str(path)


def look_up(path: str, **options: Any) -> list[dict[str, Any]]:
    plugin: Any = patch_forecast.LookupModule()
    plugin._load_name = "sm120.sglang.patch_forecast"
    described = yaml.safe_load(patch_forecast.DOCUMENTATION)["options"]
    constants.config.initialize_plugin_configuration_definitions(
        "lookup", plugin._load_name, described
    )
    (found,) = plugin.run([path], {}, **{"catalogue": [ENTRY], "patches": ["twelve"], **options})
    result: list[dict[str, Any]] = found
    return result


def test_what_a_release_lacks_will_be_edited(tmp_path: Path) -> None:
    (found,) = look_up(wheel(tmp_path, LACKING))
    assert (found["id"], found["state"], found["changed"]) == ("twelve", "needed", True)
    assert "SIZES has no key 12" in found["reason"]


def test_what_a_release_has_stays_as_it_is(tmp_path: Path) -> None:
    (found,) = look_up(wheel(tmp_path, LACKING.replace("10: 2", "10: 2, 12: 3")))
    assert (found["state"], found["changed"]) == ("upstream", False)


def test_the_policy_decides_where_the_release_copes(tmp_path: Path) -> None:
    path = wheel(tmp_path, LACKING.replace("SIZES[key]", "SIZES.get(key)"))
    found = [look_up(path, policy=policy)[0] for policy in ("missing", "needed_only")]
    assert {one["state"] for one in found} == {"obsolete"}
    assert [one["changed"] for one in found] == [True, False]


def test_no_wheel_no_forecast() -> None:
    assert look_up("") == []


def test_only_wanted_patches(tmp_path: Path) -> None:
    other = {**ENTRY, "id": "other"}
    found = look_up(wheel(tmp_path, LACKING), catalogue=[other, ENTRY])
    assert [one["id"] for one in found] == ["twelve"]


@pytest.mark.parametrize(
    ("options", "says"),
    [({"patches": ["elf"]}, "elf"), ({"catalogue": [{**ENTRY, "rule": {}}]}, "rule")],
)
def test_bad_input(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(AnsibleLookupError, match=says):
        look_up(wheel(tmp_path, LACKING), **options)


def test_a_damaged_wheel(tmp_path: Path) -> None:
    path = tmp_path / "sglang-1.0-py3-none-any.whl"
    path.write_bytes(b"no zip")
    with pytest.raises(AnsibleLookupError, match=r"sglang-1\.0"):
        look_up(str(path))
