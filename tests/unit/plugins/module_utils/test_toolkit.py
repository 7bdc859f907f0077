# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from ansible_collections.sm120.sglang.plugins.module_utils import _toolkit


def toolkit(packages: Path) -> Path:
    place = packages / "nvidia/cu13"
    for name in ("bin/nvcc", "lib/libcudart.so.13", "lib/libnvrtc.so.13", "lib/libcudart_static.a"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(name)
    (place / "lib/libnvrtc-builtins.so.13.0").write_text("x")  # two numbers: nobody links it
    return place


def test_the_wheels_become_a_cuda_home(tmp_path: Path) -> None:
    place = toolkit(tmp_path)
    assert _toolkit.home(tmp_path) == place
    assert _toolkit.finish(tmp_path) == ["lib64", "lib/libcudart.so", "lib/libnvrtc.so"]
    assert (place / "lib64/libcudart.so").read_text() == "lib/libcudart.so.13"
    # Relative, so that the tree can be renamed.
    assert not (place / "lib64").readlink().is_absolute()
    assert _toolkit.finish(tmp_path) == []


def test_a_release_without_a_toolkit_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "nvidia/cu13/lib").mkdir(parents=True)
    (tmp_path / "nvidia/cu13/lib/libcudart.so.13").write_text("x")
    assert _toolkit.home(tmp_path) is None
    assert _toolkit.finish(tmp_path) == []
    assert not (tmp_path / "nvidia/cu13/lib64").exists()
