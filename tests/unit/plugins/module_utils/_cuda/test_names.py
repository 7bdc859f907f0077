# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._cuda import names


@pytest.mark.parametrize(
    ("system", "branch", "expected"),
    [
        ("ubuntu", 580, "libnvidia-compute-580 nvidia-dkms-580-open nvidia-utils-580"),
        ("ubuntu", 590, "libnvidia-compute nvidia-dkms-open"),
        ("ubuntu", 610, "libnvidia-compute nvidia-dkms-open"),
        ("debian", 580, "nvidia-driver-cuda nvidia-kernel-open-dkms"),
        ("debian", 595, "nvidia-driver-cuda nvidia-kernel-open-dkms"),
    ],
)
def test_package_names_on_both_sides_of_the_rename(system: str, branch: int, expected: str) -> None:
    assert names.driver_packages(system, branch) == (*expected.split(), "nvidia-persistenced")


def test_pinning_packages_begin_with_the_rename() -> None:
    assert names.pinning_package(580) == ""
    assert names.pinning_package(590) == "nvidia-driver-pinning-590"


@pytest.mark.parametrize(
    ("version", "own", "branch"),
    [
        ("580.95.05-0ubuntu1", "580.95.05", 580),
        ("580.159.03-1ubuntu1", "580.159.03", 580),
        ("1:580.95.05-1", "580.95.05", 580),
        ("610.43.02", "610.43.02", 610),
        ("595.84-0ubuntu1", "595.84", 595),
        ("1.19.1-1", "", 0),
        ("590-1", "", 0),
        ("2025.10.14-1", "", 0),
    ],
)
def test_the_drivers_own_version_is_found(version: str, own: str, branch: int) -> None:
    assert names.upstream(version) == own
    assert names.branch_of(version) == branch


def test_versions_are_ordered_as_numbers() -> None:
    versions = ["580.95.05-1", "580.105.08-1", "580.95.05-2", "590.48.01-1", "580.95.05"]
    assert sorted(versions, key=names.version_key) == [
        "580.95.05",
        "580.95.05-1",
        "580.95.05-2",
        "580.105.08-1",
        "590.48.01-1",
    ]


@pytest.mark.parametrize(
    ("name", "version", "driver"),
    [
        ("libnvidia-compute-580", "580.95.05-0ubuntu1", True),
        ("libcuda1", "595.91.07-1", True),
        ("firmware-nvidia-gsp", "595.91.07-1", True),
        ("nvidia-container-toolkit", "1.19.1-1", False),
        ("nvidia-driver-pinning-590.48.01", "590.48.01-0ubuntu1", False),
        ("nvidia-driver-pinning-590", "590-1", False),
        ("cuda-nvcc-13-0", "13.0.88-1", False),
        ("linux-modules-nvidia-580-open-generic", "6.8.0-31.31", False),
    ],
)
def test_only_the_driver_is_the_driver(name: str, version: str, driver: bool) -> None:
    assert names.is_driver(name, version) is driver


def test_branches() -> None:
    exact, newer = names.parse_branch("590"), names.parse_branch(" 580+ ")
    assert exact.takes("590.48.01-1")
    assert not exact.takes("595.1.1")
    assert newer.takes("595.71.05")
    assert newer.takes("580.95.05")
    assert not newer.takes("575.57.08")
    assert (str(exact), str(newer)) == ("590", "580 or newer")


@pytest.mark.parametrize(
    ("text", "says"), [("latest", "a driver branch like 580"), ("575", "does not run CUDA 13")]
)
def test_a_bad_branch_is_refused(text: str, says: str) -> None:
    with pytest.raises(names.CudaError, match=says):
        names.parse_branch(text)


def test_repositories_of_all_supported_systems() -> None:
    assert names.repository_path("ubuntu", "24.04", "x86_64") == "ubuntu2404/x86_64"
    assert names.repository_path("ubuntu", "22.04", "aarch64") == "ubuntu2204/sbsa"
    assert names.repository_path("debian", "13", "x86_64") == "debian13/x86_64"
    for system, machine, says in (
        (("fedora", "44"), "x86_64", "fedora 44 is not supported; supported: debian 12"),
        (("debian", "12"), "riscv64", "riscv64 is not supported"),
    ):
        with pytest.raises(names.CudaError, match=says):
            names.repository_path(*system, machine)


def test_closed_modules_are_told_from_open_ones() -> None:
    assert names.has_closed_modules({"nvidia-dkms-580"})
    assert names.has_closed_modules({"nvidia-dkms-580-server", "x"})
    assert names.has_closed_modules({"nvidia-kernel-dkms"})
    assert not names.has_closed_modules({"nvidia-dkms-580-open", "nvidia-kernel-open-dkms"})


def test_toolkit_packages_carry_their_version() -> None:
    assert names.toolkit_package("13.0") == "cuda-toolkit-13-0"
    for wrong in ("12.8", "13", "13.0.2"):
        with pytest.raises(names.CudaError, match=r"major\.minor of CUDA 13"):
            names.toolkit_package(wrong)
