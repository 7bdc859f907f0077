# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._cuda import apt, names

MADISON = """\
nvidia-driver-cuda | 590.48.01-1 | http://127.0.0.1/x  Packages
nvidia-driver-cuda | 580.95.05-1 | http://127.0.0.1/x  Packages
nvidia-driver-cuda | 580.105.08-1 | http://127.0.0.1/x  Packages
nvidia-driver-cuda | 580.95.05-1 | http://127.0.0.1/y  Packages
nvidia-kernel-open-dkms | 580.95.05-1 | http://127.0.0.1/x  Packages
nvidia-kernel-open-dkms | 590.48.01-1 | http://127.0.0.1/x  Packages
"""
PACKAGES = ("nvidia-driver-cuda", "nvidia-kernel-open-dkms")
HAVE = apt.parse_madison(MADISON)


def test_versions_come_newest_first_and_once() -> None:
    assert HAVE["nvidia-driver-cuda"] == ["590.48.01-1", "580.105.08-1", "580.95.05-1"]


@pytest.mark.parametrize(
    ("branch", "version", "chosen"),
    [
        # 580.105.08 lacks its kernel module: the newest that is whole is taken.
        (580, "", "580.95.05-1"),
        (580, "580.95.05", "580.95.05-1"),
        (590, "590.48.01-1", "590.48.01-1"),
        (590, "", "590.48.01-1"),
    ],
)
def test_a_whole_version_is_chosen(branch: int, version: str, chosen: str) -> None:
    assert apt.choose_version(HAVE, PACKAGES, branch, version) == chosen


@pytest.mark.parametrize(
    ("branch", "version", "says"),
    [
        (595, "", "has no nvidia-driver-cuda of branch 595; it has branches 580, 590"),
        (580, "580.1.1", "has no nvidia-driver-cuda 580.1.1; .* among them 580.105.08-1, 580.95"),
        (580, "580.105.08", "but not nvidia-kernel-open-dkms of the same version"),
    ],
)
def test_what_there_is_instead_is_named(branch: int, version: str, says: str) -> None:
    with pytest.raises(names.CudaError, match=says):
        apt.choose_version(HAVE, PACKAGES, branch, version)


def test_a_repository_without_a_driver() -> None:
    with pytest.raises(names.CudaError, match="no package nvidia-driver-cuda"):
        apt.choose_version({}, PACKAGES, 580, "")


def test_a_simulation_is_read() -> None:
    found = apt.parse_simulation(
        "Inst libcuda1 [580.95.05-1] (590.48.01-1 NVIDIA:  [amd64]) []\n"
        "Inst dkms (3.0.10-8 Debian:12 [all])\nRemv nvidia-driver-pinning-580 [580-1]\n"
        "Conf libcuda1 (590.48.01-1 NVIDIA:  [amd64])\n"
    )
    assert found.install == {"libcuda1": "590.48.01-1", "dkms": "3.0.10-8"}
    assert found.remove == ["nvidia-driver-pinning-580"]
    assert apt.unexpected(found, "590.48.01-1", found.remove) == []
    assert apt.unexpected(found, "580.95.05-1", []) == ["libcuda1 would become 590.48.01-1"]
    other = apt.Simulation({}, ["openssh-server"])
    assert apt.unexpected(other, "580.95.05-1", []) == ["openssh-server would be removed"]


def test_announced_sizes_are_read() -> None:
    text = (
        "Need to get 81.5 MB/400 MB of archives.\n"
        "After this operation, 1,234 MB of additional disk space will be used.\n"
    )
    assert apt.parse_sizes(text) == (81_500_000, 1_234_000_000)
    assert apt.parse_sizes("Need to get 0 B of archives.\n") == (0, 0)
    assert apt.parse_sizes("After this operation, 3 MB disk space will be freed.\n") == (0, 0)


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (
            (
                "Err:1 http://x  InRelease\n  Could not connect to 127.0.0.1:1 (127.0.0.1). - "
                "connect (111: Connection refused)\nW: Failed to fetch http://x/InRelease"
            ),
            "cannot be reached from the node",
        ),
        (
            (
                "W: GPG error: http://x  InRelease: The following signatures couldn't be verified "
                "because the public key is not available: NO_PUBKEY 0123456789ABCDEF\n"
                "E: The repository 'http://x  InRelease' is not signed."
            ),
            "signed with another key",
        ),
        ("E: You don't have enough free space in /var/cache/apt/archives/.", "the disk is full"),
        ("E: The repository 'http://x  Release' does not have a Release file.", "no such repos"),
        ("E: Could not get lock /var/lib/dpkg/lock-frontend.", "apt is busy"),
        ("E: Unable to correct problems, you have held broken packages.", "do not fit together"),
        ("E: Conflicting values set for option Signed-By regarding source x", "configured twice"),
        (
            (
                "Error! Bad return status for module build on kernel: 7.1.8 (x86_64)\n"
                "dpkg: error processing package nvidia-kernel-open-dkms (--configure):"
            ),
            "make.log",
        ),
        ("something else\n", "apt failed (something else)"),
    ],
)
def test_a_failure_is_explained(output: str, says: str) -> None:
    assert says in apt.explain("the lists", output)


def test_a_warning_that_leaves_old_lists_is_an_error() -> None:
    text = "Get:1 http://x  Packages\nW: Failed to fetch http://x/Packages  404\nReading lists\n"
    assert apt.errors(text) == ["W: Failed to fetch http://x/Packages  404"]
