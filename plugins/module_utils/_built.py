# SPDX-License-Identifier: Apache-2.0
"""What the builder of a release works with, what it has installed, and its bytecode."""

from __future__ import annotations

import base64
import csv
import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from ansible_collections.sm120.sglang.plugins.module_utils._release import ReleaseError
from ansible_collections.sm120.sglang.plugins.module_utils._stack import normalise

# Names of the tree are in the bytecode, not where it was built: the same source gives the same
# bytecode in every release, and Python puts in the path when it loads it.
_COMPILE = """
import concurrent.futures, json, multiprocessing, os, py_compile, sys

def one(name):
    try:
        py_compile.compile(
            name, dfile=name, quiet=2,
            invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
    except OSError as error:
        return [error.errno, name]

names = sys.stdin.buffer.read().decode("utf-8", "surrogateescape").split("\\0")
workers = min(len(os.sched_getaffinity(0)), len(names))
with concurrent.futures.ProcessPoolExecutor(
    workers, multiprocessing.get_context("fork")
) as pool:
    print(json.dumps([why for why in pool.map(one, names, chunksize=4) if why]))
"""
_DIST_INFO = re.compile(r"^(?P<name>[^-]+)-(?P<version>[^-]+)\.dist-info$")


def extract_tool(wheel: Path, script: str, target: Path) -> None:
    """Take a binary that a wheel ships out of it.

    Args:
        wheel: The wheel, such as uv's.
        script: The binary's name.
        target: Where to put it, replaced by one rename.

    Raises:
        ReleaseError: The wheel has no such binary.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if n.endswith(f".data/scripts/{script}")]
        if not names:
            raise ReleaseError(f"{wheel.name} holds no binary {script}")
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.new")
        with archive.open(names[0]) as source, temporary.open("wb") as sink:
            shutil.copyfileobj(source, sink)
    temporary.chmod(0o755)
    temporary.replace(target)


def installed(packages: Path) -> dict[str, str]:
    """Distributions in a site-packages folder.

    Args:
        packages: The folder.

    Returns:
        Normalised name to version.
    """
    return {name: folder.version for name, folder in metadata(packages).items()}


class Metadata(NamedTuple):
    """A distribution's own folder, and the version in its name."""

    folder: Path
    version: str


def metadata(packages: Path) -> dict[str, Metadata]:
    """Distributions in a site-packages folder: normalised name to their own folders."""
    found = {}
    for entry in packages.iterdir():
        match = _DIST_INFO.match(entry.name)
        if match:
            found[normalise(match["name"])] = Metadata(entry, match["version"])
    return found


def wheel_files(record: str, packages: str) -> dict[str, str]:
    """Files of an installed wheel.

    Args:
        record: Its `RECORD`.
        packages: The site-packages folder, relative to the tree.

    Returns:
        The sha256 (empty where none is recorded) by name, relative to the tree.

    Raises:
        ValueError: It is not a RECORD, or leaves the environment.
    """
    found = {}
    for row in csv.reader(record.splitlines()):
        if len(row) != 3:
            raise ValueError(f"{row!r} in a RECORD")
        name = os.path.normpath(f"{packages}/{row[0]}")
        method, _, digest = row[1].partition("=")
        if not name.startswith("venv/") or method not in ("", "sha256"):
            raise ValueError(f"{row!r} in a RECORD")
        found[name] = base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4)).hex()
    return found


def files_of(folder: Path, packages: str) -> dict[str, str]:
    """`wheel_files` of a distribution's own folder; empty where its RECORD cannot be used."""
    try:
        return wheel_files((folder / "RECORD").read_text(encoding="utf-8"), packages)
    except (OSError, ValueError):
        return {}


def cache_tag(packages: Path) -> str:
    """What a Python's bytecode is named after, `cpython-311`: by its site-packages folder."""
    return packages.parent.name.replace("python", "cpython-").replace(".", "")


def bytecode_name(source: str, tag: str) -> str:
    """Where Python keeps the bytecode of a source.

    Args:
        source: The `.py`.
        tag: See `cache_tag`.
    """
    folder, _, name = source.rpartition("/")
    return f"{folder}/__pycache__/{name.removesuffix('.py')}.{tag}.pyc"


def sources(tree: Path, found: Iterable[Metadata]) -> list[str]:
    """Sources of distributions, and those that lie beside them in site-packages.

    Args:
        tree: A release's tree.
        found: The distributions, as `metadata` gives them.

    Returns:
        Names relative to the tree.
    """
    names: set[str] = set()
    for entry in found:
        packages = entry.folder.parent
        listed = files_of(entry.folder, str(packages.relative_to(tree)))
        if not listed:  # nothing says what is its own
            return sorted(str(path.relative_to(tree)) for path in packages.rglob("*.py"))
        names.update(name for name in listed if name.endswith(".py"))
    # A RECORD may name what its wheel lacks.
    return sorted(name for name in names if (tree / name).is_file())


def stale(tree: Path, names: Iterable[str], tag: str) -> list[str]:
    """Sources without bytecode of their own.

    Args:
        tree: A release's tree.
        names: `.py` files, relative to it.
        tag: See `cache_tag`.

    Returns:
        Those whose bytecode is not there, or names another time or size (PEP 552).
    """
    found = []
    for name in names:
        status = (tree / name).stat()
        belongs = [0, int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF]
        try:
            with (tree / bytecode_name(name, tag)).open("rb") as stream:
                header = stream.read(16)
        except FileNotFoundError:
            header = b""
        if [int.from_bytes(header[at : at + 4], "little") for at in (4, 8, 12)] != belongs:
            found.append(name)
    return found


def compile_sources(tree: Path, names: Iterable[str]) -> None:
    """Compile sources with a release's own interpreter.

    Some packages ship files for other Pythons; those need not compile.

    Args:
        tree: The release's tree.
        names: The `.py` files, relative to it.

    Raises:
        OSError: Bytecode cannot be written; with the source's name.
        ReleaseError: The interpreter cannot be run.
    """
    listed = "\0".join(sorted(names))
    if not listed:
        return
    done = subprocess.run(
        [str(tree / "venv/bin/python"), "-I", "-S", "-c", _COMPILE],
        cwd=tree,
        input=os.fsencode(listed),
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()[-1500:]
        raise ReleaseError(f"{tree.name}: the bytecode could not be compiled: {said}")
    for number, name in json.loads(done.stdout):
        raise OSError(number, os.strerror(number), str(tree / name))


def compare_installed(wanted: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Compare what is installed with the lock.

    Args:
        wanted: Package to version by the lock.
        found: Package to version on disk.

    Returns:
        One sentence a difference; empty when equal.
    """
    problems = [
        f"{name}: the lock says {version}, installed is {found.get(name, 'nothing')}"
        for name, version in sorted(wanted.items())
        if found.get(name) != version
    ]
    return problems + [
        f"{name} {found[name]}: installed, but not in the lock"
        for name in sorted(set(found) - set(wanted))
    ]
