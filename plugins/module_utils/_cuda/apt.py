# SPDX-License-Identifier: Apache-2.0
"""What apt says, and what it means: parsers and judgements over its output, without effects."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ansible_collections.sm120.sglang.plugins.module_utils._cuda import names

_CAUSES = (
    (
        (
            r"NO_PUBKEY (\w+)|EXPKEYSIG (\w+)|BADSIG (\w+)|signatures? (?:couldn't be|were) "
            r"(?:verified|invalid)|is not signed|not available: NO_PUBKEY"
        ),
        (
            "the repository is signed with another key than the one that is pinned. If NVIDIA (or "
            "your mirror) changed its key, check the new fingerprint and set "
            "cuda_stack_repository_fingerprints"
        ),
    ),
    (
        (
            r"Could not connect|Connection (?:refused|timed out|failed)|Could not resolve|"
            r"Temporary failure resolving|Unable to connect|Network is unreachable"
        ),
        (
            "the repository cannot be reached from the node: check network, proxy and "
            "cuda_stack_repository_url"
        ),
    ),
    (
        r"404  ?Not Found|does not have a Release file|File not found",
        "there is no such repository at that address: check cuda_stack_repository_url",
    ),
    (
        r"Hash Sum mismatch|File has unexpected size",
        "the repository changes just now, or a proxy holds old files: run again in a few minutes",
    ),
    (
        r"[Nn]ot enough free space|don't have enough free space|No space left on device",
        "the disk is full: free space in /var/cache/apt and /usr",
    ),
    (
        (
            r"Bad return status for module build|dkms autoinstall on|"
            r"error processing package (?:nvidia-dkms|nvidia-kernel)\S*"
        ),
        (
            "DKMS could not build the kernel module: read /var/lib/dkms/nvidia/*/build/make.log; "
            "most often the running kernel is newer than the driver knows, or its headers miss"
        ),
    ),
    (
        r"Could not get lock|Unable to (?:acquire|lock)|dpkg frontend lock",
        "apt is busy with something else",
    ),
    (r"Conflicting values set for option Signed-By", "the same repository is configured twice"),
    (
        r"unmet dependencies|held broken packages|not installable",
        "the packages do not fit together, or another package needs another version",
    ),
)


class Simulation(NamedTuple):
    """What `apt-get -s` would do: package to version, and packages to remove."""

    install: dict[str, str]
    remove: list[str]


def cause(output: str) -> str:
    """What a failure of apt means and what to do; empty when nothing is known about it."""
    for pattern, meaning in _CAUSES:
        if re.search(pattern, output):
            return meaning
    return ""


def errors(output: str) -> list[str]:
    """The lines of apt that say what went wrong, without repetition.

    A repository that cannot be fetched is only a warning to apt, and no success to us.
    """
    found = [
        line.strip()
        for line in output.splitlines()
        if re.match(r"E: |Err:|W: (GPG error|Failed to fetch|Some index files)|dpkg: error", line)
    ]
    return list(dict.fromkeys(found))


def explain(what: str, output: str) -> str:
    """One message for a failed step of apt: cause, evidence, remedy.

    Args:
        what: What was tried.
        output: What apt said.
    """
    lines = errors(output)
    unmet = re.findall(
        r"^ \S+ : (?:Depends|Conflicts|Breaks|PreDepends): .*$", output, re.MULTILINE
    )
    said = "; ".join([*(line.strip() for line in unmet[:4]), *lines[:3]])
    last = output.strip().splitlines()[-1:] or ["no output"]
    return f"{what}: {cause(output) or 'apt failed'} ({said or last[0].strip()})"


def parse_madison(text: str) -> dict[str, list[str]]:
    """Available versions in the output of `apt-cache madison`.

    Args:
        text: Lines of `package | version | source`.

    Returns:
        Package to versions, newest first, each once.
    """
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 3 and cells[1] not in found.setdefault(cells[0], []):
            found[cells[0]].append(cells[1])
    for versions in found.values():
        versions.sort(key=names.version_key, reverse=True)
    return found


def parse_simulation(text: str) -> Simulation:
    """Read the output of `apt-get -s install`."""
    install = re.findall(r"^Inst (\S+) (?:\[[^]]*\] )?\((\S+)", text, re.MULTILINE)
    remove = re.findall(r"^Remv (\S+)", text, re.MULTILINE)
    return Simulation(dict(install), list(remove))


def parse_sizes(text: str) -> tuple[int, int]:
    """Bytes to download and bytes more on disk, from what `apt-get` announces."""
    units = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}

    def number(pattern: str) -> int:
        found = re.search(pattern, text)
        return int(float(found[1].replace(",", "")) * units[found[2]]) if found else 0

    download = number(r"Need to get ([\d.,]+) (B|kB|MB|GB)")
    return download, number(r"After this operation, ([\d.,]+) (B|kB|MB|GB) of additional")


def choose_version(
    available: Mapping[str, Sequence[str]], packages: Sequence[str], branch: int, version: str
) -> str:
    """Choose the package version to install.

    Args:
        available: Package to versions, newest first.
        packages: Packages that all have to have it; the first decides.
        branch: Wanted branch.
        version: Wanted package version or driver version, empty for the newest of the branch.

    Returns:
        A full package version.

    Raises:
        names.CudaError: The repository has none such; what it has is named.
    """
    first = packages[0]
    have = [v for v in available.get(first, ()) if names.branch_of(v)]
    branches = sorted({names.branch_of(v) for v in have})
    if version:
        fitting = [v for v in have if version in (v, names.upstream(v))]
    else:
        fitting = [v for v in have if names.branch_of(v) == branch]
    for candidate in fitting:
        if all(candidate in available.get(name, ()) for name in packages):
            return candidate
    if not have:
        raise names.CudaError(
            f"the repository has no package {first}, so no driver branch {branch}; look at what it "
            "has with `apt-cache search nvidia-driver`, and set cuda_stack_driver_branch"
        )
    if not fitting:
        near = [v for v in have if names.branch_of(v) == (names.branch_of(version) or branch)]
        shown = ", ".join((near or have)[:8])
        raise names.CudaError(
            f"the repository has no {first} {version or f'of branch {branch}'}; it has branches "
            f"{', '.join(map(str, branches))}, among them {shown}"
        )
    lacking = [name for name in packages if fitting[0] not in available.get(name, ())]
    raise names.CudaError(
        f"the repository has {first} {fitting[0]}, but not {' and '.join(lacking)} of the same "
        "version: a mirror that is not complete, or a package set of your own that does not fit"
    )


def unexpected(found: Simulation, version: str, allowed: Sequence[str]) -> list[str]:
    """What a transaction would do beyond the driver, as sentences.

    Args:
        found: The simulation.
        version: The driver's package version that is meant.
        allowed: Packages that may go.

    Returns:
        Nothing when it installs this driver alone and removes only its own family.
    """
    wrong = [
        f"{name} would become {other}"
        for name, other in found.install.items()
        if names.is_driver(name, other) and names.upstream(other) != names.upstream(version)
    ]
    own = names.FAMILY_PATTERN
    gone = [name for name in found.remove if name not in allowed and not own.match(name)]
    return wrong + [f"{name} would be removed" for name in gone]
