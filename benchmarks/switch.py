# SPDX-License-Identifier: Apache-2.0
"""How long a switch keeps an engine away beyond its own start, and how soon a death is told.

Runs against a deployed lab node (`make deploy` first, the same LAB_STATE):

    python -m benchmarks.switch

Downtime beyond the start: a client asks `/model_info` all the time. From the old engine's last
answer to the moment in which systemd starts the new one nothing serves and nothing loads.

Death to verdict: a loading engine's main process is killed; `wait_engine_ready` has to end. Both
moments are read on the node, the end when the task's result is there.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
SWITCH_LIMIT = 1.5
VERDICT_LIMIT = 2.0
ROOT, CONFIG, UNIT = "/opt/sglang", "/etc/sglang", "sglang.service"
_POLL_SECONDS = 0.01
_READY_SECONDS = 600.0


def on_node(script: str) -> str:
    """Run a script on the lab's first node as root and return its output."""
    done = subprocess.run(
        [sys.executable, "-m", "lab", "ssh", "lab-1", "--", "sudo", "sh", "-s"],
        cwd=REPOSITORY,
        input=script,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def task(module: str, arguments: dict[str, object]) -> tuple[int, str]:
    """Run one module against the node; returns exit status and output."""
    command = [sys.executable, "-m", "ansible", "adhoc", "engines", "--become", "-m", module]
    done = subprocess.run(
        [*command, "-a", json.dumps(arguments)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def serving() -> dict[str, object]:
    """The launch that serves: its record."""
    found: dict[str, object] = json.loads(on_node(f"cat {CONFIG}/launches/serving/record.json"))
    return found


class Client(threading.Thread):
    """Asks all the time and remembers when it was answered last."""

    def __init__(self, url: str, key: str) -> None:
        super().__init__(daemon=True)
        self._request = urllib.request.Request(  # noqa: S310 - the lab's own address
            url, headers={"Authorization": f"Bearer {key}"}
        )
        self.answered = 0.0
        self.done = threading.Event()

    def run(self) -> None:
        """Ask until `done`."""
        while not self.done.is_set():
            try:
                with urllib.request.urlopen(self._request, timeout=1.0) as response:  # noqa: S310
                    response.read()
                self.answered = time.time()
            except OSError:
                pass
            time.sleep(_POLL_SECONDS)


def started() -> float:
    """When systemd started the engine's process, in seconds since the epoch."""
    shown = on_node(f"systemctl show {UNIT} --timestamp=us+utc -p ExecMainStartTimestamp --value")
    moment = re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+", shown)
    if moment is None:
        raise SystemExit(f"systemd names no start of {UNIT}: {shown!r}")
    return float(on_node(f"date -u -d '{moment[0]} UTC' +%s.%N"))


def wait_until_it_answers(client: Client) -> None:
    """Wait for the first answer.

    Raises:
        SystemExit: there is none within ten minutes.
    """
    deadline = time.time() + _READY_SECONDS
    while not client.answered:
        if time.time() > deadline:
            raise SystemExit("the engine does not answer; run make deploy first")
        time.sleep(0.1)


def measure_switch(record: dict[str, object], client: Client) -> float:
    """Seconds from the old engine's last answer to the new one's start."""
    wait_until_it_answers(client)
    arguments: dict[str, object] = {"root": ROOT, "unit": UNIT, "user": "sglang"}
    status, output = task("sm120.sglang.engine_switch", {**arguments, "launch": record["launch"]})
    if status != 0:
        raise SystemExit(output)
    return started() - client.answered


def measure_verdict(record: dict[str, object]) -> float:
    """Seconds from a loading engine's death to the end of the task that waits for it."""
    gate = record["gate"]
    if not isinstance(gate, dict):
        raise SystemExit("the record names no address; deploy again")
    moment: list[float] = []

    def kill() -> None:
        time.sleep(6.0)
        script = f"kill -9 $(systemctl show {UNIT} -p MainPID --value); date +%s.%N"
        moment.append(float(on_node(script)))

    killer = threading.Thread(target=kill)
    killer.start()
    where = {"host": gate["host"], "port": gate["port"]}
    _status, output = task("sm120.sglang.wait_engine_ready", {**where, "timeout": 60})
    ended = time.time()
    killer.join()
    if "the engine failed after" not in output:
        raise SystemExit(output)
    return ended - moment[0]


def main() -> int:
    """Measure both, print them, and compare them with their limits."""
    record = serving()
    gate = record["gate"]
    if not isinstance(gate, dict):
        raise SystemExit("the record names no address; deploy again")
    key = json.loads(on_node(f"sed -n 's/^api-key: //p' {CONFIG}/secrets.yaml") or '""')
    client = Client(f"http://{gate['host']}:{gate['port']}/model_info", key)
    client.start()
    try:
        switch = measure_switch(record, client)
    finally:
        client.done.set()
    verdict = measure_verdict(record)
    on_node(f"systemctl reset-failed {UNIT}; systemctl restart --no-block {UNIT}")
    print(f"switch: {switch:.2f} s beyond the engine's own start (limit {SWITCH_LIMIT} s)")
    print(f"verdict: {verdict:.2f} s after the engine's death (limit {VERDICT_LIMIT} s)")
    return int(switch > SWITCH_LIMIT or verdict > VERDICT_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
