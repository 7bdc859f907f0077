#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Module face of `_verified`: keep a folder of files whose content is known by sha256."""

from __future__ import annotations

DOCUMENTATION = r"""
module: verified_files
short_description: Verify files against known sha256 digests, and take in files that were brought
description:
  - Compares a folder on the node with a list of files known by size and sha256.
  - A file's content is read once; afterwards size, times and inode stand for it, in a record.
  - Files that lie in O(incoming) are moved into place when their content is right, each by one
    rename; a wrong file is never visible under its own name.
options:
  dest:
    description: The folder on the node.
    type: path
    required: true
  files:
    description: The files that must be there.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name relative to O(dest).
        type: str
        required: true
      sha256:
        description: Digest in lower case hexadecimal.
        type: str
        required: true
      size:
        description: Size in bytes.
        type: int
        required: true
  incoming:
    description: A folder with brought files, taken in where a wanted file is missing or wrong.
    type: path
  names:
    description: Files in O(incoming), as they are called there, to their names in O(dest).
    type: dict
    default: {}
  record:
    description: Where verified files are recorded; V(.verified.json) in O(dest) when left out.
    type: path
  wrong:
    description:
      - What a file of the right size and the wrong content is. V(fail) fails, V(missing) lists it
        in RV(missing), for a caller that brings it again.
    type: str
    choices: [fail, missing]
    default: fail
  mode:
    description: Mode of files that are taken in.
    type: str
    default: "0644"
  owned:
    description: Whether the files are the product's own, and get O(mode) and root as owner.
    type: bool
    default: false
  full:
    description: Read every file again, whatever the record says.
    type: bool
    default: false
attributes:
  check_mode:
    description: Reads and reports, takes nothing in and writes no record.
    support: full
  diff_mode:
    description: Names of files, not contents.
    support: none
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Verify the draft model
  sm120.sglang.verified_files:
    dest: /var/lib/sglang/models/draft/1
    files:
      - name: config.json
        sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
        size: 4
"""

RETURN = r"""
missing:
  description: Files that are not there or have another size.
  type: list
  elements: str
  returned: always
verified:
  description: Files that are there and right.
  type: list
  elements: str
  returned: always
read:
  description: Files whose content was read in this run.
  type: list
  elements: str
  returned: always
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils import (
    _os_errors,
    _priority,
    _verified,
)


def brought(
    module: AnsibleModule, wanted: list[_verified.Wanted], lacking: Collection[str]
) -> list[tuple[Path, _verified.Wanted]]:
    """Find the brought files that have to be taken in.

    Args:
        module: Parameters `incoming` and `names`.
        wanted: The files.
        lacking: Names of those that are not in place, or wrong.

    Returns:
        Where each lies, and what it must be.

    Raises:
        _verified.VerifyError: A brought file is none of the wanted ones.
    """
    by_name = {entry.name: entry for entry in wanted}
    strange = sorted(set(module.params["names"].values()) - set(by_name))
    if strange:
        raise _verified.VerifyError(f"names: {', '.join(strange)} is not among the wanted files")
    return [
        (Path(module.params["incoming"], arrived), by_name[name])
        for arrived, name in sorted(module.params["names"].items())
        if module.params["incoming"] and name in lacking
    ]


def work(module: AnsibleModule) -> dict[str, Any]:
    """Take in, read and report.

    Args:
        module: The parameters.

    Returns:
        The module's result; `msg` in it says that a file is wrong.

    Raises:
        _verified.VerifyError: The parameters are wrong.
    """
    folder = Path(module.params["dest"])
    record_path = Path(module.params["record"] or folder / ".verified.json")
    wanted = _verified.parse_wanted(module.params["files"])
    record = {} if module.params["full"] else _verified.load_record(record_path)
    mode = int(module.params["mode"], 8)
    touched = _verified.attributes(folder, wanted, mode) if module.params["owned"] else []
    links = _verified.links(folder, wanted) if module.params["owned"] else []
    if not module.check_mode:
        # It changes the ctime: before they are read, not after.
        _verified.mend_attributes(folder, touched, mode)
        for name in links:
            (folder / name).unlink()
    seen = _verified.inspect(folder, wanted, record)
    wrong = _verified.verify(folder, wanted, record, seen.unverified)
    known = _verified.inspect(folder, wanted, record)
    arrived = brought(module, wanted, (*known.missing, *known.unverified))
    damaged: list[str] = []
    if not module.check_mode:
        for path, entry in arrived:
            problem = _verified.adopt(path, folder, entry, mode, record)
            damaged += [problem] if problem else []
        if seen.unverified or arrived:
            _verified.save_record(record_path, record)
    final = _verified.inspect(folder, wanted, record)
    result = {
        "changed": len(arrived) > len(damaged) or bool(touched),
        "missing": list(final.missing),
        "verified": list(final.verified),
        "read": list(seen.unverified),
    }
    if damaged:
        result["msg"] = (
            "; ".join(damaged) + ". The transfer or its source is damaged; no damaged file was put "
            "in place. Check the source file and run again."
        )
    elif final.unverified and module.params["wrong"] == "fail":
        result["msg"] = (
            "; ".join(wrong) + ". Remove the file so that it is fetched again, or correct the "
            "manifest if the file is the one you want."
        )
    if module.params["wrong"] == "missing":
        result["missing"] = sorted({*final.missing, *final.unverified})
    return result


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "dest": {"type": "path", "required": True},
            "files": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "sha256": {"type": "str", "required": True},
                    "size": {"type": "int", "required": True},
                },
            },
            "incoming": {"type": "path"},
            "names": {"type": "dict", "default": {}},
            "record": {"type": "path"},
            "wrong": {"type": "str", "choices": ["fail", "missing"], "default": "fail"},
            "mode": {"type": "str", "default": "0644"},
            "full": {"type": "bool", "default": False},
            "owned": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        result = work(module)
    except _verified.VerifyError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=_os_errors.explain(error, module.params["dest"]))
    if "msg" in result:
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    _priority.give_way()
    main()
