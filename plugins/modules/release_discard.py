#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Remove a release that was built and did not become complete."""

from __future__ import annotations

DOCUMENTATION = r"""
module: release_discard
short_description: Remove a built release that was refused
description:
  - Removes what M(sm120.sglang.release_build) built and M(sm120.sglang.release_seal) did not
    complete, for example because a patch was refused. Such a tree is never used again - the next
    run builds anew - and holds the disk of an engine that serves.
  - A complete release is not touched, nor what is built of another one.
extends_documentation_fragment: [sm120.sglang.release, sm120.sglang.claimed]
attributes:
  check_mode:
    description: Reports whether there is something to remove.
    support: full
  diff_mode:
    description: A tree of thousands of files has no useful diff.
    support: none
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Remove what was refused
  sm120.sglang.release_discard:
    root: /opt/sglang
    release: lab-0.5.9-0123456789ab
"""

RETURN = r"""
path:
  description: The tree that was removed, or that is not there.
  type: str
  returned: always
"""

import shutil
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils import _os_errors, _release


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "release": {"type": "str", "required": True},
            "builder": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    paths = _release.Paths(Path(module.params["root"]), module.params["release"])
    tree = paths.building
    if not tree.is_dir() or module.check_mode:
        module.exit_json(changed=tree.is_dir(), path=str(tree))
    try:
        with _release.build_lock(paths.root):
            _release.check_claim(paths, module.params["builder"])
            shutil.rmtree(tree)
    except _release.ReleaseError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"{tree} stays until the next run: {_os_errors.explain(error, tree)}")
    module.exit_json(changed=True, path=str(tree))


if __name__ == "__main__":
    main()
