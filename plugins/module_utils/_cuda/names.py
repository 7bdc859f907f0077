# SPDX-License-Identifier: Apache-2.0
"""Names: NVIDIA's repositories, packages and versions on Debian and Ubuntu.

Facts, each read from public sources:

- Repositories are `<distribution><release without dot>/<architecture>`, and arm64 servers are
  `sbsa` (NVIDIA driver installation guide, "Network repository").
- Signing keys: 3bf863cc.pub signs Ubuntu and Debian 12, 8793F200.pub Debian 13.
- Ubuntu's packages carry the branch in their names up to 580 (`libnvidia-compute-580`), from 590
  on they do not (driver installation guide, "Ubuntu 590 and later packages"); Debian's never did.
- Compute-only sets are those of the same guide; `nvidia-smi` is in `nvidia-utils-580`, from 590 on
  in `libnvidia-compute`, on Debian in `nvidia-driver-cuda`.
- `nvidia-driver-pinning-<branch>` locks a branch and has to be installed before the driver.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

RENAMED = 590  # the first branch without its number in Ubuntu's package names
# The first open-module branch whose userspace knows CUDA 13.
OLDEST = 580

REPOSITORIES = "https://developer.download.nvidia.com/compute/cuda/repos"
# (distribution, version) -> name of the signing key's file and its fingerprint.
KEYS = {
    ("debian", "12"): ("3bf863cc.pub", "EB693B3035CD5710E231E123A4B469963BF863CC"),
    ("debian", "13"): ("8793F200.pub", "02182E60104FCDC26EAE1B8597A5D4CB8793F200"),
    ("ubuntu", "22.04"): ("3bf863cc.pub", "EB693B3035CD5710E231E123A4B469963BF863CC"),
    ("ubuntu", "24.04"): ("3bf863cc.pub", "EB693B3035CD5710E231E123A4B469963BF863CC"),
}
ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "sbsa"}

# What belongs to the driver, by name; other packages with such names (the container toolkit) have
# versions of another form, see DRIVER_VERSION.
FAMILY = (
    "nvidia-*",
    "libnvidia-*",
    "cuda-drivers*",
    "libcuda1",
    "libcudadebugger1",
    "libnvcuvid1",
    "libnvoptix1",
    "libnvsdm*",
    "libegl-nvidia*",
    "libgl*-nvidia*",
    "libglx-nvidia*",
    "firmware-nvidia-*",
    "xserver-xorg-video-nvidia*",
)
FAMILY_PATTERN = re.compile(
    r"nvidia-|libnvidia-|cuda-drivers|libcuda1$|libcudadebugger1$|libnvcuvid1$|libnvoptix1$|"
    r"libnvsdm|libegl-nvidia|libgl.*-nvidia|libglx-nvidia|firmware-nvidia-|"
    r"xserver-xorg-video-nvidia"
)
_VERSION = re.compile(r"(?:\d+:)?((\d{3})\.\d{2,3}(?:\.\d{2})?)(?:-.*)?")
_BRANCH = re.compile(r"(\d{3})(\+?)")


class CudaError(Exception):
    """A wish that cannot be met, in words that name the remedy."""


@dataclass(frozen=True)
class Branch:
    """A wanted driver branch.

    Attributes:
        number: 580 and the like.
        or_newer: An installed driver of a newer branch is as good.
    """

    number: int
    or_newer: bool

    def takes(self, version: str) -> bool:
        """Whether a driver version is of this branch, or newer where that is as good."""
        number = branch_of(version)
        return number == self.number or (self.or_newer and number > self.number)

    def __str__(self) -> str:
        return f"{self.number}{' or newer' if self.or_newer else ''}"


def parse_branch(text: str) -> Branch:
    """Parse `580` or `580+`.

    Args:
        text: As an operator writes it.

    Returns:
        The branch.

    Raises:
        CudaError: It is of another form, or too old for CUDA 13.
    """
    found = _BRANCH.fullmatch(text.strip())
    if not found:
        raise CudaError(
            f"cuda_stack_driver_branch is {text!r}; it is a driver branch like 580, or 580+ for "
            "that or a newer one that is installed already"
        )
    if int(found[1]) < OLDEST:
        raise CudaError(
            f"driver branch {found[1]} does not run CUDA 13; the oldest that does is {OLDEST}"
        )
    return Branch(int(found[1]), bool(found[2]))


def upstream(version: str) -> str:
    """The driver's own version in a package version: `580.95.05` of `1:580.95.05-0ubuntu1`.

    Args:
        version: A Debian version or the driver's own.

    Returns:
        The driver's version, empty when it is of another form.
    """
    found = _VERSION.fullmatch(version)
    return found[1] if found else ""


def branch_of(version: str) -> int:
    """Driver branch of a version, 0 when it is none."""
    found = _VERSION.fullmatch(version)
    return int(found[2]) if found else 0


def version_key(version: str) -> tuple[int, ...]:
    """An order of driver package versions: driver version first, then the packaging."""
    own = upstream(version)
    rest = version.partition(own)[2] if own else version
    return (*map(int, own.split(".") if own else []), -1, *map(int, re.findall(r"\d+", rest)))


def is_driver(name: str, version: str) -> bool:
    """Whether an installed package is part of the driver.

    Args:
        name: Package name.
        version: Its version.

    Returns:
        True for the driver's own family; pinning packages, which have no driver in them, are not.
    """
    return (
        bool(FAMILY_PATTERN.match(name))
        and branch_of(version) > 0
        and not name.startswith("nvidia-driver-pinning")
    )


def repository_path(system: str, version: str, machine: str) -> str:
    """Folder of a system's repository below `REPOSITORIES`.

    Args:
        system: os-release's ID.
        version: os-release's VERSION_ID.
        machine: `uname -m`.

    Returns:
        For example `ubuntu2404/sbsa`.

    Raises:
        CudaError: NVIDIA's repository for it is not known here.
    """
    if (system, version) not in KEYS:
        known = ", ".join(" ".join(key) for key in KEYS)
        raise CudaError(f"{system} {version} is not supported; supported: {known}")
    if machine not in ARCHITECTURES:
        raise CudaError(
            f"{machine} is not supported; NVIDIA's repositories are for "
            f"{' and '.join(ARCHITECTURES)}"
        )
    return f"{system}{version.replace('.', '')}/{ARCHITECTURES[machine]}"


def driver_packages(system: str, branch: int) -> tuple[str, ...]:
    """The compute-only driver with open kernel modules.

    Args:
        system: `debian` or `ubuntu`.
        branch: Driver branch.

    Returns:
        Package names; the first one is in every branch's own repository and decides the version.
    """
    if system == "debian":
        return ("nvidia-driver-cuda", "nvidia-kernel-open-dkms", "nvidia-persistenced")
    if branch < RENAMED:
        return (
            f"libnvidia-compute-{branch}",
            f"nvidia-dkms-{branch}-open",
            f"nvidia-utils-{branch}",
            "nvidia-persistenced",
        )
    return ("libnvidia-compute", "nvidia-dkms-open", "nvidia-persistenced")


def pinning_package(branch: int) -> str:
    """The package that locks a branch, empty before NVIDIA asked for it."""
    return f"nvidia-driver-pinning-{branch}" if branch >= RENAMED else ""


def has_closed_modules(names: set[str]) -> bool:
    """Whether installed packages bring the proprietary kernel modules, which Blackwell refuses."""
    closed = re.compile(r"nvidia-dkms(-\d{3}(-server)?)?|nvidia-kernel-dkms")
    return any(closed.fullmatch(name) for name in names)


def toolkit_package(version: str) -> str:
    """The side-by-side toolkit package of `13.0`: `cuda-toolkit-13-0`.

    Raises:
        CudaError: It is not a CUDA 13 version.
    """
    if not re.fullmatch(r"13\.\d+", version):
        raise CudaError(
            f"cuda_stack_toolkit_version is {version!r}; it is major.minor of CUDA 13, like 13.0"
        )
    return f"cuda-toolkit-{version.replace('.', '-')}"
