# SPDX-License-Identifier: Apache-2.0
"""The report on real wheels: against the facts, against docs/releases.md, and by the playbook."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._report.dependencies import (
    dependencies,
)
from ansible_collections.sm120.sglang.plugins.module_utils._report.describe import describe
from ansible_collections.sm120.sglang.plugins.module_utils._report.render import overview
from ansible_collections.sm120.sglang.plugins.module_utils._tree import open_tree
from ansible_collections.sm120.sglang.plugins.module_utils.release_report import (
    main,
    shipped_knowledge,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils import _sglang_wheels

from tests.releases import wheels
from tests.releases.test_patches import expected, release_parameters

KIMI = "KimiK25ForConditionalGeneration"
PAGE = (wheels.ROOT / "docs" / "releases.md").read_text("utf-8")
ROWS = {line.split(" | ")[0].strip("| "): line for line in PAGE.splitlines() if line[:3] == "| 0"}

# Facts, section F: what the wheels' METADATA says, read by hand.
NEEDS = {
    "0.5.9": ("2.9.1", 12, "sgl-kernel 0.3.21", "0.6.3", "4.57.1", ">=3.10"),
    "0.5.10.post1": ("2.9.1", 12, "sglang-kernel 0.4.1", "0.6.7.post3", "5.3.0", ">=3.10"),
    "0.5.11": ("2.11.0", 13, "sglang-kernel 0.4.2", "0.6.8.post1", "5.6.0", ">=3.10"),
    "0.5.12.post1": ("2.11.0", 13, "sglang-kernel 0.4.2.post2", "0.6.11.post1", "5.6.0", ">=3.10"),
    "0.5.14": ("2.11.0", 13, "sglang-kernel 0.4.4", "0.6.12", "5.8.1", ">=3.10"),
    "0.5.16": ("2.11.0", 13, "sglang-kernel 0.4.5", "0.6.14", "5.12.1", ">=3.10"),
    "0.5.18": ("2.13.0", 13, "sglang-kernel 0.4.6.post1", "0.6.17", "5.12.1", ">=3.10"),
    "0.5.20": ("2.13.0", 13, "sglang-kernel 0.4.7", "0.6.18", "5.12.1", ">=3.10"),
    "0.5.23": ("2.14.1", 13, "sglang-kernel 0.4.10", "0.7.2", "5.19.0", ">=3.11"),
}
FUSION = "--enable-flashinfer-allreduce-fusion"
SYMM_MEM = "--enable-torch-symm-mem"


@functools.cache
def described(version: str) -> dict[str, Any]:
    return describe(open_tree(str(wheels.wheel(version))), shipped_knowledge())


@pytest.mark.parametrize("version", release_parameters(wheels.FEW_AUDITED))
def test_a_release_is_what_the_facts_say(version: str) -> None:
    found = described(version)
    assert found["release"] == version
    states = {patch["id"]: patch["state"] for patch in found["patches"]}
    assert states == expected(version)
    assert all(patch["reason"] and patch["does_not"] for patch in found["patches"])
    assert found["problems"] == []
    counts = found["contract_counts"]
    assert counts["ok"] + counts["missing"] + counts["unknown"] == counts["classes"] > 30
    if states["kimi_k25_eagle3_delegation"] == "absent":
        assert found["contract"] == {}
    else:
        lacks = {"set_eagle3_layers_to_capture", "get_embed_and_head"}
        verdict = found["contract"][KIMI]
        assert set(verdict["required"]) >= lacks
        assert set(verdict["missing"]) == (lacks if version == "0.5.9" else set())
        assert verdict["delegation_fixes"] is (True if version == "0.5.9" else None)
    launch = found["launch"]
    copes = states["sm120_allreduce_sizes"] == "obsolete"  # from 0.5.14 on
    assert launch["fatal_on_sm120"] == [FUSION if copes else SYMM_MEM]
    assert launch["deprecated"] == ([FUSION] if copes else [])
    assert launch["unknown"] == []


@pytest.mark.parametrize("version", release_parameters(wheels.FEW_AUDITED))
def test_the_page_is_true(version: str) -> None:
    """`make releases-doc` makes it anew."""
    _, row = overview([described(version)])
    assert ROWS[version] == "| " + " | ".join(row) + " |"


@pytest.mark.releases
def test_the_page_has_every_release_on_the_index() -> None:
    published = _sglang_wheels.published()
    since = published[: published.index("0.5.5.post3") + 1]
    assert list(ROWS) == since[::-1]
    assert list(wheels.ALL) == since[::-1]


@pytest.mark.parametrize("version", [v for v in release_parameters() if v.values[0] in NEEDS])
def test_dependencies_are_those_that_were_read_by_hand(version: str) -> None:
    found = dependencies(open_tree(str(wheels.wheel(version))).metadata())
    keys = ("torch", "cuda_major", "kernel", "flashinfer", "transformers", "python")
    assert tuple(found[key] for key in keys) == NEEDS[version]


@pytest.mark.releases
def test_a_wheel_an_install_and_a_checkout_are_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """0.5.9; a checkout has pyproject.toml where an install has dist-info."""
    site = tmp_path / "venv" / "lib" / "python3.12" / "site-packages"
    checkout = tmp_path / "checkout" / "python"
    for folder in (site, checkout):
        with zipfile.ZipFile(wheels.wheel("0.5.9")) as archive:
            archive.extractall(folder)
    (info,) = checkout.glob("*.dist-info")
    needs = re.findall(r"^Requires-Dist: ([^;\n]*)$", (info / "METADATA").read_text(), re.MULTILINE)
    (checkout / "pyproject.toml").write_text(
        f'[project]\nname = "sglang"\nrequires-python = ">=3.10"\ndependencies = {needs}\n'
    )
    info.rename(tmp_path / "elsewhere")
    assert main([str(tmp_path / "venv"), str(tmp_path / "checkout"), "--json"]) == 0
    installed, checked_out = json.loads(capsys.readouterr().out)
    wheel = json.loads(json.dumps(described("0.5.9")))
    for found in (installed, checked_out):
        del found["source"]
    del wheel["source"]
    assert installed == wheel
    if sys.version_info >= (3, 11):
        del wheel["dependencies"]["wheel"], checked_out["dependencies"]["wheel"]
        assert checked_out == wheel


def play(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            "ansible-playbook", "-i", "localhost,",
            str(wheels.ROOT / "playbooks" / "check_release.yml"),
            "-e", f"check_release_cache={wheels.CACHE}", *arguments,
        ],
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_CONFIG": str(wheels.ROOT / "ansible.cfg"),
             "PWD": str(tmp_path), "ANSIBLE_NOCOLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip


@pytest.mark.releases
def test_the_playbook(tmp_path: Path) -> None:
    wheels.wheel("0.5.9")
    looked = play(tmp_path, "-e", "release=0.5.9", "--check")
    assert looked.returncode == 0, looked.stdout
    assert not list(tmp_path.iterdir()), "check mode wrote a file"

    made = play(tmp_path, "-e", "release=0.5.9")
    assert made.returncode == 0, made.stdout
    assert re.search(r"^0\.5\.9 +lacks 2 ", made.stdout, re.MULTILINE)
    assert re.search(r"sglang-0\.5\.9-py3-none-any\.whl: sha256 [0-9a-f]{64}", made.stdout)
    assert f"{tmp_path}/release-report.json" in made.stdout
    (written,) = json.loads((tmp_path / "release-report.json").read_text("utf-8"))
    assert {**described("0.5.9"), "sha256": written["sha256"]} == written
    assert "## 0.5.9" in (tmp_path / "release-report.md").read_text("utf-8")

    again = play(tmp_path, "-e", "release=0.5.9")
    assert re.search(r"changed=0 .*failed=0", again.stdout), again.stdout

    for wrong, message in (
        ("release=0.0.0.post9", "has no wheel of sglang 0.0.0.post9"),
        (f"release={tmp_path}", "there is no sglang package"),
        ("other=1", "no release is named"),
    ):
        failed = play(tmp_path, "-e", wrong)
        assert failed.returncode == 2
        assert message in " ".join((failed.stdout + failed.stderr).split())
