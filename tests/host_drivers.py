# SPDX-License-Identifier: Apache-2.0
"""A driver to install on lab nodes, and the power button that a reboot of them needs.

Packages, locks and reboots are real; the driver in the packages is not (tests/apt_repository.py).
"""

from __future__ import annotations

import base64
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.lab_node import REPOSITORY, lab

PORT = 8099
DRIVER = "580.95.05"


def wish(fingerprint: str) -> dict[str, Any]:
    """The variables for the repository that each node serves to itself."""
    place = f"http://{{{{ ansible_host }}}}:{PORT}/first"
    return {
        "cuda_stack_driver": "manage",
        "cuda_stack_repository_url": place,
        "cuda_stack_repository_key": f"{place}/key.asc",
        "cuda_stack_repository_fingerprints": [fingerprint],
        "cuda_stack_allow_reboot": True,
    }


def serve(nodes: Mapping[str, str], folder: Path) -> str:
    """Have nodes serve a repository to themselves.

    Args:
        nodes: Node to its address.
        folder: Where it is built; must not be there.

    Returns:
        The fingerprint of the key that signs it.
    """
    system = re.search(r"^ID=\"?(\w+)", Path("/etc/os-release").read_text(), re.MULTILINE)
    assert system is not None
    command = [sys.executable, "-m", "tests.apt_repository", str(folder), "--system", system[1]]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    packed = base64.b64encode(folder.with_suffix(".tar").read_bytes()).decode()
    for node, address in nodes.items():
        script = (
            f"base64 -d <<'END' | tar -x -C /srv --no-same-owner\n{packed}\nEND\n"
            f"systemd-run --quiet --unit=local-apt python3 -m http.server {PORT} "
            f"--bind {address} --directory /srv/apt"
        )
        lab("ssh", node, "--", "sudo", "sh", "-s", given=script)
    return (folder / "fingerprints").read_text().split()[0]


@contextmanager
def power() -> Iterator[None]:
    """Boot what has shut itself down to reboot, as a machine's firmware does."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            if "not running" in lab("status"):
                lab("up")

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
