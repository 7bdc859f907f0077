# SPDX-License-Identifier: Apache-2.0
"""Stacks: named, fully pinned sets of packages, and the release ids made from them.

A stack is a YAML file (`roles/engine_release/files/stacks/NAME.yml`) with one lock a Python
version beside it (`NAME-py311.lock`). All functions here are pure.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Raised when the layout of a release tree changes: old trees are then built anew.
LAYOUT_VERSION = 2

_PYTHON = re.compile(r"3\.\d+")
# The one version in each supported system's archive.
DISTRIBUTION_PYTHONS = {
    "Ubuntu 22.04": "3.10",
    "Debian 12": "3.11",
    "Ubuntu 24.04": "3.12",
    "Debian 13": "3.13",
}
_PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9.+!_-]+)(?=\s|$)")
_HASH = re.compile(r"(?<=\s)--hash=sha256:([0-9a-f]{64})(?=\s|$)")
_TEXTS = (
    "name",
    "description",
    "accelerator",
    "sglang",
    "torch",
    "transformers",
    "kernels",
    "glibc",
)
_REQUIRED = (*_TEXTS, "python")
_OPTIONAL_TEXTS = ("flashinfer", "minimum_driver", "toolkit")
_REASONS = ("unhashed", "deviations")
_OPTIONAL = (*_OPTIONAL_TEXTS, *_REASONS, "cuda")
_FORMS = {
    "name": (re.compile(r"[a-z0-9][a-z0-9._-]*"), "lower case letters, digits, . _ -"),
    "accelerator": (re.compile(r"cuda|cpu"), "cuda or cpu"),
    "kernels": (re.compile(r"[^=\s]+==[^=\s]+"), "package==version, as sglang-kernel==0.4.10"),
    "glibc": (re.compile(r"2\.\d+"), "a version such as '2.34'"),
}
_DEVIATIONS = ("torch", "transformers", "kernels", "flashinfer", "cuda-python", "python")


class StackError(ValueError):
    """A stack file or lock is not usable; the message names file, cause and remedy."""


@dataclass(frozen=True)
class Pin:
    """One pinned package: normalised name, exact version, allowed sha256 digests."""

    name: str
    version: str
    hashes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stack:
    """A validated stack file.

    Attributes:
        name: The stack's name, the first part of its releases' ids.
        description: One sentence.
        accelerator: `cuda`, or `cpu` for a stack without GPUs.
        sglang: The SGLang release.
        torch: The torch version, local label included (`2.13.0+cpu`).
        transformers: The transformers version.
        kernels: Kernel package and version, as `sgl-kernel==0.3.21`.
        flashinfer: Version that all flashinfer packages share, None without them.
        cuda: CUDA major version, None for a CPU stack.
        minimum_driver: Oldest NVIDIA driver, None for a CPU stack.
        toolkit: Version of nvcc in the lock, None when the stack brings no CUDA toolkit.
        python: Python versions a lock exists for, best first.
        glibc: Oldest C library the wheels accept.
        unhashed: Package to the reason why the lock has no digest for it.
        deviations: What differs from the release's own pins, to the reason.
    """

    name: str
    description: str
    accelerator: str
    sglang: str
    torch: str
    transformers: str
    kernels: str
    python: tuple[str, ...]
    glibc: str
    flashinfer: str | None = None
    cuda: int | None = None
    minimum_driver: str | None = None
    toolkit: str | None = None
    unhashed: Mapping[str, str] = field(default_factory=dict)
    deviations: Mapping[str, str] = field(default_factory=dict)


def normalise(name: str) -> str:
    """A package name in its one spelling (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def version_key(version: str) -> tuple[int, ...]:
    """Sort key of a dotted version's leading numbers: `2.34` -> (2, 34), `580.95.05` -> ..."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0]))


def parse_stack(raw: object, where: str) -> Stack:
    """Validate a stack file's content.

    Args:
        raw: The parsed YAML.
        where: The file's name, for messages.

    Returns:
        The stack.

    Raises:
        StackError: A key is missing, unknown or of the wrong type.
    """
    if not isinstance(raw, Mapping):
        raise StackError(f"{where}: a stack is a mapping, found {type(raw).__name__}")
    missing = [key for key in _REQUIRED if key not in raw]
    if missing:
        raise StackError(f"{where}: missing {', '.join(missing)}")
    unknown = sorted(set(raw) - set(_REQUIRED) - set(_OPTIONAL))
    if unknown:
        raise StackError(f"{where}: unknown {', '.join(map(str, unknown))}")
    # YAML reads 2.10 without quotes as the number 2.1.
    for key in (*_TEXTS, *(key for key in _OPTIONAL_TEXTS if raw.get(key) is not None)):
        if not isinstance(raw[key], str):
            raise StackError(f"{where}: {key} must be text in quotes, found {raw[key]!r}")
    for key, (pattern, form) in _FORMS.items():
        if not pattern.fullmatch(raw[key]):
            raise StackError(f"{where}: {key} {raw[key]!r} must be {form}")
    deviations = _reasons(raw, "deviations", where)
    strange = sorted(set(deviations) - set(_DEVIATIONS))
    if strange:
        raise StackError(
            f"{where}: deviations.{strange[0]} is unknown; known: {', '.join(_DEVIATIONS)}"
        )
    return Stack(
        name=raw["name"],
        description=raw["description"],
        accelerator=raw["accelerator"],
        sglang=raw["sglang"],
        torch=raw["torch"],
        transformers=raw["transformers"],
        kernels=raw["kernels"],
        python=_pythons(raw["python"], where),
        glibc=raw["glibc"],
        flashinfer=raw.get("flashinfer"),
        cuda=_cuda(raw, where),
        minimum_driver=raw.get("minimum_driver"),
        toolkit=raw.get("toolkit"),
        unhashed=_reasons(raw, "unhashed", where),
        deviations=deviations,
    )


def _cuda(raw: Mapping[str, Any], where: str) -> int | None:
    cuda = raw.get("cuda")
    if cuda is not None and type(cuda) is not int:
        raise StackError(f"{where}: cuda must be the major version as a number, found {cuda!r}")
    for key in ("cuda", "minimum_driver"):
        if raw["accelerator"] == "cuda" and raw.get(key) is None:
            raise StackError(f"{where}: missing {key}, which accelerator 'cuda' needs")
        if raw["accelerator"] == "cpu" and raw.get(key) is not None:
            raise StackError(f"{where}: {key} means nothing with accelerator 'cpu'; remove it")
    return cuda


def _pythons(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise StackError(f"{where}: python must be a list such as ['3.12']")
    for python in value:
        if not isinstance(python, str) or not _PYTHON.fullmatch(python):
            raise StackError(f"{where}: python {python!r} must be text such as '3.12'")
    return tuple(value)


def _reasons(raw: Mapping[str, Any], key: str, where: str) -> dict[str, str]:
    value = raw.get(key) or {}
    if not isinstance(value, Mapping) or not all(isinstance(v, str) and v for v in value.values()):
        raise StackError(f"{where}: {key} maps each name to the reason, in words")
    return {normalise(str(name)): reason for name, reason in value.items()}


def parse_lock(text: str, where: str) -> list[Pin]:
    """Read a lock: `name==version` lines, each followed by its `--hash=sha256:` values.

    Args:
        text: The lock file's content.
        where: The file's name, for messages.

    Returns:
        The pins in the file's order.

    Raises:
        StackError: A line is neither pin, hash nor comment, or a package is pinned twice.
    """
    pins: dict[str, Pin] = {}
    for number, entry in _entries(text):
        match = _PIN.match(entry)
        if match is None:
            raise StackError(f"{where}:{number}: not 'name==version': {entry[:80]!r}")
        rest = _HASH.sub("", entry[match.end() :]).strip()
        if rest:
            raise StackError(
                f"{where}:{number}: {match['name']}: only --hash=sha256:... may follow the version "
                f"(a lock has no markers), found {rest[:80]!r}"
            )
        name = normalise(match["name"])
        if name in pins:
            raise StackError(f"{where}:{number}: {name} is pinned twice")
        pins[name] = Pin(name, match["version"], tuple(_HASH.findall(entry)))
    return list(pins.values())


def _entries(text: str) -> Iterator[tuple[int, str]]:
    """Lines joined at their trailing backslashes, each with the number of its first line."""
    entry, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        words = line.strip()
        if words.startswith("#"):
            continue
        first = first if entry else number
        entry += words.removesuffix("\\")
        if not words.endswith("\\"):
            if entry.strip():
                yield first, entry.strip()
            entry = ""
    if entry.strip():
        yield first, entry.strip()


def check_coherence(stack: Stack, pins: Iterable[Pin], where: str) -> list[str]:
    """Compare what the stack says with what its lock pins.

    Args:
        stack: The stack.
        pins: The lock's pins.
        where: The lock's name, for messages.

    Returns:
        One sentence a problem, each naming the pair that disagrees; empty when coherent.
    """
    locked = {pin.name: pin for pin in pins}
    kernel_name, _, kernel_version = stack.kernels.partition("==")
    wanted = {
        "sglang": stack.sglang,
        "torch": stack.torch,
        "transformers": stack.transformers,
        normalise(kernel_name): kernel_version,
    }
    problems = []
    for name, version in wanted.items():
        found = locked[name].version if name in locked else "nothing"
        if found != version:
            problems.append(f"stack {stack.name} names {name} {version}, {where} pins {found}")
    # One version for the whole trio: the server refuses otherwise (sglang#37377, vllm#49804).
    # Only flashinfer-jit-cache has a local label, its CUDA version.
    for name, pin in sorted(locked.items()):
        if name.startswith("flashinfer-") and pin.version.partition("+")[0] != stack.flashinfer:
            problems.append(
                f"stack {stack.name} names flashinfer {stack.flashinfer or '(not at all)'}, "
                f"{where} pins {name} {pin.version}"
            )
    if stack.flashinfer and not any(name.startswith("flashinfer-") for name in locked):
        problems.append(f"stack {stack.name} names flashinfer {stack.flashinfer}, {where} has none")
    problems += [
        f"{where}: {pin.name} has no digest; add one, or name it under 'unhashed' with the reason"
        for pin in locked.values()
        if not pin.hashes and pin.name not in stack.unhashed
    ]
    return problems


def choose_python(
    stack: Stack, pythons: Mapping[str, str], wanted: str = "auto"
) -> tuple[str, str]:
    """Choose the node's interpreter for a release.

    Args:
        stack: The stack; the order of its versions is the preference.
        pythons: The node's interpreters, version to path.
        wanted: `auto`, or one version.

    Returns:
        Version and path.

    Raises:
        StackError: The node has none that the stack supports.
    """
    candidates = stack.python if wanted == "auto" else (wanted,)
    for version in candidates:
        if version in stack.python and version in pythons:
            return version, pythons[version]
    have = ", ".join(sorted(pythons)) or "none"
    newest = stack.python[0]
    raise StackError(
        f"stack {stack.name} needs Python {' or '.join(stack.python)}"
        f"{'' if wanted == 'auto' else f' (wanted: {wanted})'}, the node has {have}; "
        f"install python{newest}{_shipped_by(newest)}, or put an interpreter of that version at "
        f"/usr/local/bin/python{newest}, or choose a stack for a Python that the node has"
    )


def _shipped_by(python: str) -> str:
    systems = [name for name, version in DISTRIBUTION_PYTHONS.items() if version == python]
    return f" (in the archive of {' and '.join(systems)})" if systems else ""


def release_id(
    stack: Stack, python: str, lock_sha256: str, patches: str, local: Mapping[str, str]
) -> str:
    """Name the release that these inputs give.

    Args:
        stack: The stack.
        python: The chosen Python version.
        lock_sha256: Digest of the lock's bytes.
        patches: Digest over catalogue, selection, policy and patch engine version.
        local: Wheels built on the controller, file name to sha256.

    Returns:
        `<stack>-<12 hexadecimal digits>`: the same inputs give the same name, always.
    """
    parts = [LAYOUT_VERSION, stack.name, python, lock_sha256, patches, sorted(local.items())]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
    return f"{stack.name}-{digest}"


def wheel_tags(python: str, glibc: str, machine: str) -> list[str]:
    """Arguments that make pip choose wheels for a node instead of for this machine.

    Args:
        python: The node's Python, as `3.11`.
        glibc: The node's C library version, as `2.36`.
        machine: The node's architecture, as `x86_64`.

    Returns:
        pip's `--python-version`, `--implementation`, `--abi` and `--platform` arguments, newest
        platform first (PEP 600 names every glibc minor; PEP 513, 571 and 599 the older ones).

    Raises:
        StackError: The C library version is not `2.N`.
    """
    if not re.fullmatch(r"2\.\d+", glibc):
        raise StackError(f"glibc version {glibc!r} is not of the form 2.N")
    digits = python.replace(".", "")
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(version_key(glibc)[1], 4, -1)]
    platforms += [f"manylinux{year}_{machine}" for year in ("2014", "2010", "1")]
    platforms.append(f"linux_{machine}")
    words = ["--python-version", python, "--implementation", "cp"]
    words += [word for abi in (f"cp{digits}", "abi3", "none") for word in ("--abi", abi)]
    return words + [word for platform in platforms for word in ("--platform", platform)]
