# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._cuda import openpgp
from hypothesis import given
from hypothesis import strategies as st

from tests.apt_repository import make_key


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes, bytes]:
    """A real key: fingerprint by gpg, armoured file, binary file."""
    home = tmp_path_factory.mktemp("gnupg") / "home"
    fingerprint = make_key(home)
    export = ["gpg", "--homedir", str(home), "--batch", "--export"]
    armoured = subprocess.run([*export, "--armor"], check=True, capture_output=True).stdout
    binary = subprocess.run(export, check=True, capture_output=True).stdout
    return fingerprint, armoured, binary


def test_the_fingerprint_is_that_of_gpg(key: tuple[str, bytes, bytes]) -> None:
    fingerprint, armoured, binary = key
    assert openpgp.fingerprints(armoured) == [fingerprint]
    assert openpgp.fingerprints(binary) == [fingerprint]
    assert openpgp.fingerprints(b"a comment\n" + armoured.replace(b"\n", b"\r\n")) == [fingerprint]
    # Every key of a file counts: one that is pinned does not bring another with it.
    assert openpgp.fingerprints(binary + binary) == [fingerprint, fingerprint]
    assert openpgp.fingerprints(armoured + armoured) == [fingerprint, fingerprint]


def test_a_damaged_file_is_no_key(key: tuple[str, bytes, bytes]) -> None:
    _, armoured, binary = key
    for data in (b"", b"<html>404</html>", binary[:-5], armoured[: len(armoured) // 2]):
        with pytest.raises(openpgp.KeyFileError):
            openpgp.fingerprints(data)


@given(st.binary(max_size=200))
def test_no_file_at_all_makes_it_crash(data: bytes) -> None:
    try:
        found = openpgp.fingerprints(data)
    except openpgp.KeyFileError:
        return
    assert all(len(text) == 40 for text in found)


def test_fingerprints_may_be_written_in_groups() -> None:
    text = "EB69 3B30 35CD 5710 E231  E123 A4B4 6996 3BF8 63cc"
    assert openpgp.normalise(text) == "EB693B3035CD5710E231E123A4B469963BF863CC"
    with pytest.raises(openpgp.KeyFileError, match="40 hexadecimal digits"):
        openpgp.normalise("3BF863CC")


def test_the_shipped_fingerprints_are_some() -> None:
    from ansible_collections.sm120.sglang.plugins.module_utils._cuda.names import KEYS

    for file, fingerprint in KEYS.values():
        assert openpgp.normalise(fingerprint) == fingerprint
        assert fingerprint.endswith(Path(file).stem.upper())
