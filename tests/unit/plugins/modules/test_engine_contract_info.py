# SPDX-License-Identifier: Apache-2.0
"""The module's two ways out, with the parameters that Ansible would hand to it."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args
from ansible_collections.sm120.sglang.plugins.modules import engine_contract_info

from tests.unit.plugins.module_utils._contract.small_release import release


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for path, data in release().files.items():
        file = tmp_path / "sglang" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return tmp_path


def run(**parameters: Any) -> dict[str, Any]:
    shown = io.StringIO()
    with (
        patch_module_args({"_ansible_check_mode": True, **parameters}),
        contextlib.redirect_stdout(shown),
        pytest.raises(SystemExit),
    ):
        engine_contract_info.main()
    answer: dict[str, Any] = json.loads(shown.getvalue())
    return answer


def test_every_wrapper_is_audited_for_eagle3_by_default(package: Path) -> None:
    answer = run(root=str(package))
    assert answer["changed"] is False
    assert answer["root"] == str(package / "sglang")
    assert answer["counts"] == {"classes": 1, "ok": 0, "missing": 1, "unknown": 0}
    (found,) = answer["architectures"].values()
    assert found["catalogue_entry"]["rule"]["target"] == "language_model"
    assert answer["workers"] == [{"class": "Worker", "at": "srt/speculative/worker.py:4"}]


def test_an_answer_that_cannot_be_given_names_cause_and_remedy(package: Path) -> None:
    answer = run(root=str(package), algorithm="DFLASH")
    assert answer["failed"]
    assert "no speculative algorithm DFLASH. it has: EAGLE, EAGLE3, NGRAM" in answer["msg"]
    assert "does not exist" in run(root=str(package / "none"))["msg"]


def test_what_it_returns_is_documented(package: Path) -> None:
    documented = yaml.safe_load(engine_contract_info.RETURN)
    answer = run(root=str(package))
    assert set(documented) == set(answer) - {"changed", "invocation"}
    (site, *_) = answer["call_sites"]
    assert set(documented["call_sites"]["contains"]) == set(site)
    (found,) = answer["architectures"].values()
    assert set(documented["architectures"]["contains"]) == set(found)
