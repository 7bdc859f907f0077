# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.sm120.sglang.plugins.action.upload import Progress, batches
from hypothesis import given, settings
from hypothesis import strategies as st

REPOSITORY = Path(__file__).parents[4]


@settings(max_examples=80)
@given(st.lists(st.integers(0, 40), max_size=80), st.integers(1, 60))
def test_batches_bound_space_and_keep_order(sizes: list[int], limit: int) -> None:
    names = [f"f{number}" for number in range(len(sizes))]
    by_name = dict(zip(names, sizes, strict=True))
    cut = list(batches(names, by_name, limit))
    assert [name for batch in cut for name in batch] == names
    for batch in cut:
        assert 1 <= len(batch) <= 32
        assert len(batch) == 1 or sum(by_name[name] for name in batch) <= limit
    # No batch could have taken the next file as well.
    for batch, following in pairwise(cut):
        full = sum(by_name[name] for name in [*batch, following[0]]) > limit
        assert full or len(batch) == 32


def test_the_usual_batch_is_a_gibibyte() -> None:
    sizes = dict.fromkeys("abc", 400 << 20)
    assert list(batches(list("abc"), sizes)) == [["a", "b"], ["c"]]


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 30)), min_size=1, max_size=60))
def test_progress_is_said_in_time_but_not_for_each_file(files: list[tuple[int, float]]) -> None:
    now, said = 0.0, [0.0]
    progress = Progress([size for size, _ in files], lambda: now)
    for number, (size, seconds) in enumerate(files, start=1):
        now += seconds
        line = progress.brought(size)
        assert bool(line) is (now - said[-1] >= 5.0 or number == len(files))
        said += [now] if line else []
    assert f"{len(files)} of {len(files)} files" in line


def play(tmp_path: Path, tasks: list[dict[str, Any]]) -> dict[str, Any]:
    """Run tasks for real over Ansible's local connection; what they registered comes back."""
    names = [task["register"] for task in tasks]
    content = "{{ {" + ", ".join(f"'{name}': {name}" for name in names) + "} | to_json }}"
    write = {"ansible.builtin.copy": {"dest": str(tmp_path / "results.json"), "content": content}}
    book = [{"hosts": "all", "gather_facts": False, "tasks": [*tasks, write]}]
    (tmp_path / "play.yml").write_text(yaml.safe_dump(book))
    (tmp_path / "ansible.cfg").touch()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
        "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / "collections"),
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_REMOTE_TMP": str(tmp_path / "remote"),
        "ANSIBLE_LOCAL_TEMP": str(tmp_path / "local"),
    }
    command = [sys.executable, "-m", "ansible", "playbook", "-i", "node,", "-c", "local"]
    done = subprocess.run(
        [*command, str(tmp_path / "play.yml")],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "output").write_text(done.stdout)
    results: dict[str, Any] = json.loads((tmp_path / "results.json").read_text())
    return results


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """One play with every case: Ansible's start costs more than the cases."""
    place = tmp_path_factory.mktemp("upload")
    (place / "src/d").mkdir(parents=True)
    (place / "dest").mkdir()
    files = {"config.json": b"{}", "d/model.bin": bytes(3_000_000), "here.bin": b"right"}
    for name, content in files.items():
        (place / "src" / name).write_bytes(content)
    described = [
        {"name": name, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        for name, content in files.items()
    ]
    (place / "dest/here.bin").write_bytes(b"wrong")  # of the right size
    absent = {"name": "absent.bin", "sha256": "0" * 64, "size": 1}
    lying = {"name": "lying.bin", "sha256": hashlib.sha256(b"right").hexdigest(), "size": 5}
    (place / "src/lying.bin").write_bytes(b"other")
    (place / "dest/lying.bin").write_bytes(b"wrong")

    def task(register: str, more: list[dict[str, Any]], **keywords: Any) -> dict[str, Any]:
        arguments = {"src": str(place / "src"), "dest": str(place / "dest")}
        return {
            "sm120.sglang.upload": {**arguments, "files": [*described, *more]},
            "register": register,
            **keywords,
        }

    results = play(
        place,
        [
            task("check", [], check_mode=True),
            task("absent", [absent], ignore_errors=True),
            # One without pipelining: then Ansible puts modules on the node as files.
            task("first", [], vars={"ansible_pipelining": False}),
            task("again", []),
            task("lying", [lying], ignore_errors=True),
        ],
    )
    return place, results


ALL = ["config.json", "d/model.bin", "here.bin"]


@pytest.mark.parametrize(
    ("name", "changed", "uploaded"),
    [
        ("check", True, ALL),
        ("first", True, ALL),  # so that check mode and the failed run brought nothing
        ("again", False, []),
    ],
)
def test_each_run_of_an_upload(
    run: tuple[Path, dict[str, Any]], name: str, changed: bool, uploaded: list[str]
) -> None:
    result = run[1][name]
    assert (result["changed"], result["uploaded"], result.get("failed", False)) == (
        changed,
        uploaded,
        False,
    )


def test_files_arrive_whole_and_progress_is_shown(run: tuple[Path, dict[str, Any]]) -> None:
    place = run[0]
    for name in ALL:
        assert (place / "dest" / name).read_bytes() == (place / "src" / name).read_bytes()
    said = [line for line in (place / "output").read_text().splitlines() if "MiB" in line]
    assert said[0].startswith("[node]     ")
    # The other one is of the upload that is refused below.
    assert [line.partition("s  ")[2] for line in said] == [
        "brought 3 of 3 MiB, 3 of 3 files",
        "brought 0 of 0 MiB, 1 of 1 files",
    ]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("absent", ["src/absent.bin: not on the controller, but node needs it"]),
        ("lying", ["lying.bin: arrived with sha256", "Check the source file"]),
    ],
)
def test_what_is_wrong_is_named(
    run: tuple[Path, dict[str, Any]], name: str, parts: list[str]
) -> None:
    assert run[1][name]["failed"]
    for part in parts:
        assert part in run[1][name]["msg"]


def test_nothing_wrong_has_a_wanted_name(run: tuple[Path, dict[str, Any]]) -> None:
    place = run[0]
    assert (place / "dest/lying.bin").read_bytes() == b"wrong"  # the damaged one is not better
    assert not list((place / "dest").rglob("*.partial"))


def test_no_temporary_file_stays(run: tuple[Path, dict[str, Any]]) -> None:
    assert not [path for path in (run[0] / "remote").rglob("*") if path.is_file()]
