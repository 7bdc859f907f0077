# SPDX-License-Identifier: Apache-2.0
"""Gives a published engine wheel the tag of every Python, for a lab without Python 3.12.

From 0.5.11 on SGLang publishes wheels for CPython 3.12 alone, and a distribution has one Python.
What is compiled in such a wheel are extensions that the engine does without on a CPU; the rest is
plain Python. The content stays as it is: only the tag in `WHEEL` and the line about it in `RECORD`
change. On a GPU node the published wheel is used.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

TAG = "py3-none-any"
_FIXED_DATE = (2020, 1, 1, 0, 0, 0)


class EngineWheelError(RuntimeError):
    """The wheel could not be had; the message says why."""


def download(version: str, folder: Path) -> Path:
    """Get the published wheel from pip's own index.

    Args:
        version: The engine's version.
        folder: Where to put it.

    Returns:
        Its path.

    Raises:
        EngineWheelError: pip failed, with its words.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--python-version", "3.12"]
    command += ["--dest", str(folder), f"sglang=={version}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = sorted(folder.glob(f"sglang-{version}-*.whl"))
    if done.returncode != 0 or not found:
        raise EngineWheelError(f"pip could not download sglang {version}: {done.stderr.strip()}")
    return found[0]


def retag(wheel: Path, out_dir: Path) -> Path:
    """Write a wheel anew under the tag of every Python.

    Args:
        wheel: The published wheel.
        out_dir: Folder for the new one; a wheel of the same name is replaced.

    Returns:
        Path of the new wheel; the same input gives the same bytes.

    Raises:
        EngineWheelError: It is no wheel as the specification has it.
    """
    name, version = wheel.name.split("-")[:2]
    info = f"{name}-{version}.dist-info"
    out_dir.mkdir(parents=True, exist_ok=True)
    target = out_dir / f"{name}-{version}-{TAG}.whl"
    temporary = target.with_suffix(".new")
    with zipfile.ZipFile(wheel) as source:
        try:
            head = _retagged(source.read(f"{info}/WHEEL"))
            record = _recorded(source.read(f"{info}/RECORD").decode(), f"{info}/WHEEL", head)
        except KeyError as error:
            raise EngineWheelError(f"{wheel}: {error}") from error
        changed = {f"{info}/WHEEL": head, f"{info}/RECORD": record.encode()}
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as sink:
            for entry in source.infolist():
                if entry.is_dir():
                    continue
                made = zipfile.ZipInfo(entry.filename, _FIXED_DATE)
                made.external_attr = entry.external_attr
                made.compress_type = zipfile.ZIP_DEFLATED
                sink.writestr(made, changed.get(entry.filename) or source.read(entry))
    temporary.replace(target)
    return target


def _retagged(text: bytes) -> bytes:
    lines = [line for line in text.splitlines() if not line.lower().startswith(b"tag:")]
    return b"\n".join([*(line for line in lines if line), f"Tag: {TAG}".encode()]) + b"\n"


def _recorded(record: str, name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    lines = [line for line in record.splitlines() if not line.startswith(f"{name},")]
    return "\n".join([*lines, f"{name},sha256={digest},{len(content)}"]) + "\n"


def build(version: str, out_dir: Path) -> Path:
    """Download and retag one release; what is there already is kept.

    Args:
        version: The engine's version.
        out_dir: Folder for the wheel.

    Returns:
        Its path.

    Raises:
        EngineWheelError: See `download` and `retag`.
    """
    target = out_dir / f"sglang-{version}-{TAG}.whl"
    if not target.exists():
        with tempfile.TemporaryDirectory() as folder:
            retag(download(version, Path(folder)), out_dir)
    return target
