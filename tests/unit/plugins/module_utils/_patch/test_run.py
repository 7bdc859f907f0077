# SPDX-License-Identifier: Apache-2.0
"""Whole runs on a small release of the same shape as the real ones."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import (
    PatchError,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.manifest import sha256
from ansible_collections.sm120.sglang.plugins.module_utils._patch.run import Request, run

from tests.unit.plugins.module_utils._patch.small_release import (
    CATALOGUE,
    COMMUNICATOR,
    KIMI,
    KIMI_FILE,
    MODEL,
    SIZES,
    SIZES_FILE,
    WORLD,
    WORLD_FILE,
    go,
    make_release,
    snapshot,
    states,
)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return make_release(tmp_path)


def test_from_needed_to_applied_and_back(package: Path) -> None:
    before = snapshot(package.parent)
    assert set(states(go(package, check_mode=True)).values()) == {"needed"}
    assert snapshot(package.parent) == before
    made = go(package)
    assert made.changed
    assert set(states(made).values()) == {"needed"}
    assert all(outcome.changed and outcome.proof for outcome in made.outcomes)
    after = snapshot(package.parent)
    again = go(package)
    assert not again.changed
    assert set(states(again).values()) == {"applied"}
    assert [outcome.proof for outcome in again.outcomes] == [o.proof for o in made.outcomes]
    assert snapshot(package.parent) == after
    back = go(package, state="absent")
    assert back.changed
    assert snapshot(package.parent) == before
    assert not go(package, state="absent").changed


def test_the_diff_is_exactly_what_happens(package: Path) -> None:
    planned = go(package, check_mode=True)
    before = snapshot(package)
    made = go(package)
    assert planned.diff == made.diff
    for item in made.diff:
        name = str(Path(item["before_header"]).relative_to(package))
        assert item["before"].encode() == before[name]
        assert item["after"].encode() == (package / name).read_bytes()
    sums = {
        outcome.file: (outcome.sha256_before, outcome.sha256_after) for outcome in made.outcomes
    }
    for name, (old, new) in sums.items():
        assert old == sha256(before[name])
        assert new == sha256((package / name).read_bytes())


def test_the_proof_says_what_the_edit_does(package: Path) -> None:
    proofs = {outcome.id: outcome.proof or {} for outcome in go(package).outcomes}
    assert "KeyError: 12 in __init__" in proofs[SIZES]["summary"]
    assert "multicast is not supported" in proofs[SIZES]["summary"]
    assert proofs[WORLD]["after"][1]["result"] == "multimem_all_reduce_"
    assert set(proofs[KIMI]["inner"]) == {"DeepseekV3ForCausalLM"}
    assert go(package, prove="never").outcomes[0].proof == proofs[KIMI]
    fresh = go(package, prove="always").outcomes
    assert [outcome.proof for outcome in fresh] == [proofs[o.id] for o in fresh]


def test_the_real_class_is_asked_where_a_python_is_given(package: Path) -> None:
    proof = go(package, python=sys.executable, check_mode=True).outcomes[0].proof or {}
    assert proof["real_class"] == {
        "ran": True,
        "why": "",
        "inner": {"DeepseekV3ForCausalLM": list(proof["inner"]["DeepseekV3ForCausalLM"])},
    }
    assert "also on the real KimiK25" in proof["summary"]
    assert not list(package.rglob("__pycache__"))


@pytest.mark.parametrize(
    ("python", "model", "why"),
    [
        ("/nonexistent/python", MODEL, "cannot be run"),
        (sys.executable, "import no_such_module\n" + MODEL, "ModuleNotFoundError"),
        (sys.executable, "import os\nos._exit(3)\n" + MODEL, "ended with 3"),
    ],
)
def test_a_real_class_that_cannot_be_imported_is_no_error(
    tmp_path: Path, python: str, model: str, why: str
) -> None:
    package = make_release(tmp_path, **{KIMI_FILE: model})
    result = go(package, python=python, patches=[KIMI])
    proof = result.outcomes[0].proof or {}
    assert result.changed
    assert not proof["real_class"]["ran"]
    assert why in proof["real_class"]["why"]
    assert "real class not tried" in proof["summary"]


def test_another_installation_is_not_taken_for_the_release(tmp_path: Path) -> None:
    other = make_release(tmp_path / "other")
    package = make_release(tmp_path / "one").rename(tmp_path / "one" / "copy")
    environment = {"PYTHONPATH": str(other.parent)}
    result = go(package, python=sys.executable, python_environment=environment, patches=[KIMI])
    proof = result.outcomes[0].proof or {}
    assert not proof["real_class"]["ran"]
    assert f"it imports {other}" in proof["real_class"]["why"]


def test_a_real_class_that_behaves_otherwise_stops_the_run(tmp_path: Path) -> None:
    """What only running tells: the methods are taken away again at import."""
    model = MODEL + (
        "\n\nfrom sglang.srt.models.strip import strip\nstrip(KimiK25ForConditionalGeneration)\n"
    )
    strip = (
        "def strip(c):\n    for n in [n for n in vars(c) if 'embed' in n]:\n        delattr(c, n)\n"
    )
    package = make_release(tmp_path, **{KIMI_FILE: model, "srt/models/strip.py": strip})
    before = snapshot(tmp_path)
    with pytest.raises(PatchError, match=r"lacks get_embed_and_head, set_embed_and_head"):
        go(package, python=sys.executable)
    assert snapshot(tmp_path) == before


def test_an_edit_that_does_not_cure_stops_the_run(tmp_path: Path) -> None:
    """The table is right, and the communicator still dies of something else."""
    broken = COMMUNICATOR.replace("self.disabled = False", "self.disabled = self.missing")
    broken = broken.replace("multicast_ptr == 0", "multicast_ptr == 1")
    package = make_release(tmp_path, **{WORLD_FILE: broken})
    before = snapshot(tmp_path)
    with pytest.raises(PatchError, match=r"does not behave as promised.*AttributeError"):
        go(package, patches=[SIZES])
    assert snapshot(tmp_path) == before


def test_a_stub_that_does_not_fit_is_said_and_no_error(tmp_path: Path) -> None:
    strange = COMMUNICATOR.replace("import torch\n", "import torch\nfrom os import no_such_name\n")
    package = make_release(tmp_path, **{WORLD_FILE: strange})
    proof = go(package, patches=[SIZES]).outcomes[0].proof or {}
    assert proof["summary"].startswith("not run: the stub does not fit this release")


def test_one_conflict_and_nothing_is_changed(tmp_path: Path) -> None:
    package = make_release(tmp_path, **{SIZES_FILE: "from x import build\nT = build()\n"})
    before = snapshot(tmp_path)
    result = go(package)
    assert states(result) == {KIMI: "needed", SIZES: "conflict", WORLD: "needed"}
    assert SIZES in result.refused
    assert "not defined here" in result.refused
    assert CATALOGUE[1]["remedy"] in result.refused
    assert not result.changed
    assert not any(outcome.changed for outcome in result.outcomes)
    assert all(outcome.sha256_before == outcome.sha256_after for outcome in result.outcomes)
    assert snapshot(tmp_path) == before
    skipped = go(package, on_conflict="skip")
    assert not skipped.refused
    assert [outcome.changed for outcome in skipped.outcomes] == [True, False, True]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x = (", b"x = 1\n" * 2_000_000, b"x\x00"])
def test_a_damaged_file_is_a_conflict_with_its_cause(package: Path, content: bytes) -> None:
    (package / KIMI_FILE).write_bytes(content)
    result = go(package)
    assert states(result)[KIMI] == "conflict"
    assert KIMI_FILE in result.refused


def test_files_that_the_release_does_not_have(package: Path) -> None:
    (package / KIMI_FILE).unlink()
    outcome = go(package).outcomes[0]
    assert (outcome.state, outcome.changed) == ("absent", False)
    assert outcome.sha256_before is outcome.sha256_after is None


def test_obsolete_is_edited_unless_only_needs_are(tmp_path: Path) -> None:
    coping = COMMUNICATOR.replace(
        "[self.capability][self.world_size]", ".get(self.capability, {}).get(self.world_size, 2)"
    )
    coping = coping.replace("MULTIMEM[self.capability]", "MULTIMEM.get(self.capability, ())")
    package = make_release(tmp_path, **{WORLD_FILE: coping})
    only = go(package, policy="needed_only", check_mode=True)
    assert states(only) == {KIMI: "needed", SIZES: "obsolete", WORLD: "obsolete"}
    assert [outcome.changed for outcome in only.outcomes] == [True, False, False]
    assert CATALOGUE[1]["obsolete"] in only.outcomes[1].reason
    assert all(outcome.changed for outcome in go(package).outcomes)


class TestFilesOfARelease:
    def test_hard_links_of_a_package_cache_keep_their_bytes(self, tmp_path: Path) -> None:
        cache = make_release(tmp_path / "cache")
        package = tmp_path / "venv" / "sglang"
        shutil.copytree(cache, package, copy_function=os.link)
        before = snapshot(cache)
        go(package)
        assert snapshot(cache) == before
        assert snapshot(package) != before

    def test_a_link_inside_is_edited_at_its_target(self, package: Path) -> None:
        real = package / "srt" / "models" / "real.py"
        (package / KIMI_FILE).rename(real)
        (package / KIMI_FILE).symlink_to("real.py")
        go(package)
        assert (package / KIMI_FILE).is_symlink()
        assert "def get_embed_and_head(self):\n        return" in real.read_text()

    def test_a_link_that_leads_out_is_refused(self, package: Path, tmp_path: Path) -> None:
        outside = tmp_path / "shared.py"
        (package / KIMI_FILE).rename(outside)
        (package / KIMI_FILE).symlink_to(outside)
        result = go(package)
        assert states(result)[KIMI] == "conflict"
        assert "leads out of the release" in result.refused
        assert outside.read_text() == MODEL

    def test_two_runs_at_once_end_as_one(self, package: Path) -> None:
        code = (
            "import sys, yaml\n"
            "from ansible_collections.sm120.sglang.plugins.module_utils._patch.run import *\n"
            "catalogue = yaml.safe_load(sys.stdin)\n"
            "result = run(Request(root=sys.argv[1], shipped_catalog=catalogue))\n"
            "print(result.changed)\n"
        )
        runs = [
            subprocess.Popen(
                [sys.executable, "-c", code, str(package)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            for _ in range(3)
        ]
        for process in runs:
            assert process.stdin is not None
            process.stdin.write(yaml.safe_dump(CATALOGUE))
            process.stdin.close()
        said = sorted(p.stdout.read().strip() for p in runs if p.stdout is not None)
        assert [process.wait() for process in runs] == [0, 0, 0]
        assert said == ["False", "False", "True"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policy": "always"}, "unknown policy 'always'"),
        ({"patches": ["nope"]}, "no patch 'nope' in the catalogue"),
        ({"catalog": [{"id": "x"}]}, r"entry\[0\].title: is missing"),
        ({"catalog": [CATALOGUE[0]]}, "is the id of a shipped patch"),
    ],
)
def test_bad_requests_change_nothing(package: Path, changes: dict[str, Any], message: str) -> None:
    before = snapshot(package.parent)
    with pytest.raises(PatchError, match=message):
        go(package, **changes)
    assert snapshot(package.parent) == before


def test_a_catalogue_that_travelled_as_json_is_the_same(package: Path) -> None:
    travelled = json.loads(json.dumps(copy.deepcopy(CATALOGUE)))
    result = run(Request(root=str(package), shipped_catalog=travelled, check_mode=True))
    assert [dict(item) for item in result.diff] == [
        dict(item) for item in go(package, check_mode=True).diff
    ]
