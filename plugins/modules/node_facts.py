#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Read everything about a node that the roles decide on, in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_facts
short_description: Read everything that the roles decide on, in one round trip
description:
  - Reads the node itself, not stamps of earlier runs; a file edited by hand is seen.
  - Changes nothing. What it reads of the headers of weight files it keeps beside the model, so
    that the next reading is fast.
options:
  root:
    description: The product's folder.
    type: path
    required: true
  releases:
    description: Ids of the releases that may be wanted (one for each Python of the stack).
    type: list
    elements: str
    default: []
  recorded:
    description:
      - Whether to look into the releases of all recorded launches; else only into those of
        O(releases), the current one and that of the launch that passed its gate last.
    type: bool
    default: false
  config:
    description: The folder of the configuration and of the launch records.
    type: path
    default: /etc/sglang
  failures:
    description: The folder of what is kept of failed launches.
    type: path
    default: /var/lib/sglang/failures
  benchmarks:
    description: The folder of stored benchmarks.
    type: path
    default: /var/lib/sglang/benchmarks
  unit:
    description: The engine's unit.
    type: str
    required: true
  user:
    description: The engine's user.
    type: str
    required: true
  verify:
    description:
      - Whether size and times stand for the content of release and models (V(quick)), or every file
        is read (V(full)), which takes as long as reading them does.
      - A model's file that turns out to be wrong is forgotten by the model's record.
    type: str
    choices: [quick, full]
    default: quick
  files:
    description: Configuration files to read digests and modes of.
    type: list
    elements: path
    default: []
  models:
    description: Models to inspect, each with C(name), C(path), C(record) and C(files).
    type: list
    elements: dict
    default: []
  ports:
    description: Ports whose listeners matter.
    type: list
    elements: int
    default: []
  disks:
    description: Paths whose free space matters.
    type: list
    elements: path
    default: []
  packages:
    description: Debian packages to look up.
    type: list
    elements: str
    default: []
  commands:
    description: Programs to find.
    type: list
    elements: str
    default: []
  host:
    description: Whether to read what the checks of a GPU host need (cards, PCIe, kernel, limits).
    type: bool
    default: false
  host_root:
    description:
      - Root of the system that O(host=true) reads.
      - Another one than V(/) is a recorded system, whose own tools are run instead of the node's.
    type: path
    default: /
  cuda:
    description:
      - What to read of NVIDIA's driver and toolkit, C(keyring) the path of the repository's
        keyring. Nothing is read when empty.
    type: dict
    default: {}
  engine:
    description:
      - The engine to ask one question while the rest is read. It is asked where O(unit) listens on
        its port, which has to be among O(ports); nobody else gets the question and its key.
    type: dict
    suboptions:
      host:
        description: The address that it listens on.
        type: str
        required: true
      port:
        description: The port that it listens on.
        type: int
        required: true
      api_key:
        description: Its key.
        type: str
        default: ""
      model:
        description: The served model's name.
        type: str
        required: true
      known_answer:
        description: A question and what its answer holds, as M(sm120.sglang.engine_gate) takes it.
        type: dict
        default: {}
      timeout:
        description: Seconds to wait for the answer.
        type: float
        default: 20.0
  peers:
    description:
      - How to reach the other nodes of the same engine, C(own) this node's address, C(port) that of
        the rendezvous, and C(others) by name their C(address) and C(port). Nothing is read when
        empty.
    type: dict
    default: {}
attributes:
  check_mode:
    description: The same in check mode.
    support: full
  diff_mode:
    description: Nothing changes.
    support: none
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Read the node
  sm120.sglang.node_facts:
    root: /opt/sglang
    unit: sglang.service
    user: sglang
  register: node
"""

RETURN = r"""
system:
  description: System, interpreters, memory, disks, packages, programs.
  type: dict
  returned: always
releases:
  description: Current, previous, complete and unfinished releases, and what was edited by hand.
  type: dict
  returned: always
launches:
  description: Launches that passed their gate, which serves, and which served before.
  type: dict
  returned: always
failures:
  description: Launches that failed, oldest first.
  type: list
  elements: dict
  returned: always
benchmark:
  description:
    - C(pending), a benchmark that was not finished; C(restored), what its guard did last by itself;
      C(results), stored documents, oldest first.
  type: dict
  returned: always
models:
  description: Missing and unverified files of each model, its config, and what its weights hold.
  type: dict
  returned: always
unit:
  description:
    - The unit's state, and the launch that its process was started with; C(overrides), drop-ins and
      other units of its name; C(process), the arguments, variables (as digests) and release of
      its process; C(stop_asked), whether a failed one was stopped by a request to systemd.
  type: dict
  returned: always
configured:
  description:
    - Launch arguments and environment variables in the configuration files of the node; of a
      secret a digest.
  type: dict
  returned: always
files:
  description: Digest, mode and owner of each configuration file.
  type: dict
  returned: always
ports:
  description: Who listens on the ports.
  type: list
  elements: dict
  returned: always
user:
  description: The engine's user, its first group, home and shell.
  type: dict
  returned: always
host:
  description: Cards, driver, PCIe, kernel, limits, loader; empty unless asked for.
  type: dict
  returned: always
cuda:
  description:
    - Driver packages and their locks, running kernel module, library, Secure Boot, repositories,
      toolkits; empty unless asked for.
  type: dict
  returned: always
answer:
  description:
    - The verdict on what the engine answered, as M(sm120.sglang.engine_gate) has it for each check,
      and C(seconds); empty when it was not asked.
    - Where the launch that serves once gave the known answer, only the first tokens are asked for;
      C(warn) when they are others than then.
  type: dict
  returned: always
peers:
  description:
    - Interface and addresses of this node, and whether the other nodes answer; empty unless asked
      for.
  type: dict
  returned: always
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils import _failures, _launches, _verified
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import pending, store
from ansible_collections.sm120.sglang.plugins.module_utils._engine.asking import Question
from ansible_collections.sm120.sglang.plugins.module_utils._host.read import read_host
from ansible_collections.sm120.sglang.plugins.module_utils._node import (
    cuda,
    deployment,
    overrides,
    parts,
    peers,
    running,
    service,
    system,
)


def read(asked: dict[str, Any]) -> dict[str, Any]:
    """Read what was asked for.

    Args:
        asked: The module's parameters.

    Returns:
        The module's result, without `changed`.

    Raises:
        _verified.VerifyError: A manifest is malformed.
        pending.GuardError: A benchmark is pending, and it is not readable which.
        PermissionError: A folder of the product is not for this user.
        ValueError: The known answer is not one.
    """
    full = asked["verify"] == "full"
    launches = _launches.read(Path(asked["config"]))
    serving = launches["records"].get(launches[_launches.SERVING], {})
    ports = service.read_ports(asked["ports"])
    back = {record["release"] for record in launches["records"].values()}
    if not asked["recorded"]:
        back &= {serving.get("release", "")}
    # Nobody else at the port is asked: the question comes with the key.
    ours = asked["engine"] and any(
        (entry["port"], entry["unit"]) == (asked["engine"]["port"], asked["unit"])
        for entry in ports
    )
    question = Question(asked["engine"], serving.get("answer", "")) if ours else None
    # What other programs read (the release's files, the cards, packages), they read meanwhile.
    with ThreadPoolExecutor(max_workers=4) as pool:
        releases = pool.submit(
            deployment.read_releases, Path(asked["root"]), asked["releases"], full, back
        )
        host = pool.submit(_read_host, asked)
        driver = pool.submit(cuda.read_cuda, asked["cuda"]) if asked["cuda"] else None
        others = pool.submit(peers.read_peers, asked["peers"]) if asked["peers"] else None
        return {
            "models": deployment.read_models(asked["models"], full),
            "system": system.read_system(asked["disks"], asked["packages"], asked["commands"]),
            "launches": launches,
            "failures": _failures.read(Path(asked["failures"])),
            "benchmark": {
                **pending.read(pending.STATE),
                "results": store.read(Path(asked["benchmarks"])),
            },
            "unit": read_unit(asked["unit"], Path(asked["root"])),
            "configured": deployment.read_settings(asked["unit"], Path(asked["config"])),
            "files": {path: system.read_file(path) for path in asked["files"]},
            "ports": ports,
            "user": deployment.read_user(asked["user"]),
            "host": host.result(),
            "cuda": driver.result() if driver else {},
            "peers": others.result() if others else {},
            "releases": releases.result(),
            # Last: the engine answers while the rest is read.
            "answer": question.result() if question else {},
        }


def read_unit(name: str, root: Path) -> dict[str, Any]:
    """The engine's unit, what overrides it, and what its process runs with."""
    unit = service.read_unit(name)
    return {
        **unit,
        "stop_asked": service.stop_asked(unit),
        "titles": parts.read(name),
        "overrides": overrides.read(name, [unit["fragment_path"], *unit["drop_ins"]]),
        "process": running.read(unit["main_pid"], root),
    }


def _read_host(asked: dict[str, Any]) -> dict[str, Any]:
    if not asked["host"]:
        return {}
    return read_host(asked["unit"], asked["disks"], asked["host_root"])


def main() -> None:
    """Run the module."""
    strings = {"type": "list", "elements": "str", "default": []}
    paths = {"type": "list", "elements": "path", "default": []}
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "releases": strings,
            "recorded": {"type": "bool", "default": False},
            "config": {"type": "path", "default": "/etc/sglang"},
            "failures": {"type": "path", "default": str(_failures.FOLDER)},
            "benchmarks": {"type": "path", "default": str(store.FOLDER)},
            "unit": {"type": "str", "required": True},
            "user": {"type": "str", "required": True},
            "verify": {"type": "str", "choices": ["quick", "full"], "default": "quick"},
            "files": paths,
            "models": {"type": "list", "elements": "dict", "default": []},
            "ports": {"type": "list", "elements": "int", "default": []},
            "disks": paths,
            "packages": strings,
            "commands": strings,
            "host": {"type": "bool", "default": False},
            "host_root": {"type": "path", "default": "/"},
            "cuda": {"type": "dict", "default": {}},
            "peers": {"type": "dict", "default": {}},
            "engine": {
                "type": "dict",
                "options": {
                    "host": {"type": "str", "required": True},
                    "port": {"type": "int", "required": True},
                    "api_key": {"type": "str", "default": "", "no_log": True},
                    "model": {"type": "str", "required": True},
                    "known_answer": {"type": "dict", "default": {}},
                    "timeout": {"type": "float", "default": 20.0},
                },
            },
        },
        supports_check_mode=True,
    )
    try:
        found = read(module.params)
    except (_verified.VerifyError, pending.GuardError, ValueError) as error:
        module.fail_json(msg=str(error))
    except PermissionError as error:
        module.fail_json(msg=f"{error.filename} is not readable for this user; run with become")
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
