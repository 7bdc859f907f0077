# SPDX-License-Identifier: Apache-2.0
"""A real lab node for tests, and plays against it as an operator runs them."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
STATE = Path(os.environ.get("LAB_STATE", REPOSITORY / ".lab"))
PLAY_SECONDS = 900
SCREEN_LINES, SCREEN_COLUMNS = 40, 120
# What the lab's inventory gives the engine; an extra dict replaces it whole.
LAB_ARGUMENTS = {
    "device": "cpu",
    "disable-cuda-graph": True,
    "max-total-tokens": 4096,
    "dtype": "float32",
    "sleep-on-idle": True,
}
WAIT_SECONDS = 600
# A shell that waits until the condition in its argument holds.
WAIT = f"timeout {WAIT_SECONDS} sh -c 'until eval \"$1\" >/dev/null 2>&1; do sleep 0.1; done' wait"


@dataclass(frozen=True)
class Outcome:
    """A finished play: exit status, output without line folding, seconds."""

    code: int
    output: str
    seconds: float

    @property
    def changed(self) -> int:
        """What the recap counts for the node."""
        found = re.search(r"lab-1 +: ok=\d+ +changed=(\d+)", self.output)
        assert found, self.output
        return int(found[1])

    def entries(self, task: str) -> list[str]:
        """What a task says as a list, each entry as one line."""
        found = re.search(
            rf"^TASK \[(?:\S+ : )?{re.escape(task)}\].*\nok: .*=> \n(?P<said>(?: {{4}}.*\n)+)",
            self.output,
            re.MULTILINE,
        )
        assert found, self.output
        said = re.split(r"^ {4}- ", found["said"], flags=re.MULTILINE)
        return [" ".join(entry.split()) for entry in said if entry.strip()]

    @property
    def failure(self) -> str:
        """From the first line about a failure to the end, as one screen shows it."""
        found = re.search(r"^(?:\[ERROR\]|fatal: |failed: )", self.output, re.MULTILINE)
        assert found, self.output
        screen = self.output[found.start() :]
        lines = screen.splitlines()
        assert len(lines) <= SCREEN_LINES, screen
        # A path or a command is not cut; warnings are wrapped to the terminal, where there is one.
        shown = [line for line in lines if not line.startswith("[WARNING]: ")]
        long = [line for line in shown if len(line) > SCREEN_COLUMNS and len(line.split()) > 1]
        assert long == [], screen
        assert "[ERROR]" not in screen, screen
        return screen

    def says(self, text: str) -> bool:
        """Whether the output has the text, however YAML folds and quotes it."""

        def plain(words: str) -> str:
            return re.sub(r"\s+", " ", words).replace("''", "'")

        return plain(text) in plain(self.output)


class Node:
    """One lab node and the plays against it."""

    def command(
        self, *words: str, extra: dict[str, Any] | None = None, playbook: str = "deploy.yml"
    ) -> list[str]:
        """The command line of a deployment."""
        command = ["ansible-playbook", playbook, *words]
        return command + (["--extra-vars", json.dumps(extra)] if extra else [])

    def deploy(
        self,
        *words: str,
        extra: dict[str, Any] | None = None,
        playbook: str = "deploy.yml",
        seconds: float = PLAY_SECONDS,
    ) -> Outcome:
        """Deploy, or run another playbook, to the end."""
        started = time.monotonic()
        done = subprocess.run(
            self.command(*words, extra=extra, playbook=playbook),
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        return Outcome(done.returncode, done.stdout + done.stderr, time.monotonic() - started)

    def deploy_and_kill(
        self, when: Callable[[str], bool], extra: dict[str, Any], playbook: str = "deploy.yml"
    ) -> str:
        """Kill the controller, all of its processes, at the first output line that is wanted."""

        def kill(process: subprocess.Popen[str]) -> None:
            os.killpg(process.pid, signal.SIGKILL)

        return self._play(when, kill, extra, playbook).output

    def deploy_and(
        self, when: Callable[[str], bool], act: Callable[[], object], extra: dict[str, Any]
    ) -> Outcome:
        """Do something to the node at the first output line that is wanted; play on to the end."""
        return self._play(when, lambda _process: act(), extra)

    def deploy_during(
        self,
        moments: Sequence[str],
        act: Callable[[subprocess.Popen[str]], object],
        extra: dict[str, Any] | None = None,
    ) -> Outcome:
        """Do something in the middle of a task: as soon as a condition holds on the node.

        Args:
            moments: Shell conditions, each asked ten times a second until it holds, one after the
                other.
            act: Done at each; gets the play's process.
            extra: Variables of the play.
        """
        started = time.monotonic()
        process = self._begin(extra)
        output: list[str] = []
        reader = threading.Thread(target=lambda: output.extend(process.stdout or ()), daemon=True)
        reader.start()
        try:
            for moment in moments:
                try:
                    self.run(f"{WAIT} {shlex.quote(moment)}")
                finally:
                    assert process.poll() is None, f"the play ended first:\n{''.join(output)}"
                act(process)
            process.wait(PLAY_SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            reader.join(10)
        return Outcome(process.returncode, "".join(output), time.monotonic() - started)

    def _begin(
        self, extra: dict[str, Any] | None, playbook: str = "deploy.yml"
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(extra=extra, playbook=playbook),
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def _play(
        self,
        when: Callable[[str], bool],
        act: Callable[[subprocess.Popen[str]], object],
        extra: dict[str, Any],
        playbook: str = "deploy.yml",
    ) -> Outcome:
        started = time.monotonic()
        process = self._begin(extra, playbook)
        assert process.stdout is not None
        seen: list[str] = []
        acted = False
        late = threading.Timer(PLAY_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
        late.start()
        try:
            for line in process.stdout:
                seen.append(line)
                if not acted and when(line):
                    acted = True
                    act(process)
            process.wait()
        finally:
            late.cancel()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.stdout.close()
            process.wait()
        output = "".join(seen)
        assert acted, f"the play ended first:\n{output}"
        return Outcome(process.returncode, output, time.monotonic() - started)

    def run(self, script: str) -> str:
        """Run a script on the node as root."""
        return lab("ssh", "lab-1", "--", "sudo", "sh", "-s", given=script).strip()

    def link(self, name: str) -> str:
        """The release that `current` or `previous` names, or a launch that `serving` names."""
        folder = "/opt/sglang" if name in ("current", "previous") else "/etc/sglang/launches"
        return self.run(f"basename $(readlink {folder}/{name})")

    def engine(self) -> str:
        """What identifies the running engine: invocation and main process."""
        return self.run("systemctl show sglang --property=InvocationID,MainPID --value")

    def product(self) -> str:
        """Everything that the product has put on the node, with times."""
        return self.run(
            "find /opt/sglang /etc/sglang /var/lib/sglang /etc/systemd/system/sglang.service "
            "-maxdepth 3 -printf '%p %s %T@ %l\\n' 2>/dev/null | sort || true"
        )


def lab(*words: str, given: str = "") -> str:
    """Run the lab's command line; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "lab", *words],
        cwd=REPOSITORY,
        input=given,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS + 60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def fresh_node() -> Iterator[Node]:
    """A bare node; gone at the end."""
    lab("down")
    lab("up")
    yield Node()
    lab("down")
