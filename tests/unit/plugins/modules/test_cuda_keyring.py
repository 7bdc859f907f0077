# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.modules import cuda_keyring

from tests.apt_repository import make_key


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("gnupg")
    fingerprint = make_key(folder / "home")
    export = ["gpg", "--homedir", str(folder / "home"), "--batch", "--armor", "--export"]
    data = subprocess.run(export, check=True, capture_output=True).stdout
    (folder / "key.asc").write_bytes(data)
    return fingerprint, folder / "key.asc"


def asked(key: tuple[str, Path], target: Path, *more: str) -> dict[str, Any]:
    return {"url": str(key[1]), "path": str(target), "fingerprints": list(more) or [key[0]]}


def test_a_pinned_key_is_written_once(run_module: Any, key: Any, tmp_path: Path) -> None:
    target = tmp_path / "keyrings/k.asc"
    assert run_module(cuda_keyring, asked(key, target), check=True)["changed"] is True
    assert not target.exists()
    first = run_module(cuda_keyring, asked(key, target))
    assert (first["changed"], first["fingerprints"]) == (True, [key[0]])
    assert target.read_bytes() == key[1].read_bytes()
    assert run_module(cuda_keyring, asked(key, target))["changed"] is False


def test_another_key_is_not_written(run_module: Any, key: Any, tmp_path: Path) -> None:
    target = tmp_path / "k.asc"
    found = run_module(cuda_keyring, asked(key, target, "A" * 40))
    assert f"holds the key {key[0]}, which is not pinned" in found["msg"]
    assert not target.exists()


@pytest.mark.parametrize(
    ("content", "says"), [(b"<html>", "is no key file"), (None, "No such file or directory")]
)
def test_a_file_that_is_no_key(
    run_module: Any, key: Any, tmp_path: Path, content: bytes | None, says: str
) -> None:
    bad = tmp_path / "bad.asc"
    if content is not None:
        bad.write_bytes(content)
    found = run_module(cuda_keyring, {**asked(key, tmp_path / "k.asc"), "url": str(bad)})
    assert says in found["msg"]
    assert not (tmp_path / "k.asc").exists()


def test_a_server_that_is_down(run_module: Any, key: Any, tmp_path: Path) -> None:
    found = run_module(
        cuda_keyring, {**asked(key, tmp_path / "k.asc"), "url": "http://127.0.0.1:1/k"}
    )
    assert "cannot be fetched from http://127.0.0.1:1/k" in found["msg"]
