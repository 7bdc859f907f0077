# SPDX-License-Identifier: Apache-2.0
"""The inventory that docs/groups.md shows is one that preflight takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.sm120.sglang.plugins.module_utils._group import membership

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs/groups.md").read_text()


def test_the_example_on_the_page_is_taken() -> None:
    inventory, variables = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
    children: dict[str, Any] = inventory["engines"]["children"]
    groups = {name: list(child["hosts"]) for name, child in children.items()}
    (name,) = groups
    groups["engines"] = hosts = groups[name]
    named = dict.fromkeys(hosts, variables["engine_group"])
    assert f"group_vars/{name}/main.yml" in PAGE
    assert [membership.problems(host, named, groups, hosts) for host in hosts] == [[], []]
    defaults = yaml.safe_load((REPOSITORY / "roles/engine/defaults/main.yml").read_text())
    for host in hosts:
        wanted = {
            "tp_size": variables["engine_tp_size"],
            "gpus": 8,
            "port": defaults["engine_port"],
            "group_port": defaults["engine_group_port"],
            "arguments": {},
        }
        group = membership.group_of(host, named[host], groups)
        assert group.size == 2
        assert membership.size_problems(group, wanted) == []
    assert f"({defaults['engine_group_port']})" in PAGE
