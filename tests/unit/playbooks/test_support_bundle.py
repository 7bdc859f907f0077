# SPDX-License-Identifier: Apache-2.0
"""Where the archive of a support bundle lands on the controller, and who can read it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).parents[3]
PLAYBOOK = REPOSITORY / "playbooks" / "support_bundle.yml"
BEGIN, END = "Look for the folder that it goes to", "Fetch it"


def bring(folder: Path, *destinations: str) -> Path:
    """Run the playbook's own tasks that bring an archive to where the operator is."""
    (play,) = yaml.safe_load(PLAYBOOK.read_text())
    names = [task["name"] for task in play["tasks"]]
    source = folder / "node.tar.gz"
    source.write_bytes(b"\x1f\x8b of the node")
    plays: list[dict[str, Any]] = [
        {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "vars": {
                **play["vars"],
                **({"support_bundle_dest": destination} if destination else {}),
                "__support_name": "n1",
                "__support_bundle": {"dest": str(source)},
            },
            "tasks": play["tasks"][names.index(BEGIN) : names.index(END) + 1],
        }
        for destination in destinations
    ]
    written = folder / "play.yml"
    written.write_text(yaml.safe_dump(plays))
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("ansible-playbook")),
            "--inventory=localhost,",
            f"--extra-vars=ansible_python_interpreter={sys.executable}",
            str(written),
        ],
        cwd=folder,
        env={**os.environ, "PWD": str(folder), "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg")},
        umask=0o022,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return source


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_the_archive_is_the_operators_alone_and_a_folder_that_was_there_stays(
    tmp_path: Path,
) -> None:
    there = tmp_path / "shared"
    there.mkdir()
    there.chmod(0o755)
    source = bring(tmp_path, "", "shared")
    for folder, wanted in ((tmp_path / "support", 0o700), (there, 0o755)):
        archive = folder / "n1.tar.gz"
        assert archive.read_bytes() == source.read_bytes()
        assert (mode(folder), mode(archive)) == (wanted, 0o600)
