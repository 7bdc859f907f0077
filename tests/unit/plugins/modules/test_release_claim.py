# SPDX-License-Identifier: Apache-2.0
"""Two controllers that build the same release on a node at the same time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _release
from ansible_collections.sm120.sglang.plugins.modules import (
    release_build,
    release_discard,
    release_seal,
)

RELEASE = "lab-0123456789ab"


def names(arguments: dict[str, Any]) -> list[str]:
    """What there is of releases."""
    return sorted(path.name for path in Path(arguments["root"], "releases").iterdir())


def test_of_two_runs_that_build_the_same_release_the_later_one_completes_it(
    run_module: Any, build_arguments: dict[str, Any], seal_arguments: dict[str, Any]
) -> None:
    first = run_module(release_build, build_arguments)["builder"]
    second = run_module(release_build, build_arguments)["builder"]
    for module, arguments in (
        (release_seal, {**seal_arguments, "builder": first}),
        (
            release_discard,
            {**{name: build_arguments[name] for name in ("root", "release")}, "builder": first},
        ),
    ):
        found = run_module(module, arguments)
        assert found["failed"]
        assert "another deployment has begun to build" in found["msg"]
        assert "wait for it and run again" in found["msg"]
    assert names(build_arguments) == [f".building-{RELEASE}"]
    assert run_module(release_seal, {**seal_arguments, "builder": second})["changed"]
    assert names(build_arguments) == [RELEASE]
    assert not list(Path(build_arguments["root"], "releases", RELEASE).glob(".builder"))
    # What the other one has completed meanwhile is as good as one's own.
    assert not run_module(release_seal, {**seal_arguments, "builder": first})["changed"]


def test_the_tree_is_told_of_before_another_run_may_take_it(
    run_module: Any, build_arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ansible-core looks at a result's path; another run that waited has it renamed by then."""
    root = Path(build_arguments["root"])

    @contextlib.contextmanager
    def lock(_root: Path) -> Iterator[None]:
        try:
            yield
        finally:
            _release.sweep(root)

    monkeypatch.setattr(_release, "build_lock", lock)
    found = run_module(release_build, build_arguments)
    assert found["path"] == str(root / f"releases/.building-{RELEASE}")
    assert found["package"].startswith(found["path"])
    assert not Path(found["path"]).exists()
