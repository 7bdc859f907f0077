# SPDX-License-Identifier: Apache-2.0
"""Decide what the CUDA stack of a node lacks: the reading of `node_facts` against the wish."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.sm120.sglang.plugins.module_utils._cuda import files, names, openpgp
from ansible_collections.sm120.sglang.plugins.module_utils._cuda.runtime import running


class Target(NamedTuple):
    """The driver that a node should have.

    Attributes:
        install: Whether packages have to be installed or moved.
        version: Full package version, or the driver's own version, or empty for the newest one of
            the branch.
        branch: Driver branch.
        packages: Packages to install, the version's own one first.
        reason: Why, in a few words.
    """

    install: bool
    version: str
    branch: int
    packages: tuple[str, ...]
    reason: str


def installed_version(packages: Mapping[str, Any], system: str) -> str:
    """The installed driver's package version: that of the library that programs load.

    Args:
        packages: `packages` of the reading.
        system: os-release's ID.

    Returns:
        The version, empty without a driver.
    """
    driver: Mapping[str, str] = packages["driver"]
    first = ("libcuda1", "nvidia-driver-cuda") if system == "debian" else ("libnvidia-compute",)
    for start in first:
        for name, version in sorted(driver.items(), reverse=True):
            if name.startswith(start):
                return version
    return ""


def target(node: Mapping[str, Any], wanted: Mapping[str, Any]) -> Target:
    """Decide which driver a node should have.

    Args:
        node: The reading.
        wanted: The role's wish, see `plan`.

    Returns:
        The target; an installed driver that fits is kept as it is.

    Raises:
        names.CudaError: The wish contradicts itself.
    """
    branch = names.parse_branch(str(wanted["branch"]))
    version = str(wanted["version"])
    if version:
        if not names.upstream(version):
            raise names.CudaError(
                f"cuda_stack_driver_version is {version!r}; it is a driver version like 580.95.05, "
                "or a package version like 580.95.05-0ubuntu1"
            )
        if not branch.takes(version):
            raise names.CudaError(
                f"cuda_stack_driver_version {version} is not of the branch that "
                f"cuda_stack_driver_branch names, {branch}"
            )
    system, packages = node["system"]["os"]["id"], node["cuda"]["packages"]
    have = installed_version(packages, system)
    closed = names.has_closed_modules(set(packages["driver"]))
    if version:
        fits = bool(have) and version in (have, names.upstream(have))
    else:
        fits = bool(have) and branch.takes(have)
    number = names.branch_of(version) or (names.branch_of(have) if fits else branch.number)
    chosen = tuple(wanted["packages"]) or names.driver_packages(system, number)
    goal = version or f"newest of branch {branch.number}"
    if not have:
        return Target(True, version, number, chosen, f"not installed; {goal} is wanted")
    if not fits:
        return Target(True, version, number, chosen, f"{names.upstream(have)} -> {goal}")
    if closed:
        reason = f"{names.upstream(have)} has the proprietary modules, Blackwell needs the open"
        return Target(True, version or have, number, chosen, reason)
    return Target(False, have, number, chosen, "")


def refusals(node: Mapping[str, Any], wanted: Mapping[str, Any], aim: Target) -> list[str]:
    """Why the driver may not be changed now, one sentence each, with its remedy."""
    cuda, found = node["cuda"], []
    have = installed_version(cuda["packages"], node["system"]["os"]["id"])
    if (cuda["library"] or cuda["module"]["version"]) and not have:
        seen = cuda["library"] or cuda["module"]["version"]
        return [
            (
                f"driver {seen} was installed without apt. Remove it with nvidia-uninstall, or "
                "leave it alone with cuda_stack_driver: present"
            )
        ]
    if not aim.install:
        return []
    if have and _older(aim, have) and not wanted["allow_downgrade"]:
        goal = aim.version or f"branch {aim.branch}"
        found.append(
            f"driver {names.upstream(have)} is installed and {goal} is older. Keep it with "
            f"cuda_stack_driver_branch: '{names.branch_of(have)}', or go back with "
            "-e '{\"cuda_stack_allow_downgrade\": true}'"
        )
    if cuda["secure_boot"]["enabled"] and not cuda["secure_boot"]["enrolled"]:
        found.append(
            "Secure Boot is on and would refuse a module that nobody signed. Enrol DKMS's key "
            "(mokutil --import /var/lib/dkms/mok.pub, on Ubuntu update-secureboot-policy "
            "--enroll-key; both ask at the console of the next boot), or turn Secure Boot off"
        )
    loaded = cuda["module"]["version"]
    if loaded and not wanted["allow_reboot"]:
        found.append(
            f"kernel module {loaded} is running, and changing the driver under it breaks "
            "nvidia-smi and every new CUDA program until a reboot. Allow it with "
            "-e '{\"cuda_stack_allow_reboot\": true}'"
        )
    return found


def _older(aim: Target, have: str) -> bool:
    if not aim.version:
        return aim.branch < names.branch_of(have)
    exact = names.version_key(aim.version) < names.version_key(have)
    own = names.version_key(names.upstream(aim.version)) < names.version_key(names.upstream(have))
    return own or (exact and aim.version != names.upstream(aim.version))


def repository(node: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Where the packages come from.

    Args:
        node: The reading.
        wanted: The role's wish.

    Returns:
        `uri`, `key_url`, `fingerprints`, and `duplicates`, other files with the same repository.

    Raises:
        names.CudaError: The system is not supported, or a fingerprint is none.
    """
    system = node["system"]
    place = names.repository_path(system["os"]["id"], system["os"]["version"], system["machine"])
    file, fingerprint = names.KEYS[(system["os"]["id"], system["os"]["version"])]
    uri = (wanted["url"] or f"{names.REPOSITORIES}/{place}").rstrip("/")
    try:
        prints = [openpgp.normalise(text) for text in wanted["fingerprints"]] or [fingerprint]
    except openpgp.KeyFileError as error:
        raise names.CudaError(f"cuda_stack_repository_fingerprints: {error}") from error
    same = [
        entry["path"]
        for entry in node["cuda"]["sources"]
        if entry["path"] != files.SOURCE and entry["uri"] == uri
    ]
    return {
        "uri": uri,
        "key_url": wanted["key_url"] or f"{uri}/{file}",
        "fingerprints": prints,
        "duplicates": sorted(set(same)),
    }


def _repository_differences(
    node: Mapping[str, Any], place: Mapping[str, Any]
) -> list[tuple[str, str]]:
    found = []
    ours = [entry for entry in node["cuda"]["sources"] if entry["path"] == files.SOURCE]
    if not ours:
        found.append(("repository", f"{place['uri']} is not configured"))
    elif ours[0]["uri"] != place["uri"] or ours[0]["signed_by"] != files.KEYRING:
        found.append(("repository", f"is {ours[0]['uri']}, not {place['uri']}"))
    if place["duplicates"]:
        found.append(("repository", f"is also in {', '.join(place['duplicates'])}"))
    keys = node["cuda"]["keyring"]
    if not keys or set(keys) - set(place["fingerprints"]):
        found.append(("repository key", "missing" if not keys else f"is {', '.join(keys)}"))
    return found


def host_files(wanted: Mapping[str, Any], version: str) -> list[dict[str, str]]:
    """The host's configuration files; one with empty content must not exist.

    Args:
        wanted: The role's wish.
        version: The driver's package version, empty while it is not known.

    Returns:
        Mappings of `path` and `content`.

    Raises:
        names.CudaError: An option or argument cannot stand in its file.
    """
    managed = wanted["driver"] == "manage"
    pairs = [
        (files.OPTIONS, files.module_options(wanted["module_options"])),
        (files.GRUB, files.grub(wanted["kernel_arguments"])),
    ]
    if managed:
        pairs += [(files.UNATTENDED, files.unattended()), (files.NOUVEAU, files.nouveau())]
        if version:
            pairs.append((files.PREFERENCES, files.preferences(version)))
    return [{"path": path, "content": content} for path, content in pairs]


def plan(node: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Decide everything that `cuda_stack` would do on a node.

    Args:
        node: The reading, with its `cuda` part.
        wanted: `driver` (manage, present, none), `branch`, `version`, `packages`, `url`, `key_url`,
            `fingerprints`, `allow_downgrade`, `allow_reboot`, `persistence`, `toolkit` (apt,
            wheels, none), `toolkit_version`, `toolkit_packages`, `kernel_arguments`,
            `module_options`.

    Returns:
        `problems` (sentences; nothing may be done while there is one), `differences`, `driver`
        (a mapping, None when it stays), `repository` (None when not needed), `files`
        (those that differ), `holds` (packages to hold), `toolkit` (None when it stays), `running`.
    """
    found: dict[str, Any] = {
        "problems": [],
        "differences": [],
        "driver": None,
        "repository": None,
        "files": [],
        "holds": [],
        "toolkit": None,
        "running": {"state": "ok", "reason": ""},
    }
    if wanted["driver"] == "none" and wanted["toolkit"] != "apt" and not _tunes(node, wanted):
        return found
    try:
        _decide(node, wanted, found)
    except names.CudaError as error:
        found["problems"].append(str(error))
    return found


def _tunes(node: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether kernel options are wanted, or still there from an earlier wish."""
    exists = any(node["files"].get(p, {}).get("exists") for p in (files.OPTIONS, files.GRUB))
    return bool(wanted["kernel_arguments"] or wanted["module_options"] or exists)


def _decide(node: Mapping[str, Any], wanted: Mapping[str, Any], found: dict[str, Any]) -> None:
    cuda, notes = node["cuda"], []
    system, version = node["system"]["os"]["id"], ""
    toolkit = _toolkit(cuda, wanted)
    installs = toolkit is not None
    if wanted["driver"] == "manage":
        aim = target(node, wanted)
        found["problems"] += refusals(node, wanted, aim)
        if aim.install:
            installs = True
            notes.append(("driver", aim.reason))
            found["driver"] = _driver(node, aim, wanted)
        else:
            version = aim.version
            free = sorted(set(cuda["packages"]["driver"]) - set(cuda["packages"]["held"]))
            found["holds"] = free
            if free:
                notes.append(("driver lock", f"not held: {', '.join(free)}"))
    if installs or any(entry["path"] == files.SOURCE for entry in cuda["sources"]):
        place = repository(node, wanted)
        wrong = _repository_differences(node, place)
        found["repository"] = place if wrong or installs else None
        notes = [*wrong, *notes]
    if (installs or notes) and (cuda["dpkg"]["interrupted"] or cuda["packages"]["broken"]):
        notes.insert(0, ("dpkg", "was interrupted; it is finished first"))
    for file in host_files(wanted, version):
        reason = _file_difference(node["files"].get(file["path"], {}), file["content"])
        if reason:
            found["files"].append(file)
            notes.append((file["path"], reason))
    if toolkit is not None:
        found["toolkit"] = toolkit
        notes.append(("CUDA toolkit", f"{toolkit['packages'][0]} is not installed"))
    if wanted["driver"] != "none":
        state = running(cuda, bool(installed_version(cuda["packages"], system)))
        found["running"] = state
        if state["state"] != "ok" and found["driver"] is None:
            notes.append(("driver", state["reason"]))
    if wanted["driver"] == "manage" and wanted["persistence"] and found["driver"] is None:
        notes += _persistence(cuda)
    restart = found["driver"] is not None
    found["differences"] = [
        {"item": item, "reason": reason, "restart": restart and item == "driver"}
        for item, reason in notes
    ]


def _driver(node: Mapping[str, Any], aim: Target, wanted: Mapping[str, Any]) -> dict[str, Any]:
    kernel, pinning = node["cuda"]["kernel"], names.pinning_package(aim.branch)
    return {
        "packages": list(aim.packages),
        # DKMS builds the module for the running kernel, and needs its headers.
        "extra": [] if kernel["headers"] else [f"linux-headers-{kernel['release']}"],
        "version": aim.version,
        "branch": aim.branch,
        "pinning": pinning,
        "remove": [name for name in node["cuda"]["packages"]["pinning"] if name != pinning],
        "allow_downgrade": bool(wanted["allow_downgrade"]),
    }


def _toolkit(cuda: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    if wanted["toolkit"] != "apt":
        return None
    package = names.toolkit_package(str(wanted["toolkit_version"]))
    packages: Sequence[str] = list(wanted["toolkit_packages"]) or [package]
    have = cuda["packages"]["toolkits"]
    if all(name in have for name in packages):
        return None
    return {"packages": list(packages), "home": f"/usr/local/cuda-{wanted['toolkit_version']}"}


def _file_difference(seen: Mapping[str, Any], content: str) -> str:
    exists = bool(seen.get("exists"))
    if not content:
        return "is not wanted any more" if exists else ""
    if not exists:
        return "missing"
    if seen["sha256"] != hashlib.sha256(content.encode()).hexdigest():
        return "content differs"
    wanted = {"mode": "0644", "owner": "root", "group": "root"}
    wrong = (
        f"{key} is {seen[key]}, not {value}" for key, value in wanted.items() if seen[key] != value
    )
    return ", ".join(wrong)


def _persistence(cuda: Mapping[str, Any]) -> list[tuple[str, str]]:
    unit = cuda["persistenced"]
    if unit["load_state"] != "loaded" or cuda["module"]["version"] == "":
        return []
    if unit["active_state"] != "active" or unit["unit_file_state"] not in ("enabled", "static"):
        reason = f"is {unit['active_state']}, {unit['unit_file_state'] or 'not enabled'}"
        return [("nvidia-persistenced", reason)]
    return []
