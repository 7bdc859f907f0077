# SPDX-License-Identifier: Apache-2.0
"""What holds for the repository as a whole."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.sm120.sglang.plugins.module_utils import _coherence, _stack

REPOSITORY = Path(__file__).parents[2]
STACKS = REPOSITORY / "roles/engine_release/files/stacks"


def tracked() -> list[Path]:
    """Files that git knows or would take; a copy without git has none to check."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [REPOSITORY / name for name in done.stdout.split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def read_yaml(name: str) -> Any:
    return yaml.safe_load((REPOSITORY / name).read_text())


def test_the_collection_is_made_of_links_and_nothing_else() -> None:
    folder = REPOSITORY / "collections/ansible_collections/sm120/sglang"
    targets = {path.name: path.resolve() for path in folder.iterdir()}
    assert targets == {
        name: REPOSITORY / name
        for name in (
            "CHANGELOG.md",
            "LICENSE",
            "README.md",
            "galaxy.yml",
            "meta",
            "playbooks",
            "plugins",
            "roles",
        )
    }
    for path in folder.iterdir():
        assert path.is_symlink()
        assert not path.readlink().is_absolute()
        assert path.exists()
    for parent in (folder, folder.parent, folder.parent.parent):
        assert parent.is_dir()
        assert not parent.is_symlink()


def test_name_and_version_agree() -> None:
    galaxy = read_yaml("galaxy.yml")
    assert f"{galaxy['namespace']}.{galaxy['name']}" == "sm120.sglang"
    changelog = (REPOSITORY / "CHANGELOG.md").read_text()
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", changelog, re.MULTILINE)
    assert released[0] == galaxy["version"]
    assert galaxy["license"] == ["Apache-2.0"]
    assert (REPOSITORY / "LICENSE").read_text().strip().startswith("Apache License")


def test_the_collection_asks_for_the_ansible_that_is_installed() -> None:
    wanted = read_yaml("meta/runtime.yml")["requires_ansible"]
    line = re.search(
        r"^ansible-core(\S+)$", (REPOSITORY / "requirements.in").read_text(), re.MULTILINE
    )
    assert line is not None

    def bounds(text: str) -> list[tuple[str, str]]:
        found = re.findall(r"(>=|<)(\d+\.\d+)", text)
        return sorted(found)

    assert bounds(line[1]) == bounds(wanted) == [("<", "2.22"), (">=", "2.19")]


def test_the_package_takes_what_the_collection_links() -> None:
    directives = read_yaml("galaxy.yml")["manifest"]["directives"]
    taken = {word for line in directives for word in line.split()[1:]}
    folder = REPOSITORY / "collections/ansible_collections/sm120/sglang"
    assert {path.name for path in folder.iterdir()} - {"galaxy.yml"} <= taken
    # Every kind of file in a role or beside a plugin travels.
    for part in ("roles", "plugins"):
        kinds = {path.suffix for path in tracked() if REPOSITORY / part in path.parents}
        line = next(line for line in directives if line.startswith(f"recursive-include {part}"))
        assert kinds <= {word.removeprefix("*") for word in line.split()[2:]}


def test_every_direct_dependency_is_locked_and_explained() -> None:
    lines = (REPOSITORY / "requirements.in").read_text().splitlines()
    names = [re.split(r"[<>=]", line)[0] for line in lines if line and not line.startswith("#")]
    assert len(names) == len(set(names))
    listing = (REPOSITORY / "docs/dependencies.md").read_text()
    entries = re.findall(r"^- (`[^:]+): (\S.*)$", listing, re.MULTILINE)
    explained = [name for entry, _ in entries for name in re.findall(r"`([^`]+)`", entry)]
    assert sorted(explained) == sorted(names)
    pins = re.findall(
        r"^([A-Za-z0-9._-]+)==\S+", (REPOSITORY / "requirements.txt").read_text(), re.MULTILINE
    )
    locked = {_stack.normalise(name) for name in pins}
    assert {_stack.normalise(name) for name in names} <= locked


def test_every_locked_package_has_digests() -> None:
    text = (REPOSITORY / "requirements.txt").read_text()
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert entries
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("path", sorted(STACKS.glob("*.yml")), ids=lambda path: path.stem)
def test_shipped_stacks_cohere(path: Path) -> None:
    stack = _stack.parse_stack(yaml.safe_load(path.read_text()), path.name)
    assert stack.name == path.stem
    assert (STACKS / f"{stack.name}.in").is_file()
    locks = set(STACKS.glob(f"{stack.name}-py*.lock"))
    assert {lock.stem.rpartition("-py")[2] for lock in locks} == {
        python.replace(".", "") for python in stack.python
    }
    for lock in locks:
        pins = _stack.parse_lock(lock.read_text(), lock.name)
        python = lock.stem.rpartition("-py")[2].replace("3", "3.", 1)
        assert _stack.check_coherence(stack, pins, lock.name) == []
        assert _coherence.check(stack, pins, python, lock.name) == []
        # The node installs with the lock's own uv.
        assert any(pin.name == "uv" for pin in pins)
    # The release has its facts, so its own pins were compared too.
    assert stack.sglang in _coherence.RELEASES


def test_no_stack_file_is_left_over() -> None:
    names = {path.stem for path in STACKS.glob("*.yml")}
    for path in STACKS.iterdir():
        assert (
            re.sub(r"(\.nodeps|\.overrides|\.off-index)?\.in$|-py\d+\.lock$|\.yml$", "", path.name)
            in names
        )


SHORT = {".py", ".yml", ".yaml", ".sh", ".j2"}


def test_every_file_can_be_read_in_one_sitting() -> None:
    recordings = REPOSITORY / "tests/recordings"
    long = {
        str(path.relative_to(REPOSITORY)): lines
        for path in tracked()
        if path.suffix in SHORT
        and recordings not in path.parents
        and (lines := path.read_bytes().count(b"\n")) > 400
    }
    assert long == {}


# A path in somebody's home or checkout; `~` and variables name such places for everybody.
PLACES = re.compile(r"(?<![\w.~}*)-])/(?:root|home|Users|work|mnt)/[\w.]+")


def test_no_file_names_a_place_of_one_machine() -> None:
    found = []
    for path in tracked():
        if REPOSITORY / "tests/recordings" in path.parents or path == Path(__file__):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(REPOSITORY)}: {match[0]}" for match in PLACES.finditer(text)]
        if str(REPOSITORY) in text and len(REPOSITORY.parts) > 2:
            found.append(f"{path.relative_to(REPOSITORY)}: {REPOSITORY}")
    assert found == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("cd /root/.cache/pip", True),
        ("cd /home/me/src", True),
        ("see '/root/x'", True),
        ("{{ x }}/root/usr", False),
        ("nodes/*/root/usr", False),
        ("folder/home/x", False),
        ("~/home/x", False),
    ],
)
def test_the_check_for_places_sees_them(text: str, named: bool) -> None:
    assert (PLACES.search(text) is not None) is named


def test_python_and_shell_say_their_license() -> None:
    for path in tracked():
        text = path.read_text(errors="replace") if path.suffix in {".py", ".sh"} else ""
        if text and REPOSITORY / "tests/recordings" not in path.parents:
            assert "SPDX-License-Identifier: Apache-2.0" in text[:200], path


def test_code_that_travels_uses_the_standard_library_alone() -> None:
    folder = REPOSITORY / "plugins/module_utils"
    own = "ansible_collections.sm120.sglang.plugins.module_utils"
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, path
                names = [node.module or ""]
            for name in names:
                standard = name.partition(".")[0] in sys.stdlib_module_names
                # A command for the controller, where Ansible brings PyYAML; no module imports it.
                standard |= (path.name, name) == ("release_report.py", "yaml")
                assert standard or name.startswith(own), f"{path}: {name}"


@pytest.mark.parametrize("kind", ["modules", "lookup"])
def test_every_plugin_documents_every_option(kind: str) -> None:
    for path in sorted((REPOSITORY / "plugins" / kind).glob("[a-z]*.py")):
        blocks = {
            node.targets[0].id: ast.literal_eval(node.value)
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id in {"DOCUMENTATION", "EXAMPLES", "RETURN"}
        }
        assert set(blocks) == {"DOCUMENTATION", "EXAMPLES", "RETURN"}, path
        document = yaml.safe_load(blocks["DOCUMENTATION"])
        assert document["module" if kind == "modules" else "name"] == path.stem
        for example in yaml.safe_load(blocks["EXAMPLES"]):
            assert example["name"][0].isupper(), path
        for name, option in document.get("options", {}).items():
            assert option["description"], f"{path}: {name}"


def test_ansible_doc_renders_every_module_lookup_and_callback() -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
        "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / "collections"),
    }
    for kind, folder in (("module", "modules"), ("lookup", "lookup"), ("callback", "callback")):
        names = [
            f"sm120.sglang.{path.stem}"
            for path in (REPOSITORY / f"plugins/{folder}").glob("[a-z]*")
        ]
        names = [name for name in names if not name.endswith("__")]
        done = subprocess.run(
            [sys.executable, "-m", "ansible", "doc", "-t", kind, "--json", *names],
            env=environment,
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert set(yaml.safe_load(done.stdout)) == set(names)
        assert "ERROR" not in done.stderr
