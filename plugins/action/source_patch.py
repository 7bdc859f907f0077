# SPDX-License-Identifier: Apache-2.0
"""Controller half of ``source_patch``: hand the shipped catalogue, which is YAML, to the module."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.sm120.sglang.plugins.module_utils._patch.catalogue import (
    merge,
    parse_catalogue,
    plain,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import (
    CatalogueError,
    PatchError,
)

try:  # where a value was written: ansible-core 2.19 and newer keep it, without a public name
    from ansible._internal._datatag._tags import Origin
except ImportError:  # pragma: no cover - depends on ansible-core
    Origin = None

SHIPPED = Path(__file__).parents[2] / "roles" / "source_patches" / "files" / "catalogue.yml"


def load_catalogue(path: Path) -> list[Any]:
    """Read a catalogue file.

    Raises:
        PatchError: it cannot be read, or is not YAML; the message has the line.
    """
    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise PatchError(f"the patch catalogue {path} cannot be read: {error}") from error
    return list(content or [])


def portable(value: object) -> object:
    """Copy entries so that they survive the way to the node as JSON.

    JSON has text keys only, so the data of a rule's ``value`` travels as Python literal text.
    """
    if not isinstance(value, Mapping):
        return value
    entry = dict(value)
    rule = entry.get("rule")
    if isinstance(rule, Mapping) and not isinstance(rule.get("value", ""), str):
        entry["rule"] = {**rule, "value": repr(plain(rule["value"], ("rule", "value")))}
    return entry


def origin(entries: object, place: tuple[str | int, ...]) -> str:
    """``file:line`` of the catalogue value nearest to a place, as far as Ansible knows it."""
    found = ""
    value: Any = entries
    for step in (None, *place):
        if step is not None:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                break
        tag = Origin.get_tag(value) if Origin is not None else None
        if tag is not None and getattr(tag, "path", None):
            found = f"{tag.path}:{tag.line_num or 1}"
    return found


class ActionModule(ActionBase):
    """Checks the catalogue on the controller, then runs the module."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Run the module with the shipped catalogue as a parameter."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        extra = arguments.get("catalog") or []
        try:
            shipped = load_catalogue(SHIPPED)
            merge(parse_catalogue(shipped), parse_catalogue(extra))
        except CatalogueError as error:
            where = origin(extra, error.path)
            raise AnsibleActionFail(f"catalog: {where + ': ' if where else ''}{error}") from error
        except PatchError as error:
            raise AnsibleActionFail(str(error)) from error
        arguments["catalog"] = [portable(entry) for entry in extra]
        arguments["shipped_catalog"] = [portable(entry) for entry in shipped]
        result.update(
            self._execute_module(
                module_name="sm120.sglang.source_patch",
                module_args=arguments,
                task_vars=task_vars,
            )
        )
        return result
