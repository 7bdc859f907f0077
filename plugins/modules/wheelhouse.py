#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Module face of `_wheelhouse`: download the wheels of one lock for one kind of node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: wheelhouse
short_description: Download exactly the wheels of a stack's lock, for a node's platform
description:
  - Runs on the controller. pip downloads the wheels of a lock, with digests, for the Python,
    C library and architecture of a node, which need not be the controller's own.
  - pip's own configuration on the controller holds (indexes, proxies, certificates).
  - A finished wheelhouse costs no network and no reading of its wheels. After an interrupted
    download only what is missing or damaged is fetched; a folder that was copied from another
    controller needs no network at all.
  - A wheel without digest in the lock is taken anew when another file of its name lies in one
    of the folders in O(find_links).
options:
  lock:
    description: The lock file.
    type: path
    required: true
  dest:
    description: Folder that holds the wheelhouses, one folder a lock and platform.
    type: path
    required: true
  python:
    description: The node's Python version.
    type: str
    required: true
  glibc:
    description: The node's C library version.
    type: str
    required: true
  machine:
    description: The node's architecture.
    type: str
    default: x86_64
  packages:
    description:
      - Packages of the lock to download, into a wheelhouse of their own; all of them when empty.
    type: list
    elements: str
    default: []
  unhashed:
    description: Packages for which the lock has no digest, with the reason.
    type: dict
    default: {}
  find_links:
    description: Further folders or pages with wheels.
    type: list
    elements: str
    default: []
  extra_index_urls:
    description: Further package indexes, such as one that has CPU builds of torch.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Reports whether a download is needed.
    support: full
  diff_mode:
    description: Names of files, not contents.
    support: none
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Download the stack's wheels
  sm120.sglang.wheelhouse:
    lock: stacks/lab-0.5.9-py311.lock
    dest: .lab/wheelhouse
    python: "3.11"
    glibc: "2.36"
  delegate_to: localhost
"""

RETURN = r"""
path:
  description: The wheelhouse's folder.
  type: str
  returned: always
wheels:
  description: The wheels, each with package, name, sha256 and size; empty in check mode when they
    are not there yet.
  type: list
  elements: dict
  returned: always
requirements:
  description: Requirements file that allows exactly these wheels.
  type: str
  returned: always
"""

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils import _stack, _wheelhouse


def download(module: AnsibleModule, folder: Path, pins: list[_stack.Pin], tags: list[str]) -> None:
    """Have pip download wheels.

    Args:
        module: Parameters `find_links` and `extra_index_urls`; fails it with pip's words.
        folder: The wheelhouse.
        pins: What to download.
        tags: pip's platform arguments.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(folder), *tags]
    for place in module.params["find_links"]:
        command += ["--find-links", place]
    for url in module.params["extra_index_urls"]:
        command += ["--extra-index-url", url]
    hashed = [pin for pin in pins if pin.hashes]
    unhashed = [pin for pin in pins if not pin.hashes]
    for group, options in ((hashed, ["--require-hashes"]), (unhashed, [])):
        if not group:
            continue
        listing = folder / ".requirements.txt"
        listing.write_text(_wheelhouse.requirements(group))
        done = subprocess.run(
            [*command, *options, "-r", str(listing)], capture_output=True, text=True, check=False
        )
        listing.unlink()
        if done.returncode != 0:
            why = _wheelhouse.pip_error(done.stderr)
            hint = "".join(
                f" {pin.name} {pin.version}: {module.params['unhashed'][pin.name]}; name the place "
                "in engine_release_extra_index_urls or engine_release_find_links."
                for pin in group
                if pin.name in module.params["unhashed"] and pin.version in why
            )
            module.fail_json(
                msg=f"pip could not download the wheels of {module.params['lock']}: {why}{hint} "
                "What was downloaded is kept; run again to go on."
            )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "lock": {"type": "path", "required": True},
            "dest": {"type": "path", "required": True},
            "python": {"type": "str", "required": True},
            "glibc": {"type": "str", "required": True},
            "machine": {"type": "str", "default": "x86_64"},
            "packages": {"type": "list", "elements": "str", "default": []},
            "unhashed": {"type": "dict", "default": {}},
            "find_links": {"type": "list", "elements": "str", "default": []},
            "extra_index_urls": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    lock = Path(module.params["lock"])
    try:
        content = lock.read_bytes()
        pins = _wheelhouse.only(
            _stack.parse_lock(content.decode(), lock.name), module.params["packages"]
        )
        tags = _stack.wheel_tags(
            module.params["python"], module.params["glibc"], module.params["machine"]
        )
    except (OSError, _stack.StackError, _wheelhouse.WheelhouseError) as error:
        module.fail_json(msg=str(error))
    stem = "-".join([lock.stem, *module.params["packages"]])
    name = _wheelhouse.folder_name(stem, hashlib.sha256(content).hexdigest(), tags)
    folder = Path(module.params["dest"], name)

    local = _wheelhouse.local_digests(pins, module.params["find_links"])
    wheels = _wheelhouse.read_manifest(folder, local)
    changed = wheels is None
    if wheels is None and not module.check_mode:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as guard:
            # Hosts of one play share a wheelhouse: the first downloads, the others find it done.
            fcntl.flock(guard, fcntl.LOCK_EX)
            wheels = _wheelhouse.read_manifest(folder, local) or build(
                module, folder, pins, tags, local
            )
    result: dict[str, Any] = {"changed": changed, "path": str(folder), "wheels": wheels or []}
    hashes = {wheel["package"]: wheel["sha256"] for wheel in wheels or []}
    result["requirements"] = _wheelhouse.requirements(pins, hashes) if wheels else ""
    module.exit_json(**result)


def build(
    module: AnsibleModule,
    folder: Path,
    pins: list[_stack.Pin],
    tags: list[str],
    local: dict[str, set[str]],
) -> list[dict[str, Any]]:
    """Download and check one wheelhouse.

    Args:
        module: See `download`.
        folder: The wheelhouse.
        pins: The lock's pins.
        tags: pip's platform arguments.
        local: Digests of the wheels in folders of this machine.

    Returns:
        The wheels; the manifest is written.
    """
    for name in _wheelhouse.unusable(folder, pins, local):
        (folder / name).unlink()
    try:
        found, _ = _wheelhouse.match_wheels(pins, (path.name for path in folder.glob("*.whl")))
        download(module, folder, [pin for pin in pins if pin.name not in found], tags)
        found, spare = _wheelhouse.match_wheels(pins, (path.name for path in folder.glob("*.whl")))
        wheels = _wheelhouse.describe(folder, pins, found)
    except _wheelhouse.WheelhouseError as error:
        module.fail_json(msg=f"{folder}: {error}")
    for name in spare:
        (folder / name).unlink()
    _wheelhouse.write_manifest(folder, wheels)
    return wheels


if __name__ == "__main__":
    main()
