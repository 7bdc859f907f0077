# SPDX-License-Identifier: Apache-2.0
"""What else than its own file makes up a unit: drop-ins, and units of the same name elsewhere."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

# systemd.unit(5), "Unit File Load Path", without what packages bring: everything that is made by
# hand or by `systemctl edit`, `set-property` and `mask`, for good or until the next boot.
PLACES = (
    "etc/systemd/system.control",
    "run/systemd/system.control",
    "run/systemd/transient",
    "etc/systemd/system",
    "run/systemd/system",
)
_OWN = "etc/systemd/system"
ASIDE = ".disabled"


def read(unit: str, loaded: Collection[str], root: Path = Path("/")) -> list[dict[str, Any]]:
    """Find what overrides a unit.

    Args:
        unit: The unit.
        loaded: Paths that systemd has read, its fragment and drop-ins.
        root: Root of the file system.

    Returns:
        For each file `path`, `changed_at` (ctime, seconds since the epoch) and `loaded`.
    """
    found = []
    for place in PLACES:
        folder = root / place / f"{unit}.d"
        files = sorted(folder.glob("*.conf")) if folder.is_dir() else []
        if place != _OWN:
            files.append(root / place / unit)
        for path in files:
            try:
                changed = path.lstat().st_ctime
            except OSError:
                continue
            name = f"/{path.relative_to(root)}"
            found.append({"path": name, "changed_at": changed, "loaded": name in loaded})
    return found


def set_aside(path: Path) -> None:
    """Give a file a name that systemd ignores; what was set aside under it before is replaced."""
    if path.is_symlink() or path.exists():
        path.replace(path.with_name(path.name + ASIDE))
