# SPDX-License-Identifier: Apache-2.0
"""release_build and release_seal with the real uv, in a folder of the test's own."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import (
    _built,
    _release,
    _sealed,
    _toolkit,
)
from ansible_collections.sm120.sglang.plugins.module_utils._proof import record
from ansible_collections.sm120.sglang.plugins.modules import (
    release_build,
    release_discard,
    release_seal,
)

RELEASE = "lab-0123456789ab"


def told(changes: list[_sealed.Change]) -> list[str]:
    return [f"{change['file']}: {change['what']}" for change in changes]


def releases(arguments: dict[str, Any]) -> list[str]:
    folder = Path(arguments["root"], "releases")
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def test_each_run_from_nothing_to_complete(
    run_module: Any, build_arguments: dict[str, Any], seal_arguments: dict[str, Any]
) -> None:
    root = Path(build_arguments["root"])
    building, final = root / f"releases/.building-{RELEASE}", root / "releases" / RELEASE

    check = run_module(release_build, build_arguments, check=True)
    assert (check["changed"], check["path"], releases(build_arguments)) == (True, str(building), [])
    assert "package" not in check
    assert run_module(release_seal, seal_arguments, check=True)["changed"]

    built = run_module(release_build, build_arguments)
    assert (built["changed"], built["path"]) == (True, str(building))
    package = Path(built["package"])
    assert (package / "srt/models/kimi_k25.py").is_file()
    packages = package.parent
    assert _built.installed(packages) == {
        "sglang": "0.5.9",
        "torch": "2.13.0+cpu",
        "transformers": "4.57.6",
    }
    assert (building / "stack.lock").read_text() == build_arguments["requirements"]
    assert not final.exists()

    check = run_module(release_seal, seal_arguments, check=True)
    assert (check["changed"], releases(build_arguments)) == (True, [building.name])
    sealed = run_module(release_seal, seal_arguments)
    assert (sealed["changed"], sealed["path"]) == (True, str(final))
    assert sealed["versions"] == {
        "sglang": "0.5.9",
        "torch": "2.13.0+cpu",
        "transformers": "4.57.6",
    }
    for name in ("COMPLETE", "SHA256SUMS"):
        subprocess.run(["sha256sum", "--check", "--quiet", name], cwd=final, check=True)
    assert releases(build_arguments) == [RELEASE]
    assert _release.drift(final) == []
    # The tree works under its final name, and brings its bytecode along.
    python = final / "venv/bin/python"
    script = "import sglang, sys; print(sglang.__file__, sys.prefix)"
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        str(_release.site_packages(final) / "sglang/__init__.py"),
        str(final / "venv"),
    ]
    assert list((_release.site_packages(final) / "sglang/srt/models/__pycache__").glob("*.pyc"))

    for mode in (False, True):
        again = run_module(release_build, build_arguments, check=mode)
        assert (again["changed"], again["path"]) == (False, str(final))
        assert again["package"] == str(_release.site_packages(final) / "sglang")
        assert not run_module(release_seal, seal_arguments, check=mode)["changed"]


@pytest.fixture
def complete(
    run_module: Any, build_arguments: dict[str, Any], seal_arguments: dict[str, Any]
) -> Path:
    run_module(release_build, build_arguments)
    return Path(run_module(release_seal, seal_arguments)["path"])


def test_an_edited_release_is_built_anew(
    run_module: Any,
    build_arguments: dict[str, Any],
    seal_arguments: dict[str, Any],
    complete: Path,
) -> None:
    edited = _release.site_packages(complete) / "sglang/srt/server_args.py"
    text = edited.read_text()
    # An editor that writes in place: with a file shared with uv's cache, the edit would be back.
    with edited.open("a") as stream:
        stream.write("# edited\n")
    assert not run_module(release_build, build_arguments)["changed"]  # nobody asked for it
    again = {**build_arguments, "drift": _release.drift(complete)}
    assert run_module(release_build, again, check=True)["changed"]
    assert run_module(release_build, again)["changed"]
    assert edited.read_text() != text  # the old one serves until the new one is sealed
    assert run_module(release_seal, seal_arguments)["changed"]
    assert _release.drift(complete) == []
    assert edited.read_text() == text


def test_what_was_edited_in_place_is_gone_from_the_cache_too(
    run_module: Any,
    build_arguments: dict[str, Any],
    seal_arguments: dict[str, Any],
    complete: Path,
) -> None:
    """Files outside the engine's package share their inode with uv's cache."""
    edited = _release.site_packages(complete) / "torch/__init__.py"
    text = edited.read_text()
    with edited.open("a") as stream:
        stream.write("# edited\n")
    found = _release.drift(complete)
    assert told(found) == [f"{edited.relative_to(complete)}: changed by hand"]
    run_module(release_build, {**build_arguments, "drift": found})
    run_module(release_seal, seal_arguments)
    assert edited.read_text() == text
    assert _release.drift(complete) == []


def test_what_needs_no_content_is_mended_in_place(
    run_module: Any,
    build_arguments: dict[str, Any],
    seal_arguments: dict[str, Any],
    complete: Path,
) -> None:
    packages = _release.site_packages(complete)
    (packages / "sitecustomize.py").write_text("import os\n")
    (packages / "torch/__init__.py").chmod(0o600)
    found = _release.drift(complete)
    assert sorted(change["mend"] for change in found) == ["here", "here"]
    again = {**build_arguments, "drift": found}
    assert run_module(release_build, again, check=True)["changed"]
    assert _release.drift(complete) == found
    before = complete.stat().st_ino
    built = run_module(release_build, again)
    assert (built["changed"], built["path"]) == (True, str(complete))
    assert not run_module(release_seal, seal_arguments)["changed"]
    assert _release.drift(complete) == []
    assert complete.stat().st_ino == before


def test_an_edit_that_size_and_time_hide_is_found_by_reading_all(
    run_module: Any,
    build_arguments: dict[str, Any],
    seal_arguments: dict[str, Any],
    complete: Path,
) -> None:
    """It is in uv's cache too, and does not come back from there."""
    edited = _release.site_packages(complete) / "torch/__init__.py"
    text, status = edited.read_text(), edited.stat()
    with edited.open("r+") as stream:
        stream.write(text.swapcase())
    os.utime(edited, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert edited.read_text() != text
    assert _release.drift(complete) == []
    found = _release.drift(complete, full=True)
    assert told(found) == [f"{edited.relative_to(complete)}: changed by hand"]
    run_module(release_build, {**build_arguments, "drift": found})
    run_module(release_seal, seal_arguments)
    assert edited.read_text() == text
    assert _release.drift(complete, full=True) == []


def test_releases_share_what_nobody_edits(
    run_module: Any, build_arguments: dict[str, Any], complete: Path
) -> None:
    other = run_module(release_build, {**build_arguments, "release": "lab-2"})["package"]
    for name, shared in (("torch/__init__.py", True), ("sglang/__init__.py", False)):
        first = _release.site_packages(complete) / name
        second = Path(other).parent / name
        assert (first.stat().st_ino == second.stat().st_ino) is shared
    # Building a second release changed the ctime of shared files, and is no drift.
    assert _release.drift(complete) == []


def test_leftovers_go_and_are_never_sealed(
    run_module: Any,
    build_arguments: dict[str, Any],
    seal_arguments: dict[str, Any],
    complete: Path,
) -> None:
    """A leftover of the same id beside the complete release: an interrupted replacement."""
    digest = (complete / "COMPLETE").read_text()
    for name in (f".building-{RELEASE}", f".replaced-{RELEASE}", ".building-other"):
        (complete.parent / name / "venv").mkdir(parents=True)
    check = run_module(release_build, build_arguments, check=True)
    assert (check["changed"], check["path"]) == (True, str(complete))
    assert len(releases(build_arguments)) == 4
    real = run_module(release_build, build_arguments)
    assert (real["changed"], real["path"]) == (True, str(complete))
    assert releases(build_arguments) == [RELEASE]
    assert not run_module(release_build, build_arguments)["changed"]
    assert not run_module(release_seal, seal_arguments)["changed"]
    assert (complete / "COMPLETE").read_text() == digest


def test_an_interrupted_build_starts_over(run_module: Any, build_arguments: dict[str, Any]) -> None:
    building = Path(build_arguments["root"], f"releases/.building-{RELEASE}")
    (building / "venv/lib").mkdir(parents=True)
    (building / "half").touch()
    assert run_module(release_build, build_arguments)["changed"]
    assert not (building / "half").exists()


@pytest.mark.parametrize(
    ("requirements", "parts"),
    [
        (f"sglang==0.5.9 --hash=sha256:{'0' * 64}\n", ["uv failed", "Hash mismatch"]),
        (f"sglang==9 --hash=sha256:{'0' * 64}\n", ["uv failed", "sglang==9"]),
        ("sglang>=0.5\n", ["requirements:1: not 'name==version'"]),
    ],
)
def test_a_build_that_fails_says_why_and_completes_nothing(
    run_module: Any, build_arguments: dict[str, Any], requirements: str, parts: list[str]
) -> None:
    found = run_module(release_build, {**build_arguments, "requirements": requirements})
    assert found["failed"]
    for part in parts:
        assert part in found["msg"]
    assert not Path(build_arguments["root"], "releases", RELEASE).exists()
    assert run_module(release_build, build_arguments)["changed"]  # the next run converges


def test_a_full_disk_is_told_and_not_kept_full(
    run_module: Any, build_arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/opt/x")

    monkeypatch.setattr(_toolkit, "finish", full)
    failed = run_module(release_build, build_arguments)
    assert failed["failed"]
    assert "could not be built: /opt/x: No space left on device. Remedy: free" in failed["msg"]
    assert releases(build_arguments) == []


@pytest.mark.parametrize("python", ["/no/such/python3.11"])
def test_a_missing_interpreter_is_named(
    run_module: Any, build_arguments: dict[str, Any], python: str
) -> None:
    found = run_module(release_build, {**build_arguments, "python": python})
    assert found["failed"]
    assert python in found["msg"]


def test_another_build_on_the_node_that_does_not_end_is_told(
    run_module: Any,
    build_arguments: dict[str, Any],
    seal_arguments: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_release, "LOCK_SECONDS", 0.0)
    root = Path(build_arguments["root"])
    (root / f"releases/.building-{RELEASE}/venv").mkdir(parents=True)
    with _release.build_lock(root):
        for module, arguments in (
            (release_build, build_arguments),
            (release_seal, seal_arguments),
            (release_discard, discarded(build_arguments)),
        ):
            found = run_module(module, arguments)
            assert found["failed"]
            assert "another deployment is building on this node" in found["msg"]
    assert releases(build_arguments) == [f".building-{RELEASE}"]  # the other's tree is untouched


def test_a_release_that_cannot_be_imported_stays_incomplete(
    run_module: Any, build_arguments: dict[str, Any], seal_arguments: dict[str, Any]
) -> None:
    package = Path(run_module(release_build, build_arguments)["package"])
    broken = package / "srt/server_args.py"
    broken.unlink()
    broken.write_text("raise ImportError('libcuda.so.1: cannot open shared object file')\n")
    found = run_module(release_seal, seal_arguments)
    assert found["failed"]
    assert "ImportError: libcuda.so.1: cannot open" in found["msg"]
    assert "Compare the stack's versions" in found["msg"]
    assert releases(build_arguments) == [f".building-{RELEASE}"]


PROOF = {"modules": ["torch", "transformers", "sglang.srt.server_args"], "gpu": False}


def test_the_whole_proof_is_made_and_recorded_at_sealing(
    run_module: Any,
    build_arguments: dict[str, Any],
    seal_arguments: dict[str, Any],
    full_cards: None,
) -> None:
    """With the GPUs that had no room for it."""
    root = Path(build_arguments["root"])
    run_module(release_build, build_arguments)
    sealed = run_module(release_seal, {**seal_arguments, "proof": {**PROOF, "gpu": True}})
    assert [one["module"] for one in sealed["imports"]] == PROOF["modules"]
    assert "versions" not in sealed
    assert len(sealed["left_out"]) == len(sealed["warnings"]) == 2
    made = record.read(root, RELEASE, record.stamp())
    assert made["imports"]["valid"]
    assert record.differences(made, {"imports": "auto"}, False)
    assert _release.drift(root / "releases" / RELEASE, full=True) == []


def test_a_release_that_fails_the_whole_proof_stays_incomplete(
    run_module: Any, build_arguments: dict[str, Any], seal_arguments: dict[str, Any]
) -> None:
    """What is installed is not what the lock says, and a module does not import."""
    root = Path(build_arguments["root"])
    package = Path(run_module(release_build, build_arguments)["package"])
    broken = package / "srt/server_args.py"
    broken.unlink()
    broken.write_text("raise ImportError('libcuda.so.1: cannot open shared object file')\n")
    shutil.rmtree(package.parent / "torch-2.13.0+cpu.dist-info")
    found = run_module(release_seal, {**seal_arguments, "proof": PROOF})
    assert found["failed"]
    assert f"release {RELEASE} cannot work here" in found["msg"]
    assert "torch: the lock says 2.13.0+cpu, installed is nothing" in found["msg"]
    assert "import sglang.srt.server_args: a package of the release x the NVIDIA" in found["msg"]
    assert releases(build_arguments) == [f".building-{RELEASE}"]
    assert not record.path(root, RELEASE).exists()


def test_what_was_proved_is_not_imported_again(
    run_module: Any, build_arguments: dict[str, Any], seal_arguments: dict[str, Any]
) -> None:
    package = Path(run_module(release_build, build_arguments)["package"])
    (package / "srt/server_args.py").write_text("raise SystemExit('imported')\n")
    proved = {**seal_arguments, "proved": True, "proof": PROOF}
    assert run_module(release_seal, proved)["changed"]
    assert releases(build_arguments) == [RELEASE]


def discarded(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name in ("root", "release")}


def test_what_was_refused_goes_and_nothing_else_does(
    run_module: Any, build_arguments: dict[str, Any], complete: Path
) -> None:
    """A patch, the contract, a proof or the seal has refused it; another one is being built."""
    refused = {**build_arguments, "release": "lab-refused"}
    assert run_module(release_build, refused)["changed"]
    (complete.parent / ".building-lab-of-another").mkdir()
    there = releases(build_arguments)
    assert run_module(release_discard, discarded(refused), check=True)["changed"]
    assert releases(build_arguments) == there
    assert run_module(release_discard, discarded(refused))["changed"]
    assert releases(build_arguments) == sorted({*there} - {".building-lab-refused"})
    assert not run_module(release_discard, discarded(refused))["changed"]
    assert not run_module(release_discard, discarded(build_arguments))["changed"]  # complete
    assert _release.drift(complete) == []


def test_sealing_what_was_never_built(run_module: Any, seal_arguments: dict[str, Any]) -> None:
    found = run_module(release_seal, seal_arguments)
    assert found["failed"]
    assert f"release {RELEASE} was not built; run the deployment" in found["msg"]
    assert run_module(release_seal, seal_arguments, check=True)["changed"]
