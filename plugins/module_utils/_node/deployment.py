# SPDX-License-Identifier: Apache-2.0
"""What the product has put on a node: releases, models, users."""

from __future__ import annotations

import contextlib
import grp
import pwd
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils import (
    _changes,
    _release,
    _safetensors,
    _verified,
)
from ansible_collections.sm120.sglang.plugins.module_utils._proof import record

UNITS = Path("/etc/systemd/system")
_MODEL_MODE = 0o644


def read_releases(
    root: Path, wanted: Iterable[str], full: bool = False, also: Iterable[str] = ()
) -> dict[str, Any]:
    """Read the releases.

    Args:
        root: The product's folder; it need not exist.
        wanted: Ids that the deployment may want; `drift` is read for them and the current one.
        full: Whether to read every file of these (see `_release.drift`).
        also: Ids that may be gone back to; `drift` is read for them too.

    Returns:
        `current` and `previous` (ids, empty without one), `complete` (ids), `built` (id to when it
        was completed, seconds since the epoch), `unfinished` (names left by an interrupted run),
        `drift` (id to `_sealed.Change`), `proofs` (id to what was proved for it, see
        `_proof.record.read`).
    """
    releases = root / "releases"
    marks = sorted(releases.glob(f"*/{_release.COMPLETE}"))
    built = {mark.parent.name: mark.stat().st_mtime for mark in marks}
    built = {name: at for name, at in built.items() if not name.startswith(".")}
    complete = list(built)
    current = _release.linked(root, "current") or ""
    looked_at = {*wanted, *also, current} & set(complete)
    now = record.stamp()
    # Two trees at once: most of it is the kernel's work.
    with ThreadPoolExecutor(max(1, len(looked_at))) as pool:
        drift = pool.map(lambda name: _release.drift(releases / name, full), sorted(looked_at))
        found = dict(zip(sorted(looked_at), drift, strict=True))
    return {
        "current": current,
        "previous": _release.linked(root, "previous") or "",
        "complete": complete,
        "built": built,
        "unfinished": _release.unfinished(root),
        "drift": found,
        "proofs": {
            name: record.read(root, name, now) for name in sorted({*wanted, current} - {""})
        },
    }


def read_models(models: Iterable[Mapping[str, Any]], full: bool = False) -> dict[str, Any]:
    """Read the models' files against their manifests.

    Args:
        models: Mappings with `name`, `path`, `record` and `files` (see `_verified`), and `source`
            where the files lie before `path` points to them.
        full: Whether to read every content. One that is wrong is forgotten by the record, so that
            it counts as not verified.

    Returns:
        Name to `missing` and `unverified` file names, `attributes`, those of the product's own
        files with another mode or owner (and no other change), `link`, where the path points to
        when it is a link (empty when not), `config`, the parsed `config.json` (None without one),
        and `weights`, what the weight files hold (`_safetensors.read_weights`).

    Raises:
        _verified.VerifyError: A manifest is malformed.
    """
    found = {}
    for model in models:
        path, record = Path(model["path"]), Path(model["record"])
        wanted = _verified.parse_wanted(model["files"])
        if full:
            _verified.doubt(path, wanted, record)
        known = _verified.load_record(record)
        seen = _verified.inspect(path, wanted, known)
        source = model.get("source") or {}
        ours = source.get("on") == "controller"
        touched = _verified.attributes(path, wanted, _MODEL_MODE) if ours else []
        links = _verified.links(path, wanted) if ours else []
        unverified = [
            name
            for name in seen.unverified
            if name not in touched or not _verified.only_touched(name, known, path)
        ]
        # Before the first deployment the files lie on the node, and no link points to them.
        place = Path(source["path"]) if source.get("on") == "node" else path
        cache = record.with_name(record.name.replace(".verified", "") + ".headers")
        found[str(model["name"])] = {
            "missing": sorted({*seen.missing, *links}),
            "unverified": unverified,
            "attributes": [name for name in touched if name not in unverified],
            "link": str(path.readlink()) if path.is_symlink() else "",
            "config": _verified.load_record(place / "config.json") or None,
            "weights": _safetensors.read_weights(place, [file.name for file in wanted], cache),
        }
    return found


def read_settings(unit: str, config: Path) -> _changes.Settings:
    """What the configuration on the node launches the engine with.

    Args:
        unit: The engine's unit.
        config: The configuration folder.

    Returns:
        The settings, without secrets; empty before the first deployment.
    """
    texts = {}
    for path in (UNITS / unit, config / "engine.env"):
        with contextlib.suppress(OSError):
            texts[path.name] = path.read_text(encoding="utf-8", errors="replace")
    return _changes.read(texts)


def read_user(name: str) -> dict[str, Any]:
    """Whether a user `exists`, its `uid`, `gid`, `group` (its first one), `home` and `shell`."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return {"exists": False}
    try:
        group = grp.getgrgid(entry.pw_gid).gr_name
    except KeyError:
        group = str(entry.pw_gid)
    return {
        "exists": True,
        "uid": entry.pw_uid,
        "gid": entry.pw_gid,
        "group": group,
        "home": entry.pw_dir,
        "shell": entry.pw_shell,
    }
