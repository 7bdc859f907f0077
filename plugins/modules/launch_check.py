#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Have a release's own parser judge launch arguments."""

from __future__ import annotations

DOCUMENTATION = r"""
module: launch_check
short_description: Have the installed release's own parser judge the launch arguments
description:
  - Runs SGLang's own argument parser from the release, as the engine's user, on the arguments
    that the unit is going to have. Nothing is started and nothing changes.
  - Fails with the names of all arguments that the release does not know, or with the parser's
    own words about a value.
extends_documentation_fragment: sm120.sglang.account
options:
  python:
    description: The release's interpreter.
    type: path
    required: true
  arguments:
    description: The arguments.
    type: list
    elements: str
    required: true
attributes:
  check_mode:
    description: The same in check mode.
    support: full
  diff_mode:
    description: Nothing changes.
    support: none
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Check the launch arguments
  sm120.sglang.launch_check:
    python: /opt/sglang/current/venv/bin/python
    arguments: [--model-path, /var/lib/sglang/models/target/1, --tp-size, "8"]
    user: sglang
"""

RETURN = r"""
unknown:
  description: Arguments that the release does not know.
  type: list
  elements: str
  returned: always
"""

import json
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils import _priority
from ansible_collections.sm120.sglang.plugins.module_utils._node import account

# Help texts may hold a '%' that argparse cannot format: none is ever formatted.
_PROBE = """
import argparse, json, sys
from sglang.srt.server_args import ServerArgs

class Refusal(Exception):
    pass

class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refusal(message)

    def format_help(self):
        return ""

parser = Parser()
ServerArgs.add_cli_args(parser)
result = {"unknown": [], "refusal": ""}
try:
    _, rest = parser.parse_known_args(json.loads(sys.argv[1]))
    result["unknown"] = [word for word in rest if word.startswith("-")] or rest
except Refusal as refusal:
    result["refusal"] = str(refusal)
except SystemExit:
    result["refusal"] = "an argument such as --help ends the program"
print("\\n" + json.dumps(result))
"""


def judge(module: AnsibleModule) -> dict[str, Any]:
    """Run the probe.

    Args:
        module: The parameters; fails it when the parser cannot be run at all.

    Returns:
        `unknown` (arguments) and `refusal` (the parser's words).
    """
    command = [module.params["python"], "-c", _PROBE, json.dumps(module.params["arguments"])]
    done = account.run_as(module.params["user"], command, module.params["environment"])
    if done.returncode != 0:
        module.fail_json(
            msg=f"the release's argument parser cannot be run as {module.params['user']}: "
            f"{account.last_line(done.stderr)}"
        )
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "python": {"type": "path", "required": True},
            "arguments": {"type": "list", "elements": "str", "required": True},
            "user": {"type": "str", "required": True},
            "environment": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    result = judge(module)
    if result["unknown"] or result["refusal"]:
        problems = [f"unknown: {' '.join(result['unknown'])}"] if result["unknown"] else []
        problems += [result["refusal"]] if result["refusal"] else []
        module.fail_json(
            msg=f"this release does not accept the launch arguments: {'; '.join(problems)}. "
            "Nothing was changed; correct engine_arguments.",
            unknown=result["unknown"],
        )
    module.exit_json(changed=False, unknown=[])


if __name__ == "__main__":
    _priority.give_way()
    main()
