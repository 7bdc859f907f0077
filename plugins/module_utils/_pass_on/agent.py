# SPDX-License-Identifier: Apache-2.0
"""The node's side of passing files on: a program that lives as long as the controller's line to it.

It reads orders and writes events, one JSON object a line. Nothing that it starts or writes under
its own folder outlives it (`commands.unit`); what it leaves are verified files in their places,
their record, and parts of files that the next run goes on with.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

from ansible_collections.sm120.sglang.plugins.module_utils import _os_errors, _verified
from ansible_collections.sm120.sglang.plugins.module_utils._pass_on import commands
from ansible_collections.sm120.sglang.plugins.module_utils._pass_on.shelf import Shelf

_REPORT_SECONDS = 2.0
SILENCE_SECONDS = 120.0
"""How long an agent goes on without a word from the controller, whose machine may be gone."""
_SSHD = "/usr/sbin/sshd"

Tell = Callable[[dict[str, Any]], None]


class _Arrival:
    """A file on its way from another node."""

    def __init__(self, shelf: Shelf, entry: _verified.Wanted, remote: str) -> None:
        self.shelf, self.entry, self.remote = shelf, entry, remote
        self.part = shelf.part(entry, by_controller=False)
        self.began = self.size()

    def size(self) -> int:
        """Bytes that are here."""
        return self.part.stat().st_size if self.part.exists() else 0

    def full(self) -> bool:
        """Whether the disk has no room for the rest."""
        left = self.entry.size - self.size()
        return shutil.disk_usage(self.part.parent).free < min(left, 1 << 20)


class Agent:
    """What a node does for a run, order by order."""

    def __init__(self, own: Path, tell: Tell) -> None:
        """Begin.

        Args:
            own: The folder that goes with the agent.
            tell: Takes each event.
        """
        self._own, self._tell = own, tell
        self._shelves: list[Shelf] = []
        self._address = ""
        self._server: subprocess.Popen[bytes] | None = None

    def order(self, order: Mapping[str, Any]) -> None:
        """Carry out one order; what takes long goes on beside.

        Args:
            order: `do` and what belongs to it.
        """
        if order["do"] == "ping":  # that it came is all that it says
            return
        does: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "open": self._open,
            "meet": self._meet,
            "serve": self._serve,
            "take": self._take,
            "expect": self._expect,
            "adopt": self._adopt,
            "doubt": self._doubt,
        }
        task = does[str(order["do"])]
        if order["do"] in ("take", "adopt", "doubt"):
            threading.Thread(target=self._safely, args=(task, order), daemon=True).start()
        else:
            self._safely(task, order)

    def _safely(self, task: Callable[[Mapping[str, Any]], None], order: Mapping[str, Any]) -> None:
        try:
            task(order)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            text = _os_errors.explain(error, self._own) if isinstance(error, OSError) else error
            self._tell(
                {"event": "failed", "id": order.get("id"), "why": "local", "text": str(text)}
            )

    def _open(self, order: Mapping[str, Any]) -> None:
        self._address = str(order["address"])
        self._shelves = [Shelf(number, spec) for number, spec in enumerate(order["folders"])]
        lacking = [shelf.look(read=bool(order["read"])) for shelf in self._shelves]
        event: dict[str, Any] = {"event": "opened", "lacking": lacking}
        if order["read"]:
            self._make_room(order, lacking)
            event["keys"] = {name: self._new_key(name) for name in ("host", "client")}
        self._tell(event)

    def _make_room(self, order: Mapping[str, Any], lacking: list[list[str]]) -> None:
        """Keep the parts that are still wanted, and make the folder that the controller fills."""
        for shelf, files in zip(self._shelves, lacking, strict=True):
            shelf.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            for place in (shelf.incoming, shelf.incoming / "controller"):
                for part in place.glob("*"):
                    if part.name not in (*files, "controller"):
                        part.unlink()
            if files:
                (shelf.incoming / "controller").mkdir(mode=0o700, parents=True, exist_ok=True)
                shelf.incoming.chmod(0o711)
                # The controller puts files there as who it logs in as.
                shutil.chown(shelf.incoming / "controller", str(order["user"]))

    def _new_key(self, name: str) -> str:
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(self._own / name)],
            check=True,
            capture_output=True,
        )
        return " ".join((self._own / f"{name}.pub").read_text("ascii").split()[:2])

    def _meet(self, order: Mapping[str, Any]) -> None:
        """Note the keys of the nodes that may take from here and may be taken from."""
        known = "".join(f"{peer['name']} {peer['host_key']}\n" for peer in order["peers"])
        (self._own / "known_hosts").write_text(known, "utf-8")
        (self._own / "authorized").write_text(commands.authorized(order["peers"]), "utf-8")
        (self._own / "authorized").chmod(0o644)  # the server reads it as the user who logs in

    def _serve(self, order: Mapping[str, Any]) -> None:
        """Open this node's own SSH server for the others; the system's one is left alone."""
        port = int(order["port"])
        for shelf in self._shelves:
            shown = self._own / "root" / str(shelf.number)
            shown.mkdir(mode=0o755, parents=True)
            # Read-only for everybody, root included, and only in this unit's own view.
            subprocess.run(
                ["mount", "--bind", "-o", "ro", str(shelf.folder.resolve()), str(shown)],
                check=True,
                capture_output=True,
            )
        (self._own / "root").chmod(0o755)
        (self._own / "sshd").write_text(commands.server(self._own, self._address, port), "utf-8")
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # its privilege separation folder
        self._server = subprocess.Popen(
            [_SSHD, "-D", "-e", "-f", str(self._own / "sshd")],
            stdin=subprocess.DEVNULL,
            stderr=(self._own / "log").open("wb"),
        )
        for _ in range(50):
            time.sleep(0.1)
            said = (self._own / "log").read_text("utf-8", errors="replace")
            if f"listening on {self._address} port" in said:
                self._tell({"event": "serving"})
                return
            if self._server.poll() is not None:
                break
        self._tell({"event": "mute", "text": f"{self._address} port {port}: {said.strip()[-300:]}"})

    def _places(self, digest: str) -> list[tuple[Shelf, _verified.Wanted]]:
        """Where a file belongs, first where it is lacking: two models may have the same one."""
        places = [
            (shelf, entry)
            for shelf in self._shelves
            for entry in shelf.wanted
            if entry.sha256 == digest
        ]
        return sorted(places, key=lambda place: place[1].name not in place[0].lacking)

    def _files(self, digests: Iterable[str]) -> list[tuple[Shelf, _verified.Wanted]]:
        return [self._places(digest)[0] for digest in digests]

    def _take_in(self, shelf: Shelf, part: Path, entry: _verified.Wanted) -> str | None:
        """Put a file that has arrived into all its places; returns what is wrong with it."""
        problem = shelf.take_in(part, entry)
        for other, twin in self._places(entry.sha256)[1:]:
            if twin.name in other.lacking:
                problem = problem or other.take_in(shelf.folder / entry.name, twin, keep=True)
        return problem

    def _take(self, order: Mapping[str, Any]) -> None:
        """Get files from another node, each resumed where it stopped, verified and put in place."""
        number, giver = order["id"], order["source"]["name"]
        left = [
            _Arrival(shelf, entry, remote)
            for (shelf, entry), remote in zip(
                self._files(order["files"]), order["names"], strict=True
            )
        ]
        resumed = 0
        # A part may have come from several nodes; only one that came whole tells whose it is.
        for _ in range(2):
            status, said = self._fetch(order, left)
            again = []
            for arrival in left:
                if not arrival.part.exists() or arrival.size() < arrival.entry.size:
                    kind = commands.why(status, said, arrival.full())
                    self._failed(number, kind or "lost", arrival.entry, f"{giver}: {said}")
                    return
                problem = self._take_in(arrival.shelf, arrival.part, arrival.entry)
                if problem is None:
                    resumed += arrival.began
                elif not arrival.began:
                    self._failed(number, "corrupt", arrival.entry, problem)
                    return
                else:
                    arrival.began = 0
                    again.append(arrival)
            left = again
            if not left:
                break
        self._tell({"event": "done", "id": number, "resumed": resumed})

    def _failed(self, number: int, kind: str, entry: _verified.Wanted, text: str) -> None:
        self._tell(
            {"event": "failed", "id": number, "why": kind, "file": entry.sha256, "text": text}
        )

    def _fetch(self, order: Mapping[str, Any], arrivals: list[_Arrival]) -> tuple[int, str]:
        """Have `sftp` get files, one after the other; it stops at the first that it cannot get."""
        source = order["source"]
        command = commands.sftp(
            commands.taker(self._own, source, self._address),
            int(order["limit"]),
            f"{commands.USER}@{source['address']}",
        )
        process = subprocess.Popen(
            commands.bounded(command, max(arrival.entry.size for arrival in arrivals)),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        batch = "".join(
            f"reget {commands.quote(arrival.remote)} {commands.quote(str(arrival.part))}\n"
            for arrival in arrivals
        )
        over = threading.Event()
        watch = threading.Thread(target=self._report, args=(order["id"], arrivals, over))
        watch.start()
        try:
            _, errors = process.communicate(batch.encode())
        finally:
            over.set()
            watch.join()
        return process.returncode, errors.decode(errors="replace").strip()[-500:]

    def _report(self, number: int, arrivals: list[_Arrival], over: threading.Event) -> None:
        while not over.wait(_REPORT_SECONDS):
            here = sum(arrival.size() for arrival in arrivals)
            self._tell({"event": "progress", "id": number, "bytes": here})

    def _expect(self, order: Mapping[str, Any]) -> None:
        """Say how much of each file that the controller brings is here already, and where it goes.

        `sftp` goes on with a file that exists and is shorter; hence an empty one to begin with.
        """
        parts = []
        for shelf, entry in self._files(order["files"]):
            part = shelf.part(entry, by_controller=True)
            if not part.exists():
                part.touch(mode=0o600)
            owner = part.parent.stat()
            os.chown(part, owner.st_uid, owner.st_gid)
            here = part.stat().st_size
            parts.append({"path": str(part), "here": here, "missing": entry.size - here})
        self._tell({"event": "ready", "id": order["id"], "parts": parts})

    def _adopt(self, order: Mapping[str, Any]) -> None:
        """Take in what the controller has brought."""
        for shelf, entry in self._files(order["files"]):
            part = shelf.incoming / "controller" / entry.sha256
            problem = self._take_in(shelf, part, entry)
            if problem:
                self._failed(order["id"], "corrupt", entry, problem)
                return
        self._tell({"event": "done", "id": order["id"], "resumed": int(order["resumed"])})

    def _doubt(self, order: Mapping[str, Any]) -> None:
        for shelf, entry in self._files([order["file"]]):
            text = shelf.doubt(entry)
            self._tell({"event": "doubted", "file": entry.sha256, "text": text})

    def close(self) -> None:
        """Remove the folders of parts that hold none; the rest goes with the unit."""
        for shelf in self._shelves:
            for place in (shelf.incoming / "controller", shelf.incoming):
                for part in place.glob("*"):
                    if part.is_file() and part.stat().st_size == 0:
                        part.unlink()
                if place.is_dir() and not any(place.iterdir()):
                    place.rmdir()


def main(orders: IO[str], events: IO[str], own: Path) -> None:
    """Carry out orders until the controller's line ends.

    Args:
        orders: One JSON object a line; its end is the end of the run.
        events: Where events are written to.
        own: The folder that goes with the unit.
    """
    guard = threading.Lock()

    def tell(event: dict[str, Any]) -> None:
        with guard:
            print(json.dumps(event), file=events, flush=True)

    agent = Agent(own, tell)
    heard = [time.monotonic()]

    def listen_for_silence() -> None:
        while time.monotonic() - heard[0] < SILENCE_SECONDS:
            time.sleep(1)
        leave(agent)

    threading.Thread(target=listen_for_silence, daemon=True).start()
    with suppress(BrokenPipeError):
        for line in orders:
            heard[0] = time.monotonic()
            agent.order(json.loads(line))
    leave(agent)


def leave(agent: Agent) -> NoReturn:
    """End at once; what still runs ends with the unit."""
    try:
        agent.close()
    finally:
        os._exit(0)


if __name__ == "__main__":
    main(sys.stdin, sys.stdout, Path(os.environ["RUNTIME_DIRECTORY"]))
