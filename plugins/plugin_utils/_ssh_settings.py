# SPDX-License-Identifier: Apache-2.0
"""The effective SSH settings of a host, as OpenSSH itself resolves them (`ssh -G`)."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NONE = ("", "none")


class SshSettingsError(Exception):
    """`ssh -G` does not accept what the inventory says."""


@dataclass(frozen=True)
class SshSettings:
    """Where and how to connect.

    `alias` is the name as the inventory has it, `hostname` the one that `ssh` would connect to;
    `host_key_name` is the name under which known_hosts is searched, port included where it counts.
    `proxy_command` is a shell command whose input and output are the connection, or empty.
    """

    alias: str
    hostname: str
    port: int
    user: str
    identity_files: tuple[str, ...]
    known_hosts: tuple[str, ...]
    host_key_name: str
    proxy_command: str = ""
    identity_agent: str = ""
    use_agent: bool = True
    connect_timeout: float = 10.0


def ssh_arguments(options: Mapping[str, Any]) -> list[str]:
    """The arguments that Ansible's ssh connection plugin would give to `ssh`, in its order.

    Args:
        options: the connection plugin's options by name (`ssh_args`, `ssh_common_args`,
            `ssh_extra_args`, `port`, `remote_user`, `private_key_file`, `timeout`).
    """
    arguments = shlex.split(options.get("ssh_args") or "")
    if options.get("port"):
        arguments += ["-o", f"Port={options['port']}"]
    if options.get("private_key_file"):
        key = Path(options["private_key_file"]).expanduser()
        arguments += ["-o", f'IdentityFile="{key}"']
    if options.get("remote_user"):
        arguments += ["-o", f'User="{options["remote_user"]}"']
    if options.get("timeout"):
        arguments += ["-o", f"ConnectTimeout={options['timeout']}"]
    for name in ("ssh_common_args", "ssh_extra_args"):
        arguments += shlex.split(options.get(name) or "")
    return arguments


def resolve(executable: str, arguments: Sequence[str], host: str) -> SshSettings:
    """Ask `ssh -G` what these arguments and the configuration files mean for `host`.

    Raises:
        SshSettingsError: ssh is not there or refuses an argument; the text says which.
    """
    command = [executable, "-G", *arguments, "--", host]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
    except OSError as error:
        raise SshSettingsError(f"cannot run {executable!r}: {error.strerror}") from error
    if answer.returncode != 0:
        raise SshSettingsError(
            f"ssh does not accept the inventory's settings for {host}: {answer.stderr.strip()}"
        )
    return parse_effective(answer.stdout, host, arguments, executable)


def parse_effective(
    text: str, alias: str, arguments: Sequence[str] = (), executable: str = "ssh"
) -> SshSettings:
    """Read the output of `ssh -G` (lines `keyword value`; `identityfile` may come again)."""
    values: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        values.setdefault(key, []).append(value.strip())

    def one(key: str, default: str = "") -> str:
        return values.get(key, [default])[0]

    hostname, port, user = one("hostname", alias), int(one("port", "22")), one("user")
    key_alias = one("hostkeyalias", "none")
    # OpenSSH searches an alias as it stands and a name with its port only where that is not 22.
    plain = hostname if port == _SSH_PORT else f"[{hostname}]:{port}"
    names = {"h": hostname, "n": alias, "p": str(port), "r": user, "%": "%"}
    agent = one("identityagent", "SSH_AUTH_SOCK")
    timeout = one("connecttimeout", "none")
    return SshSettings(
        alias=alias,
        hostname=hostname,
        port=port,
        user=user,
        identity_files=_existing(values.get("identityfile", [])),
        known_hosts=_files(one("userknownhostsfile")) + _files(one("globalknownhostsfile")),
        host_key_name=plain if key_alias in _NONE else key_alias,
        proxy_command=_proxy(one("proxycommand"), one("proxyjump"), names, arguments, executable),
        identity_agent="" if agent in ("SSH_AUTH_SOCK", "none") else _path(agent),
        use_agent=agent != "none",
        connect_timeout=float(timeout) if timeout.isdigit() and int(timeout) else 10.0,
    )


_SSH_PORT = 22


def _proxy(
    command: str,
    jump: str,
    names: Mapping[str, str],
    arguments: Sequence[str],
    executable: str,
) -> str:
    if command not in _NONE:
        return re.sub(r"%([hnpr%])", lambda found: names[found[1]], command)
    if jump in _NONE:
        return ""
    # What ssh does for a jump: another ssh with -W. It takes its settings from the configuration
    # files, not from this command line, so the file named by -F goes along and nothing else.
    *before, last = jump.split(",")
    last = last.removeprefix("ssh://").rstrip("/")
    jump_user, _, address = last.rpartition("@")
    address, jump_port = _split_port(address)
    words = [executable, *_config_file(arguments)]
    words += ["-l", jump_user] if jump_user else []
    words += ["-p", jump_port] if jump_port else []
    words += ["-J", ",".join(before)] if before else []
    # A question that nobody sees would hang the task.
    words += ["-o", "BatchMode=yes", "-W", f"[{names['h']}]:{names['p']}", "--", address]
    return shlex.join(words)


def _split_port(address: str) -> tuple[str, str]:
    found = re.fullmatch(r"(?:\[(?P<six>[^]]+)\]|(?P<name>[^:]+))(?::(?P<port>\d+))?", address)
    if not found:
        return address, ""  # a bare IPv6 address
    return found["six"] or found["name"], found["port"] or ""


def _config_file(arguments: Sequence[str]) -> list[str]:
    for index, argument in enumerate(arguments):
        if argument == "-F" and index + 1 < len(arguments):
            return ["-F", arguments[index + 1]]
        if argument.startswith("-F") and argument != "-F":
            return ["-F", argument[2:]]
    return []


def _path(text: str) -> str:
    return os.path.expandvars(str(Path(text.strip('"')).expanduser()))


def _files(text: str) -> tuple[str, ...]:
    """Split a list of files, of which a single one may hold blanks; `ssh -G` does not quote."""
    if text in _NONE:
        return ()
    if Path(_path(text)).exists():
        return (_path(text),)
    return _existing(text.split())


def _existing(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(path for path in map(_path, names) if Path(path).is_file())
