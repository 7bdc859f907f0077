# SPDX-License-Identifier: Apache-2.0
"""Start SGLang's router on a gateway; installed there as it is, and run by the unit.

`launch` runs the router in this process: keys come from the unit's credentials, so that none
stands in the process list. `register` names those engines to it that are members; it is run as
root, since systemd 252 gives no credentials to what runs after the start. Both run with the
router's own Python and nothing of this collection around: hence no import of it.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

_SECONDS = 60.0


def credential(name: str) -> str:
    """One of the unit's credentials, without the line's end."""
    return Path(os.environ["CREDENTIALS_DIRECTORY"], name).read_text(encoding="utf-8").strip()


def with_keys(words: list[str], client: str, admin: str) -> list[str]:
    """The router's arguments with its keys; clients need none where theirs is empty."""
    keys = ["--control-plane-api-keys", f"deployment:deployment:admin:{admin}"]
    return [*words, *keys, *(["--api-key", client] if client else [])]


def to_add(config: dict[str, Any], keys: dict[str, str], members: Any) -> list[dict[str, str]]:
    """Bodies of `POST /workers` for every member that the inventory still has."""
    bodies = []
    for node, url in sorted(config["workers"].items()):
        entry = members.get(node) if isinstance(members, dict) else None
        if isinstance(entry, dict) and entry.get("inside") is True:
            key = keys.get(node, "")
            bodies.append({"url": str(url), **({"api_key": key} if key else {})})
    return bodies


def post(url: str, key: str, body: dict[str, str]) -> None:
    """Have the router add one worker; waits for a router that is not listening yet."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    data = json.dumps(body).encode()
    deadline = time.monotonic() + _SECONDS
    while True:
        asked = urllib.request.Request(url, data=data, headers=headers)  # noqa: S310 - own URL
        try:
            opener.open(asked, timeout=10).close()
        except urllib.error.HTTPError:
            raise
        except OSError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.1)
        else:
            return


def register(folder: Path, members_file: Path) -> None:
    """Name all members to the router.

    Args:
        folder: The configuration folder, which is root's.
        members_file: Who gets requests; nobody where it cannot be read.
    """
    config = json.loads((folder / "gateway.json").read_text(encoding="utf-8"))
    keys = json.loads((folder / "worker-keys.json").read_text(encoding="utf-8"))
    admin = (folder / "admin.key").read_text(encoding="ascii").strip()
    try:
        members = json.loads(members_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        members = {}
    for body in to_add(config, keys, members):
        post(f"{config['url']}/workers", admin, body)
        print(f"named {body['url']} to the router", flush=True)


def launch(words: list[str]) -> None:
    """Become the router.

    As sglang_router.launch_router does it (0.3.2), but for its process title: that one overwrites
    the environment in /proc, in which the next deployment reads what this process was started with.
    """
    from sglang_router.launch_router import parse_router_args  # noqa: PLC0415
    from sglang_router.router import Router  # noqa: PLC0415

    arguments = parse_router_args(
        with_keys(words, credential("client.key"), credential("admin.key"))
    )
    arguments._validate_router_args()  # the one check that it has
    Router.from_args(arguments).start()


def main() -> None:
    """`launch ARGUMENT...` or `register CONFIG_FOLDER MEMBERS_FILE`."""
    if sys.argv[1] == "launch":
        launch(sys.argv[2:])
    else:
        register(Path(sys.argv[2]), Path(sys.argv[3]))


if __name__ == "__main__":
    main()
