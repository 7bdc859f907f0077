# SPDX-License-Identifier: Apache-2.0
"""A node in a folder for the switch, with a stand-in for systemctl."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils import _launches

OLD, NEW = "a" * 16, "b" * 16
KEY = "sesame-0815"
# No unit of the machine that runs the tests has this name: what is left of it would be ended.
UNIT = "no-such-unit-anywhere.service"
# Each call with what was on disk at that moment: the launch in engine.env, the unit, the release.
_SYSTEMCTL = """#!/bin/sh
launch=$(sed -n 's/^SGLANG_DEPLOY_LAUNCH=//p' {config}/engine.env 2>/dev/null)
unit=$(cat {config}/sglang.service 2>/dev/null)
echo "$* | $launch | $unit | $(readlink {root}/current)" >> {log}
case "$1" in
is-enabled) echo enabled ;;
show)
  case "$*" in
  *Job*)
    # Answers are given one after the other, the last one for ever.
    sed -n '1s/ /\\n/gp' {states}
    [ "$(wc -l < {states})" -eq 1 ] || sed -i 1d {states}
    ;;
  *) echo active ;;
  esac
  ;;
{failing}) echo "no such luck" >&2; exit 1 ;;
esac
"""


class Place:
    """A node in a folder: two complete releases, the old launch's files, and systemctl."""

    def __init__(self, folder: Path) -> None:
        self.root, self.config, self.log = folder / "product", folder / "etc", folder / "log"
        self.states = folder / "states"
        self.config.mkdir()
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name in ("r1", "r2"):
            (self.root / "releases" / name).mkdir(parents=True)
            (self.root / "releases" / name / "COMPLETE").touch()
        self.fail("nothing")

    def fail(self, verb: str) -> None:
        self.states.write_text("ActiveState=active SubState=running Job=\n")
        text = _SYSTEMCTL.format(
            config=self.config, root=self.root, log=self.log, states=self.states, failing=verb
        )
        (self.bin / "systemctl").write_text(text)
        (self.bin / "systemctl").chmod(0o755)

    def arguments(self, launch: str, release: str, **over: Any) -> dict[str, Any]:
        me = pwd.getpwuid(os.geteuid()).pw_name
        group = grp.getgrgid(os.getegid()).gr_name

        def file(name: str, content: str, mode: str = "0644") -> dict[str, str]:
            path = str(self.config / name)
            return {"path": path, "content": content, "mode": mode, "owner": me, "group": group}

        environment = f"A=1\nSGLANG_DEPLOY_LAUNCH={launch}\n"
        return {
            "root": str(self.root),
            "config": str(self.config),
            "unit": UNIT,
            "user": me,
            "release": release,
            "files": [
                file("engine.env", environment, "0640"),
                file("sglang.service", f"unit of {release}"),
            ],
            "secret_files": [file("secrets.yaml", f"api-key: {KEY}{launch}\n", "0600")],
            "owned": [str(self.config / name) for name in ("secrets.yaml", "stale.yaml")],
            **over,
        }

    @property
    def calls(self) -> list[tuple[str, ...]]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        # What only asks changes nothing.
        return [
            tuple(part.strip() for part in line.split("|"))
            for line in lines
            if not line.startswith("show ")
        ]

    def launch(self) -> str:
        return _launches.launch_of((self.config / "engine.env").read_text())
