# SPDX-License-Identifier: Apache-2.0
"""Wheels through pip: a pip that answers as the real one did (recorded with pip 24.0)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.plugin_utils import _sglang_wheels
from ansible_collections.sm120.sglang.plugins.plugin_utils._sglang_wheels import WheelError, fetch

UNKNOWN = (
    "ERROR: Could not find a version that satisfies the requirement sglang==9.9.9 (from versions: "
    "0.1.0, 0.5.8, 0.5.9, 0.5.20, 0.5.21, 0.5.22, 0.5.23)\n"
    "ERROR: No matching distribution found for sglang==9.9.9\n"
)
UNREACHED = (
    "WARNING: Retrying (Retry(total=1)) after connection broken by 'NewConnectionError'\n"
    "ERROR: Could not find a version that satisfies the requirement sglang==0.5.9 "
    "(from versions: none)\nERROR: No matching distribution found for sglang==0.5.9\n"
)


def use_pip(monkeypatch: pytest.MonkeyPatch, folder: Path, program: str) -> None:
    path = folder / "pip.py"
    path.write_text(f"import sys\nfrom pathlib import Path\nargs = sys.argv[1:]\n{program}")
    monkeypatch.setattr(_sglang_wheels, "PIP", (sys.executable, str(path)))


WRITES = """\
python = args[args.index("--python-version") + 1]
if python != "3.13":
    sys.exit("ERROR: no (from versions: 0.5.8)")
folder = Path(args[args.index("--dest") + 1])
(folder / "sglang-0.6.0-cp313-cp313-manylinux_2_34_x86_64.whl").write_bytes(b"wheel")
"""


def test_a_wheel_is_downloaded_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also one that is not for the Python that is tried first."""
    use_pip(monkeypatch, tmp_path, WRITES)
    cache = tmp_path / "new" / "cache"
    wheel = fetch("0.6.0", cache)
    assert wheel.read_bytes() == b"wheel"
    use_pip(monkeypatch, tmp_path, "sys.exit('must not run')")
    assert fetch("0.6.0", cache) == wheel
    assert list(cache.iterdir()) == [wheel], "something half done was left"


@pytest.mark.parametrize(
    ("stderr", "message"),
    [
        (UNKNOWN, r"no wheel of sglang 9\.9\.9.*newest are 0\.5\.9, .*0\.5\.23"),
        (UNREACHED, r"from versions: none.*the package index can be reached"),
    ],
)
def test_a_wheel_that_cannot_be_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stderr: str, message: str
) -> None:
    use_pip(monkeypatch, tmp_path, f"sys.stderr.write({stderr!r})\nsys.exit(1)")
    with pytest.raises(WheelError, match=message):
        fetch("9.9.9", tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


def test_a_version_is_not_taken_for_its_post_release(tmp_path: Path) -> None:
    (tmp_path / "sglang-0.5.10.post1-py3-none-any.whl").write_bytes(b"")
    assert _sglang_wheels.cached("0.5.10", tmp_path) is None
    assert _sglang_wheels.cached("0.5.10.post1", tmp_path) is not None


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WheelError, match="cannot be written"):
        fetch("0.5.9", tmp_path / "file" / "cache")


@pytest.mark.parametrize("text", ["0.5.9", "0.5.10.post1", "0.6.0rc1", "1", "0.5.9+cu130"])
def test_versions(text: str) -> None:
    assert _sglang_wheels.is_version(text)


@pytest.mark.parametrize("text", ["", "nope", "./0.5.9", "0.5.9 ", "0.5.9;x", "-r x", "latest"])
def test_no_versions(text: str) -> None:
    assert not _sglang_wheels.is_version(text)


def test_the_published_versions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_pip(monkeypatch, tmp_path, "print('sglang (0.5.23)\\nAvailable versions: 0.5.23, 0.5.22')")
    assert _sglang_wheels.published() == ["0.5.23", "0.5.22"]
    use_pip(monkeypatch, tmp_path, "sys.stderr.write('ERROR: no route')\nsys.exit(1)")
    with pytest.raises(WheelError, match="no route"):
        _sglang_wheels.published()
