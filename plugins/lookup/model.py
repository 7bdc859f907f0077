# SPDX-License-Identifier: Apache-2.0
"""Lookup of a model's description, on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
name: model
short_description: Read what a model must consist of
description:
  - Takes one of C(model_store_target) and C(model_store_draft) and returns it complete, with the
    files of its manifest and the folder that it gets on the node.
options:
  _terms:
    description: One model, with C(name), C(revision), C(source) and, when the source has no
      C(manifest.json) on the controller, C(manifest).
    required: true
  root:
    description: The folder on the node that holds all models.
    type: str
    required: true
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Show the target model's files
  ansible.builtin.debug:
    msg: "{{ lookup('sm120.sglang.model', model_store_target, root='/srv/models').files }}"
"""

RETURN = r"""
_raw:
  description: C(name), C(revision), C(source), C(path), C(record), C(files), C(size) in bytes,
    C(manifest_sha256), and where the source is on the controller C(config), the parsed
    C(config.json), and C(weights), what the headers of its weight files hold.
  type: list
  elements: dict
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.sm120.sglang.plugins.module_utils import _safetensors, _verified

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_KEYS = {"name", "revision", "source", "manifest"}


def load(spec: dict[str, Any], root: str) -> dict[str, Any]:
    """Complete a model's description.

    Args:
        spec: The variable.
        root: The folder of all models on the node.

    Returns:
        See RETURN.

    Raises:
        _verified.VerifyError: A key is missing or wrong, or the manifest cannot be read.
    """
    for key in ("name", "revision"):
        value = spec.get(key, "")
        # A number with a dot is none of these: YAML has made 1.1 of 1.10 already.
        number = isinstance(value, int) and not isinstance(value, bool)
        if not (number or isinstance(value, str)) or not _PART.fullmatch(str(value)):
            raise _verified.VerifyError(
                f"model {spec.get('name')!r}: {key} {value!r} must be letters, digits, . _ - "
                "(in quotes)"
            )
    label = f"model {spec['name']}"
    unknown = sorted(str(key) for key in set(spec) - _KEYS)
    if unknown:
        raise _verified.VerifyError(f"{label}: unknown {', '.join(unknown)}")
    source = spec.get("source")
    if not isinstance(source, Mapping) or not source.get("path"):
        raise _verified.VerifyError(f"{label}: source is a mapping with 'path' and 'on'")
    if source.get("on") not in ("controller", "node"):
        hint = '; write the key "on" in quotes, YAML reads it as true' if True in source else ""
        raise _verified.VerifyError(f"{label}: source needs 'on', controller or node{hint}")
    here = source["on"] == "controller"
    manifest = Path(spec.get("manifest") or Path(source["path"], _verified.MANIFEST))
    try:
        content = manifest.read_bytes()
        files = _verified.parse_manifest(json.loads(content), str(manifest))
        config = (
            json.loads(Path(source["path"], "config.json").read_text("utf-8")) if here else None
        )
    except OSError as error:
        raise _verified.VerifyError(
            f"{label}: {error.filename}: {error.strerror}. A model is described by a manifest on "
            "the controller; docs/models.md has the command that makes one"
        ) from error
    except json.JSONDecodeError as error:
        raise _verified.VerifyError(f"{label}: {manifest} or config.json: {error}") from error
    path = Path(root, str(spec["name"]), str(spec["revision"]))
    return {
        "name": str(spec["name"]),
        "revision": str(spec["revision"]),
        "source": {"on": source["on"], "path": str(source["path"])},
        "path": str(path),
        "record": str(path.with_name(f".{path.name}.verified.json")),
        "files": [asdict(entry) for entry in files],
        "size": sum(entry.size for entry in files),
        "manifest_sha256": hashlib.sha256(content).hexdigest(),
        "config": config,
        "weights": _safetensors.read_weights(
            Path(source["path"]), [entry.name for entry in files], _cache(source["path"])
        )
        if here
        else None,
    }


def _cache(folder: str) -> Path:
    """Where the controller keeps what it read of a folder's weights."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "sm120.sglang")
    with contextlib.suppress(OSError):
        base.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(str(Path(folder).absolute()).encode()).hexdigest()[:16]
    return base / f"{name}.headers"


class LookupModule(LookupBase):
    """The lookup."""

    def run(
        self, terms: list[dict[str, Any]], variables: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[dict[str, Any]]:
        """Look one model up.

        Args:
            terms: One model.
            variables: The host's variables, unused beside the options.
            **kwargs: The options.

        Returns:
            A list with the completed description.

        Raises:
            AnsibleLookupError: See `load`.
        """
        self.set_options(var_options=variables, direct=kwargs)
        try:
            return [load(dict(terms[0]), str(self.get_option("root")))]
        except _verified.VerifyError as error:
            raise AnsibleLookupError(str(error)) from None  # its own message is whole
