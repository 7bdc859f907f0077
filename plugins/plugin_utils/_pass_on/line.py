# SPDX-License-Identifier: Apache-2.0
"""The line to a node's agent, and what the controller itself puts on a node."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.sm120.sglang.plugins.module_utils._pass_on import commands
from ansible_collections.sm120.sglang.plugins.plugin_utils._node import NodeError

if TYPE_CHECKING:
    from ansible_collections.sm120.sglang.plugins.plugin_utils._node import Talk
    from ansible_collections.sm120.sglang.plugins.plugin_utils._ssh_settings import SshSettings

Hear = Callable[[str, dict[str, Any]], None]


class Line:
    """Orders to one node's agent, and its events."""

    def __init__(self, name: str, talk: Talk, program: bytes, hear: Hear) -> None:
        """Start the agent.

        Args:
            name: The node.
            talk: A command that takes the program first.
            program: The program.
            hear: Takes the node's name and each event; at the end one that says `gone`.
        """
        self._name, self._talk, self._hear = name, talk, hear
        self._talk.send(program)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def order(self, **order: Any) -> None:
        """Send an order; of a line that is cut, `gone` comes as an event."""
        with suppress(NodeError):
            self._talk.send(json.dumps(order).encode() + b"\n")

    def _read(self) -> None:
        for line in self._talk:
            try:
                event = json.loads(line)
            except ValueError:
                event = {"event": "said", "text": line.strip()}
            self._hear(self._name, event)
        said = self._talk.errors().strip().splitlines()
        self._hear(self._name, {"event": "gone", "text": said[-1] if said else "cut off"})

    def close(self) -> None:
        """End the agent, and wait until it has cleared up behind itself."""
        self._talk.end()
        self._reader.join(timeout=10)
        self._talk.close()


def connection(settings: SshSettings) -> list[str]:
    """The arguments with which OpenSSH's programs connect as the inventory says.

    Args:
        settings: The effective settings; the host's name is given after them.
    """
    options = [
        f"HostName={settings.hostname}",
        f"Port={settings.port}",
        f'User="{settings.user}"',
        "StrictHostKeyChecking=yes",
        "GlobalKnownHostsFile=none",
    ]
    options += [f'IdentityFile="{path}"' for path in settings.identity_files]
    if settings.known_hosts:
        known = " ".join(f'"{path.replace("%", "%%")}"' for path in settings.known_hosts)
        options.append(f"UserKnownHostsFile={known}")
    if settings.host_key_name not in (settings.hostname, f"[{settings.hostname}]:{settings.port}"):
        options.append(f"HostKeyAlias={settings.host_key_name}")
    if settings.proxy_command:
        options.append(f"ProxyCommand={settings.proxy_command.replace('%', '%%')}")
    if not settings.use_agent:
        options.append("IdentityAgent=none")
    elif settings.identity_agent:
        options.append(f'IdentityAgent="{settings.identity_agent}"')
    arguments = ["-F", "none"]
    for option in options:
        arguments += ["-o", option]
    return arguments


class Giver:
    """Puts files of the controller on nodes; each goes on where an earlier attempt stopped."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def give(
        self, settings: SshSettings, files: Sequence[tuple[Path, str]], limit: int
    ) -> Mapping[str, str]:
        """Send files.

        Args:
            settings: How to connect.
            files: A file here and where it goes on the node; a part of it lies there already.
            limit: See `commands.kbits`.

        Returns:
            Empty when all went, else `why` and `text`.
        """
        batch = "".join(
            f"reput {commands.quote(str(here))} {commands.quote(there)}\n" for here, there in files
        )
        with self._guard:
            if self._closed:
                return {"why": "lost", "text": "the run has ended"}
            process = subprocess.Popen(
                commands.sftp(connection(settings), limit, settings.alias),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            self._running.add(process)
        _, errors = process.communicate(batch.encode())
        with self._guard:
            self._running.discard(process)
        if process.returncode == 0:
            return {}
        text = errors.decode(errors="replace").strip()[-500:]
        return {"why": commands.why(process.returncode, text), "text": text}

    def close(self) -> None:
        """End what runs."""
        with self._guard:
            self._closed = True
            for process in self._running:
                with suppress(OSError):
                    process.terminate()
