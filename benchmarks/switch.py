# SPDX-License-Identifier: Apache-2.0
"""What a switch costs beside the engine's own start, and how soon the death of a start is told.

Runs against a deployed lab node (`make deploy` first, the same LAB_STATE), and leaves it as it was:

    python -m benchmarks.switch [--rounds 4] [--deaths 3]

Switches go to and fro between two launches of one release; the second one is deployed if the node
has none. A client asks `/model_info` every 10 ms. Of each switch it prints

- drain: from the request to stop until the old engine's last process is gone;
- gone: from there to the new engine's start, which is what the switch itself takes (limit 1.5 s);
- unanswered: from the old engine's last answer to the start by systemd;
- start: from there to the first answer, the new engine's own loading.

The engine has nothing to do in it: what a drain takes under load is as long as its requests.

Deaths: the main process, the scheduler or the detokenizer of a loading engine is killed while
`wait_engine_ready` watches. Its verdict counts when the Ansible command that ran it has ended
(limit 2 s). All moments are this machine's clock, which is the node's too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
RESULT = REPOSITORY / "build" / "benchmarks" / "switch.json"
SWITCH_LIMIT = 1.5
VERDICT_LIMIT = 2.0
ROOT, CONFIG, UNIT = "/opt/sglang", "/etc/sglang", "sglang.service"
PARTS = ("main", "scheduler", "detokenizer")
_POLL_SECONDS = 0.01
_READY_SECONDS = 600
# Another launch of the same release.
_OTHER = {
    "engine_speculation_settings": {
        "algorithm": "EAGLE3",
        "num_steps": 2,
        "eagle_topk": 1,
        "num_draft_tokens": 3,
    }
}
# Waits for the part, lets the watch see it, kills it, and says when.
_KILL = """
until pgrep -f '^sglang::{part}' > /dev/null; do sleep 0.1; done
sleep 3
found={pids}; date +%s.%N; kill -9 $found
"""


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


def ansible(*words: str) -> tuple[int, str]:
    """Run one of Ansible's commands; returns exit status and output."""
    done = subprocess.run(
        [sys.executable, "-m", "ansible", *words],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def task(module: str, arguments: dict[str, object]) -> tuple[int, str]:
    """Run one module against the node."""
    return ansible("adhoc", "engines", "--become", "-m", module, "-a", json.dumps(arguments))


def recorded(which: str) -> str:
    """The launch that served last (`serving`) or `before`, empty without."""
    return on_node(f'basename "$(readlink {CONFIG}/launches/{which} || true)"')


def address(launch: str) -> dict[str, object]:
    """Host, port and key of a recorded launch.

    Raises:
        SystemExit: its record names none.
    """
    record = json.loads(on_node(f"cat {CONFIG}/launches/{launch}/record.json"))
    gate = record["gate"]
    if not isinstance(gate, dict):
        raise SystemExit("the record names no address; deploy again")
    key = json.loads(on_node(f"sed -n 's/^api-key: //p' {CONFIG}/secrets.yaml") or '""')
    return {"host": gate["host"], "port": gate["port"], "api_key": key}


class Client(threading.Thread):
    """Asks all the time and remembers when it was answered."""

    def __init__(self, where: dict[str, object]) -> None:
        super().__init__(daemon=True)
        self._request = urllib.request.Request(
            f"http://{where['host']}:{where['port']}/model_info",
            headers={"Authorization": f"Bearer {where['api_key']}"},
        )
        self.answers: list[float] = []
        self.done = threading.Event()

    def run(self) -> None:
        """Ask until `done`."""
        while not self.done.is_set():
            try:
                with urllib.request.urlopen(self._request, timeout=1.0) as response:  # noqa: S310
                    response.read()
                self.answers.append(time.time())
            except OSError:
                pass
            time.sleep(_POLL_SECONDS)

    def wait(self, after: float) -> float:
        """The first answer after a moment.

        Raises:
            SystemExit: there is none within ten minutes.
        """
        deadline = time.time() + _READY_SECONDS
        while not self.answers or self.answers[-1] < after:
            if time.time() > deadline:
                raise SystemExit("the engine does not answer; run make deploy first")
            time.sleep(0.05)
        return next(answer for answer in self.answers if answer >= after)


def started() -> float:
    """When systemd started the engine's process, in seconds since the epoch."""
    shown = on_node(f"systemctl show {UNIT} --timestamp=us+utc -p ExecMainStartTimestamp --value")
    moment = re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+", shown)
    if moment is None:
        raise SystemExit(f"systemd names no start of {UNIT}: {shown!r}")
    return float(on_node(f"date -u -d '{moment[0]} UTC' +%s.%N"))


def wait_ready(where: dict[str, object]) -> None:
    """Wait until the engine serves.

    Raises:
        SystemExit: it does not.
    """
    wait = {**where, "timeout": _READY_SECONDS}
    status, output = task("sm120.sglang.wait_engine_ready", wait)
    if status != 0:
        raise SystemExit(output)


def measure_switch(launch: str, client: Client) -> dict[str, float]:
    """Switch to a recorded launch; seconds of each part."""
    client.wait(time.time())
    arguments: dict[str, object] = {"root": ROOT, "unit": UNIT, "user": "sglang"}
    status, output = task("sm120.sglang.engine_switch", {**arguments, "launch": launch})
    if status != 0:
        raise SystemExit(output)
    start = started()
    last = max(answer for answer in client.answers if answer < start)
    told = {
        name: float(found[1])
        for name in ("stopping_seconds", "between_seconds")
        if (found := re.search(rf'"?{name}"?: ([\d.]+)', output))
    }
    return {
        "drain": told["stopping_seconds"],
        "gone": told["between_seconds"],
        "unanswered": start - last,
        "start": client.wait(start) - start,
    }


def measure_verdict(part: str, where: dict[str, object]) -> float:
    """Seconds from the death of a loading engine's part to the end of the task that waits."""
    # The start has to be there before somebody watches it: the end of another one is told too.
    on_node(
        f"systemctl stop --no-block {UNIT}; systemctl kill -s KILL {UNIT}; systemctl stop {UNIT}; "
        f"systemctl reset-failed {UNIT}; systemctl start {UNIT}"
    )
    main_pid = f"$(systemctl show {UNIT} -p MainPID --value)"
    pids = main_pid if part == "main" else f"$(pgrep -f '^sglang::{part}')"
    script = _KILL.format(part="scheduler" if part == "main" else part, pids=pids)
    moment: list[float] = []
    killer = threading.Thread(target=lambda: moment.append(float(on_node(script))))
    killer.start()
    _status, output = task("sm120.sglang.wait_engine_ready", {**where, "timeout": _READY_SECONDS})
    ended = time.time()
    killer.join()
    if "the engine failed after" not in output:
        raise SystemExit(output)
    return ended - moment[0]


def line(name: str, values: Iterable[float]) -> str:
    """One row: each value, the middle one and the worst."""
    listed = list(values)
    shown = " ".join(f"{value:6.2f}" for value in listed)
    return f"{name:<22} {shown}   median {statistics.median(listed):.2f}, max {max(listed):.2f} s"


def main() -> int:
    """Measure, print every figure, and compare the worst with the limits."""
    parser = argparse.ArgumentParser(
        description="What a switch costs, and how soon a death is told."
    )
    parser.add_argument("--rounds", type=int, default=4, help="switches")
    parser.add_argument("--deaths", type=int, default=3, help="deaths of each part")
    asked = parser.parse_args()
    first = recorded("serving")
    if not first:
        raise SystemExit("no launch has served here; run make deploy first")
    if not recorded("before"):
        status, output = ansible("playbook", "deploy.yml", "-e", json.dumps(_OTHER))
        if status != 0 or not recorded("before"):
            raise SystemExit(output)
    launches = (recorded("before"), recorded("serving"))
    where = address(first)
    switches, verdicts = [], {}
    for at in range(asked.rounds):
        wait_ready(where)
        client = Client(where)
        client.start()
        try:
            switches.append(measure_switch(launches[at % 2], client))
            print(f"switch {at + 1}: {switches[-1]}", file=sys.stderr)
        finally:
            client.done.set()
    for part in PARTS:
        verdicts[part] = [measure_verdict(part, where) for _ in range(asked.deaths)]
        print(f"deaths of {part}: {verdicts[part]}", file=sys.stderr)
    arguments: dict[str, object] = {"root": ROOT, "unit": UNIT, "user": "sglang"}
    task("sm120.sglang.engine_switch", {**arguments, "launch": first})
    load = os.getloadavg()[0]
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    found = {"switches": switches, "verdicts": verdicts, "load": load, "cores": os.cpu_count()}
    RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{os.cpu_count()} cores, load {load:.1f}, idle engine, seconds")
    for name in ("drain", "gone", "unanswered", "start"):
        print(line(f"switch: {name}", (one[name] for one in switches)))
    for part, values in verdicts.items():
        print(line(f"verdict: {part}", values))
    slow = max(one["gone"] for one in switches) > SWITCH_LIMIT
    late = max(max(values) for values in verdicts.values()) > VERDICT_LIMIT
    print(f"limits: gone {SWITCH_LIMIT} s{' MISSED' if slow else ''}, ", end="")
    print(f"verdict {VERDICT_LIMIT} s{' MISSED' if late else ''}")
    return int(slow or late)


if __name__ == "__main__":
    sys.exit(main())
