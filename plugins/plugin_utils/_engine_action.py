# SPDX-License-Identifier: Apache-2.0
"""What the engine's action plugins share: parameters, the way to the node, and clean results."""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.sm120.sglang.plugins.module_utils import _unforeseen
from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import redact
from ansible_collections.sm120.sglang.plugins.plugin_utils import _connect
from ansible_collections.sm120.sglang.plugins.plugin_utils._node import LocalNode, Node, NodeError
from ansible_collections.sm120.sglang.plugins.plugin_utils._ssh_settings import SshSettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator

CONNECTION_SPEC: dict[str, dict[str, Any]] = {
    "unit": {"type": "str", "default": "sglang.service"},
    "host": {"type": "str", "default": "127.0.0.1"},
    "port": {"type": "int", "default": 30000},
    "api_key": {"type": "str", "no_log": True},
    "release": {"type": "str", "default": ""},
}
"""Parameters that name an engine on its node."""

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  where a wildcard bind answers


class EngineAction(ActionBase):  # type: ignore[misc]
    """Base of the action plugins that look at an engine from the controller."""

    _supports_check_mode = True
    _supports_diff = False
    _requires_connection = False  # it makes its own

    looks_in_check_mode: ClassVar[bool] = False
    """Whether it asks in check mode too; what waits for a start that never came must not."""

    spec: ClassVar[dict[str, dict[str, Any]]] = {}
    """The argument specification; a plugin sets its own."""

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Validate, connect, look, and answer without secrets."""
        result: dict[str, Any] = super().run(tmp, task_vars) or {}
        _validation, parameters = self.validate_argument_spec(argument_spec=self.spec)
        secrets = [parameters["api_key"]] if parameters.get("api_key") else []
        host = (task_vars or {}).get("inventory_hostname", "?")
        if self._task.check_mode and not self.looks_in_check_mode:
            result.update(
                changed=False,
                skipped=True,
                msg=f"check mode: the engine on {host} is not asked, since nothing was started",
            )
            return result
        try:
            with self._node() as node:
                found = self.look(node, parameters, host)
        except (NodeError, SshSettingsError, AnsibleError) as error:
            # Nobody could look, or was asked something that cannot be: neither says anything about
            # the engine.
            found = {"failed": True, "no_verdict": True, "msg": f"{host}: {error}"}
        except Exception as error:
            found = {
                "failed": True,
                "no_verdict": True,
                "msg": f"{host}: {_unforeseen.sentence('looking at the engine', error)}",
                "exception": traceback.format_exc(),
            }
        result.update(changed=False, **found)
        return {key: _clean(value, secrets) for key, value in result.items()}

    def look(self, node: Node, parameters: dict[str, Any], host: str) -> dict[str, Any]:
        """Do the plugin's work; returns the result's fields."""
        raise NotImplementedError

    def say(self, host: str, seconds: float, text: str, secrets: list[str]) -> None:
        """Print one line of progress at once."""
        Display().display(redact(f"[{host}] {seconds:5.0f}s  {text}", secrets))

    @contextmanager
    def _node(self) -> Iterator[Node]:
        node = self._connect()
        try:
            yield node
        finally:
            node.close()

    def _connect(self) -> Node:
        connection = self._connection
        if connection.transport == "local":
            return LocalNode(_connect.become(connection, None))
        return _connect.ssh_node(connection, self._play_context.remote_addr)


def engine_address(host: str) -> str:
    """Where an engine that binds `host` answers on its node."""
    return _EVERYWHERE.get(host, host)


def _clean(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        return redact(value, secrets)
    if isinstance(value, dict):
        return {key: _clean(item, secrets) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item, secrets) for item in value]
    return value
