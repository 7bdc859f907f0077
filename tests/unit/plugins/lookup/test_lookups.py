# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible import constants
from ansible.errors import AnsibleLookupError
from ansible_collections.sm120.sglang.plugins.lookup import model as model_lookup
from ansible_collections.sm120.sglang.plugins.lookup import role_variables, wheel_digests
from ansible_collections.sm120.sglang.plugins.lookup import stack as stack_lookup
from ansible_collections.sm120.sglang.plugins.module_utils import _stack, _verified

REPOSITORY = Path(__file__).parents[4]


LOOKUPS = {
    "model": model_lookup,
    "role_variables": role_variables,
    "stack": stack_lookup,
    "wheel_digests": wheel_digests,
}


def look_up(name: str, terms: list[Any], **options: Any) -> list[Any]:
    """Run a lookup with the options that its documentation describes, as Ansible does."""
    module = LOOKUPS[name]
    plugin: Any = module.LookupModule()
    plugin._load_name = f"sm120.sglang.{name}"
    described = yaml.safe_load(module.DOCUMENTATION)["options"]
    constants.config.initialize_plugin_configuration_definitions(
        "lookup", plugin._load_name, described
    )
    found: list[Any] = plugin.run(terms, {}, **options)
    return found


STACK = {
    "name": "site",
    "description": "A stack",
    "accelerator": "cpu",
    "sglang": "1.0",
    "torch": "2.13.0+cpu",
    "transformers": "4.57.6",
    "kernels": "sgl-kernel==0.3.21",
    "python": ["3.12", "3.11"],
    "glibc": "2.28",
}
DIGEST = "a" * 64
LOCK = "".join(
    f"{pin} --hash=sha256:{DIGEST}\n"
    for pin in ("sglang==1.0", "torch==2.13.0+cpu", "transformers==4.57.6", "sgl-kernel==0.3.21")
)


@pytest.fixture
def stacks(tmp_path: Path) -> Path:
    (tmp_path / "site.yml").write_text(yaml.safe_dump(STACK))
    for python in ("311", "312"):
        (tmp_path / f"site-py{python}.lock").write_text(LOCK)
    return tmp_path


def test_a_stack_with_its_locks(stacks: Path) -> None:
    stack = look_up("stack", ["site"], folders=[str(stacks)])[0]
    assert {key: stack[key] for key in ("name", "sglang", "python", "unhashed")} == {
        "name": "site",
        "sglang": "1.0",
        "python": ("3.12", "3.11"),
        "unhashed": {},
    }
    digest = hashlib.sha256(LOCK.encode()).hexdigest()
    assert stack["locks"] == {
        python: {"path": str(stacks / f"site-py{name}.lock"), "sha256": digest}
        for python, name in (("3.12", "312"), ("3.11", "311"))
    }


def test_the_first_folder_that_has_it_wins(stacks: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    for path in stacks.glob("site*"):
        (own / path.name).write_bytes(path.read_bytes())
    folders = [str(tmp_path / "nowhere"), str(own), str(stacks)]
    stack = look_up("stack", ["site"], folders=folders)[0]
    assert stack["locks"]["3.11"]["path"] == str(own / "site-py311.lock")


def break_stack(stacks: Path, change: dict[str, Any]) -> None:
    (stacks / "site.yml").write_text(yaml.safe_dump({**STACK, **change}))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "sites",
            None,
            r"unknown stack 'sites' \(did you mean site\?\); known: site; .*stack_fold",
        ),
        ("zzz", None, r"unknown stack 'zzz'; known: site"),
        ("site", {"name": "other"}, r"site\.yml: its name is 'other'"),
        ("site", {"torch": 2.1}, r"site\.yml: torch must be text in quotes"),
        ("site", {"python": ["3.13"]}, r"site-py313\.lock: missing; make it with `make lock STACK"),
        (
            "site",
            {"torch": "2.12.0+cpu"},
            r"stack site names torch 2\.12\.0\+cpu, site-py312\.lock pins 2\.13\.0",
        ),
        ("site", {"accelerator": "cuda", "cuda": 13, "minimum_driver": "580"}, "CUDA 13 x torch"),
    ],
)
def test_a_bad_stack_is_named(
    stacks: Path, name: str, change: dict[str, Any] | None, message: str
) -> None:
    if change:
        break_stack(stacks, change)
    with pytest.raises(AnsibleLookupError, match=message):
        look_up("stack", [name], folders=[str(stacks)])


def test_a_stack_that_is_no_yaml(stacks: Path) -> None:
    (stacks / "site.yml").write_text("a: [")
    with pytest.raises(AnsibleLookupError, match="while parsing"):
        look_up("stack", ["site"], folders=[str(stacks)])


def test_without_any_stack(tmp_path: Path) -> None:
    with pytest.raises(AnsibleLookupError, match="unknown stack 'site'; known: none"):
        look_up("stack", ["site"], folders=[str(tmp_path)])


def test_a_bad_lock_is_named_with_its_line(stacks: Path) -> None:
    (stacks / "site-py311.lock").write_text(LOCK + "torch>=2\n")
    with pytest.raises(AnsibleLookupError, match=r"site-py311\.lock:5: not 'name==version'"):
        look_up("stack", ["site"], folders=[str(stacks)])


def test_the_shipped_stacks_are_found_by_name() -> None:
    folder = REPOSITORY / "roles/engine_release/files/stacks"
    for path in folder.glob("*.yml"):
        stack = look_up("stack", [path.stem], folders=[str(folder)])[0]
        assert set(stack["locks"]) == set(stack["python"])
        # A round trip over the filters' view of it: nothing is lost.
        assert _stack.Stack(**{k: v for k, v in stack.items() if k != "locks"}).name == path.stem


@pytest.fixture
def model(tmp_path: Path) -> dict[str, Any]:
    source = tmp_path / "source"
    source.mkdir()
    (source / "config.json").write_text('{"architectures": ["Kimi"]}')
    (source / "model.safetensors").write_bytes(bytes(100))
    manifest = {
        path.name: {"sha256": _verified.sha256_file(path), "size": path.stat().st_size}
        for path in source.iterdir()
    }
    (source / "manifest.json").write_text(json.dumps(manifest))
    return {
        "name": "kimi",
        "revision": "1",
        "source": {"path": str(source), "on": "controller"},
    }


def test_a_model_on_the_controller(model: dict[str, Any]) -> None:
    found = look_up("model", [model], root="/srv/models")[0]
    source = Path(model["source"]["path"])
    assert found["path"] == "/srv/models/kimi/1"
    assert found["record"] == "/srv/models/kimi/.1.verified.json"
    assert [entry["name"] for entry in found["files"]] == ["config.json", "model.safetensors"]
    assert found["size"] == 100 + (source / "config.json").stat().st_size
    assert found["config"] == {"architectures": ["Kimi"]}
    manifest = (source / "manifest.json").read_bytes()
    assert found["manifest_sha256"] == hashlib.sha256(manifest).hexdigest()


def test_a_model_on_the_node_has_its_manifest_here(model: dict[str, Any], tmp_path: Path) -> None:
    manifest = Path(model["source"]["path"], "manifest.json").rename(tmp_path / "kimi.json")
    spec = {**model, "source": {"path": "/srv/Kimi", "on": "node"}, "manifest": str(manifest)}
    found = look_up("model", [spec], root="/srv/models")[0]
    assert found["source"] == {"on": "node", "path": "/srv/Kimi"}
    assert (found["config"], len(found["files"])) == (None, 2)


def test_a_revision_may_be_a_whole_number(model: dict[str, Any]) -> None:
    found = look_up("model", [{**model, "revision": 20260101}], root="/m")[0]
    assert (found["revision"], found["path"]) == ("20260101", "/m/kimi/20260101")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "a/b"}, "name 'a/b' must be letters, digits"),
        ({"name": ""}, "name '' must be"),
        ({"name": "../x"}, "must be letters"),
        ({"name": "a\n"}, "must be letters"),
        ({"revision": None}, "revision None must be"),
        ({"revision": 1.1}, "revision 1.1 must be letters, digits, . _ - (in quotes)"),
        ({"revision": True}, "revision True must be"),
        ({"source": None}, "model kimi: source is a mapping"),
        ({"source": "/srv/models"}, "model kimi: source is a mapping with 'path' and 'on'"),
        ({"source": {"on": "node"}}, "source is a mapping with 'path' and 'on'"),
        ({"source": {"path": "/x"}}, "source needs 'on', controller or node"),
        ({"source": {"path": "/x", "on": "disk"}}, "source needs 'on', controller or node"),
        ({"source": {"path": "/x", True: "node"}}, 'write the key "on" in quotes'),
        ({"manifets": "/x"}, "model kimi: unknown manifets"),
        ({"source": {"path": "/no/where", "on": "node"}}, "/no/where/manifest.json: No such file"),
        ({"manifest": "/no/where.json"}, "/no/where.json: No such file or directory. A model is"),
    ],
)
def test_a_bad_model_is_named(model: dict[str, Any], change: dict[str, Any], message: str) -> None:
    with pytest.raises(AnsibleLookupError, match=re.escape(message)):
        look_up("model", [{**model, **change}], root="/m")


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("manifest.json", "{", "manifest.json or config.json: Expecting"),
        ("manifest.json", "{}", "manifest.json: a manifest maps file names"),
        ("manifest.json", '{"a": {"sha256": "0", "size": 1}}', "a: '0' is not a sha256"),
        ("config.json", "{", "config.json: Expecting"),
    ],
)
def test_a_damaged_source_is_named(
    model: dict[str, Any], file: str, text: str, message: str
) -> None:
    Path(model["source"]["path"], file).write_text(text)
    with pytest.raises(AnsibleLookupError, match=re.escape(message)):
        look_up("model", [model], root="/m")


def test_a_model_without_config(model: dict[str, Any]) -> None:
    Path(model["source"]["path"], "config.json").unlink()
    with pytest.raises(AnsibleLookupError, match=r"model kimi: .*config\.json: No such file"):
        look_up("model", [model], root="/m")


def test_role_variables_are_those_of_the_argument_specs() -> None:
    names = look_up("role_variables", ["engine", "preflight"], folder=str(REPOSITORY / "roles"))
    assert {"engine_port", "engine_api_key", "preflight_systems"} <= set(names)
    assert not [name for name in names if not name.startswith(("engine_", "preflight_"))]
    assert "preflight_systems" not in look_up(
        "role_variables", ["engine"], folder=str(REPOSITORY / "roles")
    )


def test_wheels_are_digested(tmp_path: Path) -> None:
    (tmp_path / "b.whl").write_bytes(b"b")
    (tmp_path / "a.whl").write_bytes(b"a")
    (tmp_path / "a.txt").write_bytes(b"x")
    assert look_up("wheel_digests", [str(tmp_path)]) == [
        {name: hashlib.sha256(name[:1].encode()).hexdigest() for name in ("a.whl", "b.whl")}
    ]
    assert look_up("wheel_digests", [""]) == [{}]


@pytest.mark.parametrize("folder", ["empty", "nowhere"])
def test_a_folder_without_wheels_is_refused(tmp_path: Path, folder: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(AnsibleLookupError, match=f"{folder}: no wheel there; build it"):
        look_up("wheel_digests", [str(tmp_path / folder)])
