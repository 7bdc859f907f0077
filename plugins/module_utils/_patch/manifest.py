# SPDX-License-Identifier: Apache-2.0
"""The record of what was edited: enough to tell our work from others', and to undo it.

One JSON file. It holds each edit with its old and new bytes, so that a copy of a release tree
can be reverted with nothing but the record that was copied with it. It is written before the
files: after a crash in between, the checksums tell which edits have arrived.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._patch.edits import (
    Edit,
    apply_edits,
    reverse_edits,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import ManifestError

_FORMAT = 1


@dataclass(frozen=True)
class Step:
    """One patch's edits of one file, on top of those before it.

    Attributes:
        patch: id of the patch.
        rule: digest of its rule.
        state: state that it had before the edit.
        reason: reason that it had.
        before: sha256 of the file before this step.
        after: sha256 of the file after this step.
        edits: the edits; offsets count in the bytes before.
        proof: what was proved when the edit was made.
    """

    patch: str
    rule: str
    state: str
    reason: str
    before: str
    after: str
    edits: tuple[Edit, ...]
    proof: Mapping[str, Any] | None = None


@dataclass
class Manifest:
    """All steps of a release, by file.

    Attributes:
        release: version of the release that the steps were made for.
        steps: steps by file, oldest first.
    """

    release: str = ""
    steps: dict[str, list[Step]] = field(default_factory=dict)

    def standing(self, path: str, data: bytes) -> list[Step]:
        """The recorded steps that the file's bytes contain: a prefix of them all, or none."""
        steps = self.steps.get(path, [])
        digest = sha256(data)
        for count in range(len(steps), 0, -1):
            if steps[count - 1].after == digest:
                return steps[:count]
        return []


def sha256(data: bytes) -> str:
    """Checksum in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def undo(data: bytes, steps: list[Step]) -> bytes:
    """Take steps back, newest first.

    Raises:
        ManifestError: the record does not fit the bytes.
    """
    for step in reversed(steps):
        try:
            data = apply_edits(data, reverse_edits(step.edits))
        except ValueError as error:
            raise ManifestError(f"the record of {step.patch} does not fit the file") from error
        if sha256(data) != step.before:
            raise ManifestError(
                f"taking {step.patch} back does not give the bytes it was made on",
                "reinstall the release",
            )
    return data


def load(path: Path) -> Manifest:
    """Read the record; a missing file is an empty record.

    Raises:
        ManifestError: it is there and not usable.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return Manifest()
    except (OSError, ValueError) as error:
        raise ManifestError(
            f"the patch record {path} cannot be read: {error}",
            "restore it, or reinstall the release and delete the record",
        ) from error
    try:
        if content["format"] != _FORMAT:
            raise ManifestError(
                f"the patch record {path} has format {content['format']!r}, known is {_FORMAT}",
                "use the version of this collection that wrote it",
            )
        steps = {
            str(name): [_step(item) for item in items] for name, items in content["files"].items()
        }
        return Manifest(str(content["release"]), steps)
    except (KeyError, TypeError, AttributeError, ValueError, binascii.Error) as error:
        raise ManifestError(
            f"the patch record {path} is damaged: {error!r}",
            "restore it, or reinstall the release and delete the record",
        ) from error


def dump(manifest: Manifest) -> bytes:
    """The record as bytes; equal records give equal bytes."""
    content = {
        "format": _FORMAT,
        "release": manifest.release,
        "files": {
            path: [_plain(step) for step in steps]
            for path, steps in sorted(manifest.steps.items())
            if steps
        },
    }
    return (json.dumps(content, indent=2, sort_keys=True) + "\n").encode()


def _step(item: Mapping[str, Any]) -> Step:
    edits = tuple(
        Edit(
            int(edit["at"]),
            base64.b64decode(edit["old"], validate=True),
            base64.b64decode(edit["new"], validate=True),
        )
        for edit in item["edits"]
    )
    return Step(
        patch=str(item["patch"]),
        rule=str(item["rule"]),
        state=str(item["state"]),
        reason=str(item["reason"]),
        before=str(item["before"]),
        after=str(item["after"]),
        edits=edits,
        proof=item.get("proof"),
    )


def _plain(step: Step) -> dict[str, Any]:
    return {
        "patch": step.patch,
        "rule": step.rule,
        "state": step.state,
        "reason": step.reason,
        "before": step.before,
        "after": step.after,
        "edits": [
            {
                "at": edit.at,
                "old": base64.b64encode(edit.old).decode(),
                "new": base64.b64encode(edit.new).decode(),
            }
            for edit in step.edits
        ],
        "proof": step.proof,
    }
