# SPDX-License-Identifier: Apache-2.0
"""SGLang's published wheels, through pip, into a cache on the controller."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import PatchError
from ansible_collections.sm120.sglang.plugins.module_utils._tree import PACKAGE
from ansible_collections.sm120.sglang.plugins.module_utils._wheelhouse import pip_error

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--retries", "2")
# From SGLang 0.5.11 on the wheels are tagged for one Python; pip gets them by that tag.
_PYTHONS = ("3.12", "3.13", "3.14", "3.11")
_VERSION = re.compile(r"\d+(?:\.\d+)*(?:(?:a|b|rc|\.post|\.dev)\d+)*(?:\+[a-z0-9.]+)?\Z")
_LISTED = re.compile(r"\(from versions: ([^)]*)\)")
_SHOWN = 5


class WheelError(PatchError):
    """A wheel cannot be had."""


def is_version(text: str) -> bool:
    """Whether a text is a version as SGLang publishes them."""
    return _VERSION.match(text) is not None


def cached(version: str, cache: Path) -> Path | None:
    """The wheel of a release that is in a cache already."""
    return next(iter(sorted(cache.glob(f"{PACKAGE}-{version}-*.whl"))), None)


def fetch(version: str, cache: Path) -> Path:
    """The wheel of a release, downloaded where it is not in the cache yet.

    Args:
        version: as on the package index, such as ``0.5.10.post1``.
        cache: a folder; made where it is not there.

    Raises:
        WheelError: the index has no such release, or cannot be reached.
    """
    found = cached(version, cache)
    if found is not None:
        return found
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=cache) as folder:
            wheel = _download(version, Path(folder))
            return wheel.replace(cache / wheel.name)
    except OSError as error:
        raise WheelError(
            f"{error.filename or cache} cannot be written: {error.strerror}",
            "name another cache folder",
        ) from error


def _download(version: str, folder: Path) -> Path:
    told = ""
    for python in _PYTHONS:
        command = [*PIP, "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--python-version", python, "--dest", str(folder), f"{PACKAGE}=={version}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = sorted(folder.glob(f"{PACKAGE}-*.whl"))
        if done.returncode == 0 and found:
            return found[0]
        told = told or done.stderr
        listed = versions_in(told)
        if not listed:  # no index answered; another Python changes nothing
            break
    raise _refusal(version, told)


def versions_in(stderr: str) -> list[str]:
    """The versions that pip found instead, oldest first."""
    match = _LISTED.search(stderr)
    listed = match.group(1).split(", ") if match else []
    return [version for version in listed if version not in {"", "none"}]


def _refusal(version: str, stderr: str) -> WheelError:
    listed = versions_in(stderr)
    if listed:
        newest = ", ".join(listed[-_SHOWN:])
        return WheelError(
            f"the package index has no wheel of {PACKAGE} {version}", f"its newest are {newest}"
        )
    return WheelError(
        f"pip found no {PACKAGE} {version}: {pip_error(stderr)}",
        "see that the package index can be reached ('pip config list'), or name a wheel or a "
        "folder instead of a version",
    )


def published() -> list[str]:
    """All versions on the package index that are no pre-releases, newest first.

    Raises:
        WheelError: the index cannot be reached.
    """
    command = [*PIP, "index", "versions", "--python-version", _PYTHONS[0], "--only-binary=:all:"]
    done = subprocess.run([*command, PACKAGE], capture_output=True, text=True, check=False)
    match = re.search(r"Available versions: (.*)", done.stdout)
    if match is None:
        raise WheelError(f"pip lists no version of {PACKAGE}: {pip_error(done.stderr)}")
    return [version.strip() for version in match.group(1).split(",")]
