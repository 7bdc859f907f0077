# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import fnmatch
import re

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._cuda import files
from ansible_collections.sm120.sglang.plugins.module_utils._cuda.names import CudaError


def priority(version: str, name: str, other: str) -> int:
    """What apt_preferences(5) makes of a package version: the first record that fits."""
    for block in files.preferences(version).split("\n\n")[1:]:
        record = dict(line.split(": ", 1) for line in block.strip().splitlines())
        pattern = record["Pin"].removeprefix("version ")
        if not any(fnmatch.fnmatchcase(name, glob) for glob in record["Package"].split()):
            continue
        exact = pattern == other
        if exact or (pattern[0] == "/" and re.search(pattern.strip("/"), other)):
            return int(record["Pin-Priority"])
    return 500


@pytest.mark.parametrize(
    ("name", "other", "expected"),
    [
        ("libnvidia-compute-580", "580.95.05-0ubuntu1", 1001),
        ("nvidia-fabricmanager", "580.95.05-1", 1001),
        ("libnvidia-compute-580", "580.105.08-0ubuntu1", -1),
        ("libnvidia-compute-580", "580.95.05-0ubuntu0.24.04.2", -1),  # the distribution's build
        ("nvidia-driver", "535.183.01-1~deb12u1", -1),
        ("nvidia-driver-cuda", "590.48.01-1", -1),
        ("nvidia-container-toolkit", "1.19.1-1", 500),
        ("nvidia-driver-pinning-590", "590-1", 500),
        ("cuda-nvcc-13-0", "13.0.88-1", 500),
        ("openssh-server", "580.105.08-1", 500),
    ],
)
def test_one_driver_is_let_in_and_nothing_else_is_touched(
    name: str, other: str, expected: int
) -> None:
    assert priority("580.95.05-0ubuntu1", name, other) == expected


def test_a_dot_in_a_version_is_a_dot() -> None:
    assert priority("580.95.05-1", "libcuda1", "580x95x05-1") == 500


def test_unattended_upgrades_leaves_driver_and_toolkit_alone() -> None:
    patterns = re.findall(r'"(\^.*)";', files.unattended())
    for name in ("nvidia-driver-cuda", "libnvidia-compute-580", "cuda-nvcc-13-0", "libcuda1"):
        assert any(re.match(pattern, name) for pattern in patterns), name
    for name in ("libcurl4", "libnpth0", "openssh-server", "libcuda1x", "libnvme1"):
        assert not any(re.match(pattern, name) for pattern in patterns), name
    for name in ("libcublas-13-0", "libcublas-dev-13-0", "libnpp-13-1", "libnvjitlink-13-0"):
        assert any(re.match(pattern, name) for pattern in patterns), name


def test_kernel_settings_are_written_only_when_wanted() -> None:
    assert files.grub([]) == ""
    assert files.module_options({}) == ""
    assert files.grub(["iommu=pt", "pcie_aspm=off"]).endswith(
        'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT iommu=pt pcie_aspm=off"\n'
    )
    assert files.module_options({"nvidia_uvm": "uvm_disable_hmm=1"}).endswith(
        "options nvidia_uvm uvm_disable_hmm=1\n"
    )


@pytest.mark.parametrize("word", ['x"; rm -rf /', "a b", "$(id)", "`id`", ""])
def test_a_kernel_argument_cannot_leave_its_line(word: str) -> None:
    with pytest.raises(CudaError, match="is no kernel argument"):
        files.grub([word])


@pytest.mark.parametrize("options", [{"nvidia uvm": "x=1"}, {"nvidia": "x=1\ninstall y /bin/z"}])
def test_a_module_option_cannot_leave_its_line(options: dict[str, str]) -> None:
    with pytest.raises(CudaError, match="is no module option"):
        files.module_options(options)
