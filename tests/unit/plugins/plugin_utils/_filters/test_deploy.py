# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.sm120.sglang.plugins.filter import every
from ansible_collections.sm120.sglang.plugins.module_utils import _changes, _launch, _stack
from ansible_collections.sm120.sglang.plugins.plugin_utils._filters import (
    deploy,
    host,
    launch,
    pairing,
    status,
)
from hypothesis import given, settings
from hypothesis import strategies as st

REPOSITORY = Path(__file__).parents[5]
FILTERS = {
    name: function
    for module in (deploy, host, launch, pairing, status)
    for name, function in module.filters().items()
}
STACK: dict[str, Any] = {
    "name": "site",
    "description": "A stack",
    "accelerator": "cpu",
    "sglang": "0.5.9",
    "torch": "2.13.0",
    "transformers": "4.57.6",
    "kernels": "sgl-kernel==0.3.21",
    "python": ["3.12", "3.11"],  # a list, as templating hands it over
    "glibc": "2.28",
    "unhashed": {},
    "locks": {
        "3.12": {"path": "/a", "sha256": "1"},
        "3.11": {"path": "/b", "sha256": "2"},
    },
}


def test_every_filter_that_a_role_uses_exists() -> None:
    used: set[str] = set()
    for path in [*REPOSITORY.glob("roles/**/*.yml"), *REPOSITORY.glob("roles/**/*.j2")]:
        used |= set(re.findall(r"(?:\||map\(')\s*sm120\.sglang\.(\w+)", path.read_text()))
    assert used
    assert used <= set(every.every())


def test_every_filter_is_used() -> None:
    folders = ("roles", "playbooks", "molecule", "inventories")
    texts = [
        path.read_text()
        for folder in folders
        for path in (REPOSITORY / folder).rglob("*")
        if path.suffix in (".yml", ".j2")
    ]
    unused = [
        name
        for name in sorted(set(every.every()))
        if not any(f"sm120.sglang.{name}" in text for text in texts)
    ]
    assert unused == []


@pytest.mark.parametrize(
    "call",
    [
        lambda: FILTERS["render_arguments"]({"--tp": 1}),
        lambda: FILTERS["dash_names"]({"a_b": 1, "a-b": 2}),
        lambda: FILTERS["context_decision"]({"max_position_embeddings": 5}, None, 6),
        lambda: FILTERS["catalogue_digest"]([{"id": "x"}], ["x"], "missing"),
    ],
)
def test_a_deciders_error_is_a_message_without_a_traceback(call: Callable[[], Any]) -> None:
    with pytest.raises(AnsibleFilterError) as error:
        call()
    assert str(error.value)
    known = {"LaunchError", "StackError", "CatalogueError"}
    assert type(error.value.__context__).__name__ in known
    # ansible-core adds a cause's words to the message's own, which has them already.
    assert error.value.__suppress_context__


def test_the_context_decision_comes_back_to_the_environment() -> None:
    target, draft = {"max_position_embeddings": 4096}, {"max_position_embeddings": 2048}
    decision = FILTERS["context_decision"](target, draft)
    assert (decision["target"], decision["draft"], decision["override"]) == (4096, 2048, True)
    environment = FILTERS["launch_environment"]({"B": 1, "A": True}, decision)
    assert environment == {"A": "1", "B": "1", _launch.CONTEXT_OVERRIDE: "1"}
    without = FILTERS["context_decision"](target, None, 1000)
    assert (without["target"], without["draft"]) == (1000, None)
    assert FILTERS["launch_environment"]({}, without) == {}


def test_a_release_id_for_each_python() -> None:
    local = {"a.whl": "3"}
    ids = FILTERS["release_ids"](STACK, "patches", local)
    parsed = deploy._stack_of(STACK)
    assert ids == {
        "3.12": _stack.release_id(parsed, "3.12", "1", "patches", local),
        "3.11": _stack.release_id(parsed, "3.11", "2", "patches", local),
    }
    assert len(set(ids.values())) == 2


def test_choosing_a_python_never_fails_the_play() -> None:
    assert FILTERS["choose_python"](STACK, {"3.11": "/usr/bin/python3.11"}) == {
        "version": "3.11",
        "path": "/usr/bin/python3.11",
        "error": "",
    }
    refused = FILTERS["choose_python"](STACK, {"3.10": "/usr/bin/python3.10"})
    assert (refused["version"], refused["path"]) == ("", "")
    assert "the node has 3.10" in refused["error"]


def test_a_command_line_has_an_argument_a_line() -> None:
    words = ["/opt/python", "-m", "sglang.launch_server", "--tp-size", "8", "--flag", "--x", "a b"]
    assert FILTERS["systemd_command"](words) == (
        '/opt/python -m sglang.launch_server \\\n  --tp-size 8 \\\n  --flag \\\n  --x "a b"'
    )


WORDS = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_categories=["Cc"]))


@settings(max_examples=80)
@given(st.lists(WORDS | WORDS.map(lambda word: "--" + word), max_size=6))
def test_a_command_line_is_read_as_it_was_meant(words: list[str]) -> None:
    """systemd joins lines, splits like a shell in double quotes, and halves % and $."""
    line = FILTERS["systemd_command"](["/opt/python", *words]).replace(" \\\n  ", " ")
    assert "\n" not in line
    read = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line)]
    assert read == ["/opt/python", *words]
    # Nothing is left for systemd to expand.
    assert not re.search(r"(?<!%)(%%)*%(?!%)", line)
    assert not re.search(r"(?<!\$)(\$\$)*\$(?!\$)", line)


def test_the_controllers_config_wins_over_the_nodes() -> None:
    models = [
        {"name": "a", "config": {"from": "controller"}},
        {"name": "b", "config": None},
        {"name": "c", "config": None},
    ]
    node = {
        "a": {"config": {"from": "node"}},
        "b": {"config": {"from": "node"}},
        "c": {"config": None},
    }
    assert FILTERS["model_configs"](models, node) == [
        {"from": "controller"},
        {"from": "node"},
        {},
    ]


def test_files_get_the_digest_of_their_content() -> None:
    files = [{"path": "/x", "content": "größe\n"}]
    assert FILTERS["with_digests"](files) == [
        {**files[0], "sha256": hashlib.sha256("größe\n".encode()).hexdigest()}
    ]


def test_only_what_upload_takes_is_left() -> None:
    wheel = {"package": "a", "name": "a.whl", "sha256": "0", "size": 1}
    assert FILTERS["file_descriptions"]([wheel]) == [{"name": "a.whl", "sha256": "0", "size": 1}]


def test_a_patch_line_for_people() -> None:
    patch = {"state": "needed", "changed": True, "reason": "three methods are missing"}
    assert FILTERS["patch_line"](patch) == "needed (edited): three methods are missing"
    assert FILTERS["patch_line"]({**patch, "state": "upstream", "changed": False}) == (
        "upstream: three methods are missing"
    )


def test_the_shipped_catalogue_has_a_remedy_for_each_missing_method() -> None:
    text = (REPOSITORY / "roles/source_patches/files/catalogue.yml").read_text()
    remedies = FILTERS["patch_remedies"](yaml.safe_load(text))
    crash = "'KimiK25ForConditionalGeneration' object has no attribute 'get_embed_and_head'"
    found = [entry["remedy"] for entry in remedies if re.search(entry["pattern"], crash)]
    assert len(found) == 1
    assert "kimi_k25_eagle3_delegation" in found[0]
    assert not [entry for entry in remedies if re.search(entry["pattern"], "no attribute 'x'")]


def test_the_plan_names_what_a_launch_changes_and_no_secret() -> None:
    unit = "[Service]\nExecStart=python -m sglang.launch_server \\\n  --tp-size {}\n"
    paths = {"/etc/systemd/system/x.service": unit.format(4), "/etc/sglang/engine.env": 'A="1"\n'}
    key = {"path": "/etc/sglang/secrets.yaml", "content": "api-key: hunter2", "sha256": "1"}
    files = [*({"path": path, "content": text} for path, text in paths.items()), key]
    configured = _changes.read({"x.service": unit.format(8), "engine.env": ""})
    node: dict[str, Any] = {
        "configured": configured,
        "files": {"/etc/sglang/secrets.yaml": {"exists": True, "sha256": "2"}},
        "releases": {"current": "r1"},
    }
    assert deploy.launch_changes(node, files, "r2") == [
        "--tp-size 8 -> 4",
        "+ A=1",
        "the API key changed (secret)",
    ]
    node["files"] = {"/etc/sglang/secrets.yaml": {"exists": True, "sha256": "1"}}
    assert deploy.launch_changes(node, files, "r2") == ["--tp-size 8 -> 4", "+ A=1"]
    # A node without configuration has nothing that could change.
    bare = {**node, "configured": _changes.read({}), "files": {}}
    assert deploy.launch_changes(bare, files, "r2") == []


def test_what_the_engine_restarts_for() -> None:
    plan = {
        "engine_release": [{"item": "release r2", "reason": "not on this node", "restart": True}],
        "engine": [
            {"item": "/etc/x", "reason": "missing", "restart": False},
            {"item": "engine", "reason": "is inactive", "restart": True},
        ],
    }
    assert FILTERS["restart_reasons"](plan) == ["release r2 not on this node", "engine is inactive"]
    assert FILTERS["restart_reasons"]({"engine": []}) == []
