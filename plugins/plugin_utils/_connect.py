# SPDX-License-Identifier: Apache-2.0
"""A connection of our own to a host, with the settings that Ansible has for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.plugins.loader import become_loader, connection_loader
from ansible_collections.sm120.sglang.plugins.plugin_utils._channel import SshNode
from ansible_collections.sm120.sglang.plugins.plugin_utils._node import Become
from ansible_collections.sm120.sglang.plugins.plugin_utils._ssh_settings import (
    SshSettings,
    resolve,
    ssh_arguments,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_SSH_OPTIONS = (
    "ssh_args",
    "ssh_common_args",
    "ssh_extra_args",
    "port",
    "remote_user",
    "private_key_file",
    "timeout",
)
_ROOT = "root"


def ssh_settings(connection: Any, address: str) -> SshSettings:
    """What an `ssh` connection plugin's options mean.

    Args:
        connection: The plugin, its options set.
        address: The host's name, where the options have no other.

    Raises:
        SshSettingsError: `ssh -G` does not accept them.
        AnsibleActionFail: It is another kind of connection.
    """
    if connection.transport != "ssh":
        raise AnsibleActionFail(
            f"connection {connection.transport!r} is not supported: use ssh, or local for the "
            "controller itself"
        )
    options = {option: connection.get_option(option) for option in _SSH_OPTIONS}
    return resolve(
        connection.get_option("ssh_executable") or "ssh",
        ssh_arguments(options),
        connection.get_option("host") or address,
    )


def ssh_node(connection: Any, address: str) -> SshNode:
    """Connect to a host as a connection plugin would; see `ssh_settings`.

    Raises:
        NodeError: The host cannot be reached.
    """
    settings = ssh_settings(connection, address)
    return SshNode(
        settings,
        become=become(connection, settings.user),
        password=connection.get_option("password") or "",
        passphrase=_option(connection, "private_key_passphrase"),
    )


def become(connection: Any, user: str | None) -> Become | None:
    """How a connection becomes root, or None when it does not, or is root already.

    Raises:
        AnsibleActionFail: By another way than sudo.
    """
    plugin = connection.become
    if plugin is None or user == _ROOT:
        return None
    if plugin.name.rsplit(".", 1)[-1] != "sudo":
        raise AnsibleActionFail(
            f"become_method {plugin.name!r} is not supported here: use sudo, or a user who "
            "may read the journal (group systemd-journal) without become"
        )
    executable = plugin.get_option("become_exe") or "sudo"
    return Become(executable, plugin.get_option("become_pass") or "")


def of_host(variables: Mapping[str, Any], play_context: Any) -> Any:
    """A connection plugin for any host of the play, with sudo.

    Args:
        variables: The host's variables.
        play_context: The play's own settings, passwords that were asked for included.
    """
    kind = variables.get("ansible_connection", "ssh")
    connection = connection_loader.get(kind, play_context, None)
    connection.set_options(
        task_keys={"password": play_context.password} if play_context.password else {},
        var_options=_given("connection", connection, variables),
    )
    sudo = become_loader.get("sudo")
    asked = {"become_pass": play_context.become_pass} if play_context.become_pass else {}
    sudo.set_options(task_keys=asked, var_options=_given("become", sudo, variables))
    connection.set_become_plugin(sudo)
    return connection


def _given(kind: str, plugin: Any, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The variables that a plugin's options are read from."""
    names = constants.config.get_plugin_vars(kind, plugin._load_name)
    return {name: variables[name] for name in names if name in variables}


def _option(connection: Any, name: str) -> str:
    """An option that the oldest supported connection plugin may lack."""
    try:
        return connection.get_option(name) or ""
    except KeyError:
        return ""
