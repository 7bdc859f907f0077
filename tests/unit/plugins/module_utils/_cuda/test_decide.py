# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._cuda import decide, files, names
from hypothesis import given
from hypothesis import strategies as st

FINGERPRINT = "EB693B3035CD5710E231E123A4B469963BF863CC"

ROOTS = {"exists": True, "mode": "0644", "owner": "root", "group": "root"}


def wish(**changes: Any) -> dict[str, Any]:
    return {
        "driver": "manage",
        "branch": "580+",
        "version": "",
        "packages": [],
        "url": "",
        "key_url": "",
        "fingerprints": [],
        "allow_downgrade": False,
        "allow_reboot": False,
        "persistence": True,
        "toolkit": "wheels",
        "toolkit_version": "13.0",
        "toolkit_packages": [],
        "kernel_arguments": [],
        "module_options": {},
    } | changes


def node(version: str = "", **changes: Any) -> dict[str, Any]:
    """A Debian 12 node, bare or with a driver that is as it should be."""
    driver = {}
    if version:
        driver = dict.fromkeys(
            ("libcuda1", "nvidia-driver-cuda", "nvidia-kernel-open-dkms"), version
        )
    own = names.upstream(version)
    cuda: dict[str, Any] = {
        "packages": {
            "driver": driver,
            "held": sorted(driver),
            "pinning": [],
            "toolkits": {},
            "broken": [],
            "headers": [],
        },
        "module": {
            "version": own,
            "open": True if own else None,
            "loaded": bool(own),
            "nouveau": False,
        },
        "library": own,
        "secure_boot": {"enabled": False, "enrolled": False},
        "sources": [],
        "keyring": [],
        "dpkg": {"interrupted": False},
        "persistenced": {
            "load_state": "loaded" if own else "not-found",
            "active_state": "active",
            "unit_file_state": "enabled",
        },
        "kernel": {"release": "6.1.0-40-amd64", "headers": True},
    }
    contents = {}
    if version:
        contents = {
            files.UNATTENDED: files.unattended(),
            files.NOUVEAU: files.nouveau(),
            files.PREFERENCES: files.preferences(version),
        }
    found = {
        "system": {"os": {"id": "debian", "version": "12"}, "machine": "x86_64"},
        "cuda": cuda,
        "files": {
            path: {**ROOTS, "sha256": hashlib.sha256(text.encode()).hexdigest()}
            for path, text in contents.items()
        },
    }
    for path, value in changes.items():
        place: Any = found
        *parents, last = path.split("__")
        for key in parents:
            place = place[key]
        place[last] = value
    return found


def notes(found: dict[str, Any]) -> dict[str, str]:
    return {entry["item"]: entry["reason"] for entry in found["differences"]}


def test_a_node_that_is_right_needs_nothing() -> None:
    found = decide.plan(node("580.95.05-1"), wish())
    assert found["problems"] == []
    assert found["differences"] == []
    assert found["driver"] is None
    assert found["repository"] is None


def test_a_bare_node_gets_the_newest_of_the_branch() -> None:
    found = decide.plan(node(), wish())
    assert found["problems"] == []
    assert notes(found)["driver"] == "not installed; newest of branch 580 is wanted"
    assert found["driver"] == {
        "packages": ["nvidia-driver-cuda", "nvidia-kernel-open-dkms", "nvidia-persistenced"],
        "extra": [],
        "version": "",
        "branch": 580,
        "pinning": "",
        "remove": [],
        "allow_downgrade": False,
    }
    assert found["repository"] == {
        "uri": "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64",
        "key_url": "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/"
        "3bf863cc.pub",
        "fingerprints": [FINGERPRINT],
        "duplicates": [],
    }
    assert {"repository", "repository key", files.NOUVEAU, files.UNATTENDED} <= set(notes(found))


def test_headers_come_along_where_dkms_would_miss_them() -> None:
    found = decide.plan(node(cuda__kernel__headers=False), wish())
    assert found["driver"]["extra"] == ["linux-headers-6.1.0-40-amd64"]


@pytest.mark.parametrize("version", ["580.95.05-1", "595.71.05-1", "610.43.02-1"])
def test_an_installed_driver_is_kept(version: str) -> None:
    assert decide.plan(node(version), wish())["differences"] == []


def test_a_newer_branch_is_a_plan_line_and_needs_consent() -> None:
    wanted = wish(branch="590")
    found = decide.plan(node("580.95.05-1"), wanted)
    assert notes(found)["driver"] == "580.95.05 -> newest of branch 590"
    assert found["driver"]["pinning"] == "nvidia-driver-pinning-590"
    (problem,) = found["problems"]
    assert "kernel module 580.95.05 is running" in problem
    allowed = decide.plan(node("580.95.05-1"), wish(branch="590", allow_reboot=True))
    assert allowed["problems"] == []
    assert allowed["differences"][-1]["restart"] or any(
        entry["restart"] for entry in allowed["differences"]
    )


def test_going_back_needs_consent_of_its_own() -> None:
    for wanted in (wish(branch="580"), wish(version="590.48.01", branch="590")):
        found = decide.plan(node("595.71.05-1"), wanted | {"allow_reboot": True})
        (problem,) = found["problems"]
        assert "595.71.05 is installed and" in problem
        assert "cuda_stack_allow_downgrade" in problem
        both = wanted | {"allow_reboot": True, "allow_downgrade": True}
        assert decide.plan(node("595.71.05-1"), both)["problems"] == []


def test_the_pinning_of_another_branch_goes() -> None:
    there = node("590.48.01-1", cuda__packages__pinning=["nvidia-driver-pinning-590"])
    found = decide.plan(there, wish(branch="580", allow_reboot=True, allow_downgrade=True))
    assert found["driver"]["remove"] == ["nvidia-driver-pinning-590"]
    assert found["driver"]["pinning"] == ""


def test_proprietary_modules_are_replaced() -> None:
    there = node("580.95.05-1")
    packages = there["cuda"]["packages"]["driver"]
    packages["nvidia-kernel-dkms"] = packages.pop("nvidia-kernel-open-dkms")
    found = decide.plan(there, wish(allow_reboot=True))
    assert "Blackwell needs the open" in notes(found)["driver"]
    assert found["driver"]["version"] == "580.95.05-1"


@pytest.mark.parametrize(
    ("change", "item", "says"),
    [
        ({"cuda__packages__held": ["libcuda1"]}, "driver lock", "not held: nvidia-driver-cuda, nv"),
        ({"files": {}}, files.PREFERENCES, "missing"),
        (
            {"cuda__library": "580.105.08"},
            "driver",
            (
                "Driver/library version mismatch: the running kernel module is 580.95.05, the "
                "libraries are 580.105.08"
            ),
        ),
        ({"cuda__module__version": ""}, "driver", "the kernel module is not loaded; a reboot"),
        ({"cuda__module__open": False}, "driver", "the proprietary one"),
        ({"cuda__persistenced__active_state": "failed"}, "nvidia-persistenced", "is failed"),
    ],
)
def test_what_came_undone_is_seen(change: dict[str, Any], item: str, says: str) -> None:
    found = decide.plan(node("580.95.05-1", **change), wish())
    assert says in notes(found)[item]
    assert found["driver"] is None
    assert found["problems"] == []


def test_nouveau_is_named() -> None:
    there = node("580.95.05-1", cuda__module__version="", cuda__module__nouveau=True)
    assert "because nouveau holds the cards" in notes(decide.plan(there, wish()))["driver"]


def test_secure_boot_is_refused_unless_dkms_signs_with_an_enrolled_key() -> None:
    on = {"enabled": True, "enrolled": False}
    (problem,) = decide.plan(node(cuda__secure_boot=on), wish())["problems"]
    assert "mokutil --import /var/lib/dkms/mok.pub" in problem
    signed = node(cuda__secure_boot={"enabled": True, "enrolled": True})
    assert decide.plan(signed, wish())["problems"] == []
    # A driver that is there and runs is no question of Secure Boot.
    assert decide.plan(node("580.95.05-1", cuda__secure_boot=on), wish())["problems"] == []


def test_a_driver_of_the_runfile_is_left_alone() -> None:
    there = node(cuda__library="575.57.08", cuda__module__version="575.57.08")
    (problem,) = decide.plan(there, wish())["problems"]
    assert "575.57.08 was installed without apt" in problem
    assert "cuda_stack_driver: present" in problem
    # A package that only looks like the driver's changes nothing.
    there["cuda"]["packages"]["driver"] = {"nvidia-settings": "510.47.03-0ubuntu4"}
    assert decide.plan(there, wish())["problems"] == [problem]


def test_a_driver_that_is_not_ours_is_only_looked_at() -> None:
    there = node("575.57.08-1", cuda__library="575.64.03", files={})
    found = decide.plan(there, wish(driver="present"))
    assert list(notes(found)) == ["driver"]
    assert "version mismatch" in notes(found)["driver"]
    assert found["files"] == []
    assert decide.plan(there, wish(driver="none"))["differences"] == []


def test_our_repository_follows_its_key_and_its_address() -> None:
    ours = {"path": files.SOURCE, "uri": "http://old", "signed_by": files.KEYRING}
    there = node("580.95.05-1", cuda__sources=[ours], cuda__keyring=["A" * 40])
    found = notes(decide.plan(there, wish(url="http://new/")))
    assert found["repository"] == "is http://old, not http://new"
    assert found["repository key"] == f"is {'A' * 40}"
    right = node("580.95.05-1", cuda__sources=[ours], cuda__keyring=[FINGERPRINT])
    assert decide.plan(right, wish(url="http://old"))["differences"] == []


def test_the_same_repository_in_another_file_is_set_aside() -> None:
    other = {"path": "/etc/apt/sources.list.d/cuda.list", "uri": "http://x", "signed_by": "/y"}
    found = decide.plan(node(cuda__sources=[other]), wish(url="http://x"))
    assert found["repository"]["duplicates"] == ["/etc/apt/sources.list.d/cuda.list"]


def test_an_interrupted_dpkg_comes_first() -> None:
    found = decide.plan(node(cuda__packages__broken=["x"]), wish())
    assert found["differences"][0]["item"] == "dpkg"
    # Without anything to do it is not ours to touch.
    assert (
        decide.plan(node("580.95.05-1", cuda__packages__broken=["x"]), wish())["differences"] == []
    )


def test_a_toolkit_from_apt_stands_beside() -> None:
    found = decide.plan(node("580.95.05-1"), wish(toolkit="apt", toolkit_version="13.1"))
    assert found["toolkit"] == {"packages": ["cuda-toolkit-13-1"], "home": "/usr/local/cuda-13.1"}
    assert found["repository"] is not None
    there = node("580.95.05-1", cuda__packages__toolkits={"cuda-toolkit-13-1": "13.1.0-1"})
    assert decide.plan(there, wish(toolkit="apt", toolkit_version="13.1"))["toolkit"] is None


def test_kernel_settings_are_opt_in_and_can_be_taken_back() -> None:
    wanted = wish(driver="none", kernel_arguments=["iommu=pt"], module_options={"a": "b=1"})
    found = decide.plan(node(), wanted)
    assert [file["path"] for file in found["files"]] == [files.OPTIONS, files.GRUB]
    left = node(files={files.GRUB: {"exists": True, "sha256": "x"}})
    gone = decide.plan(left, wish(driver="none"))
    assert gone["files"] == [{"path": files.GRUB, "content": ""}]
    assert notes(gone) == {files.GRUB: "is not wanted any more"}


@pytest.mark.parametrize(
    ("change", "wanted", "says"),
    [
        ({}, {"branch": "latest"}, "a driver branch like 580"),
        ({}, {"branch": "570"}, "does not run CUDA 13"),
        ({}, {"version": "new"}, "a driver version like 580.95.05"),
        ({}, {"version": "590.48.01", "branch": "580"}, "is not of the branch"),
        ({"system__machine": "riscv64"}, {}, "riscv64 is not supported"),
        ({"system__os": {"id": "fedora", "version": "44"}}, {}, "fedora 44 is not supported"),
        ({}, {"fingerprints": ["3BF863CC"]}, "40 hexadecimal digits"),
        ({}, {"toolkit": "apt", "toolkit_version": "12.8"}, "major.minor of CUDA 13"),
        ({}, {"kernel_arguments": ["a b"]}, "is no kernel argument"),
    ],
)
def test_bad_wishes_are_refused(change: dict[str, Any], wanted: dict[str, Any], says: str) -> None:
    found = decide.plan(node(**change), wish(**wanted))
    assert any(says in problem for problem in found["problems"])


BRANCHES = st.sampled_from(["580", "580+", "590", "590+", "610"])
VERSIONS = st.sampled_from(["", "580.95.05-1", "580.105.08-1", "590.48.01-1", "610.43.02-1"])


@given(BRANCHES, VERSIONS, VERSIONS, st.booleans(), st.booleans())
def test_nothing_disturbs_without_consent(
    branch: str, have: str, version: str, reboot: bool, downgrade: bool
) -> None:
    wanted = wish(branch=branch, version=version, allow_reboot=reboot, allow_downgrade=downgrade)
    found = decide.plan(node(have), wanted)
    if found["problems"] or found["driver"] is None:
        return
    # A change that may be made: consent is there for whatever it disturbs.
    assert reboot or not have
    aim = names.branch_of(version) or found["driver"]["branch"]
    if have and aim < names.branch_of(have):
        assert downgrade


@given(BRANCHES, VERSIONS)
def test_what_is_decided_once_is_decided_for_good(branch: str, have: str) -> None:
    """After a change to what the plan wants, the plan is empty."""
    found = decide.plan(node(have), wish(branch=branch, allow_reboot=True, allow_downgrade=True))
    if found["driver"] is None:
        return
    newest = {580: "580.105.08-1", 590: "590.48.01-1", 610: "610.43.02-1"}
    after = node(newest[found["driver"]["branch"]])
    assert decide.plan(after, wish(branch=branch))["differences"] == []
