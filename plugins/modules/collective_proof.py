#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Time an all-reduce over the node's GPUs before weights are read."""

from __future__ import annotations

DOCUMENTATION = r"""
module: collective_proof
short_description: Time an all-reduce over 1, 2, 4 and all GPUs, and tell why it fails
description:
  - Runs torch.distributed from the release's own environment, as the engine's user, with the
    engine's own variables. Each run has a hard deadline, after which its processes, and no others,
    are ended.
  - When the engine's own settings hang, fail or are slow, the run is repeated with other NCCL
    settings. What helps tells the cause. RV(cause=iommu_acs) is peer-to-peer that does not work;
    RV(cause=p2p_level) is a wrong C(NCCL_P2P_LEVEL); RV(cause=links) is slow whatever is set.
  - On the CPU the same program runs with gloo.
  - The proof is recorded with the boot and the driver that it was made on
    (C(proofs/RELEASE.json)).
options:
  backend:
    description: V(nccl) for GPUs, V(gloo) for the CPU.
    type: str
    choices: [nccl, gloo]
    default: nccl
  devices:
    description: GPUs of the engine; on the CPU the largest number of ranks.
    type: int
    required: true
  bandwidth:
    description:
      - Bus bandwidth in GB/s that each run with more than one rank must reach.
    type: float
    default: 10
  latency:
    description: Microseconds that a small message may take.
    type: float
    default: 500
  deadline:
    description: Seconds for one run.
    type: float
    default: 90
extends_documentation_fragment: [sm120.sglang.release, sm120.sglang.account]
attributes:
  check_mode:
    description: Nothing runs.
    support: full
  diff_mode:
    description: Nothing changes.
    support: none
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Time an all-reduce over eight GPUs
  sm120.sglang.collective_proof:
    root: /opt/sglang
    release: sglang-0.5.12.post1-0123456789ab
    user: sglang
    devices: 8
    environment: {NCCL_P2P_LEVEL: SYS}
"""

RETURN = r"""
verdict:
  description: V(ok) or V(fail).
  type: str
  returned: when run
cause:
  description: Why it failed, empty when it did not.
  type: str
  returned: when run
reason:
  description: What was seen in each run.
  type: str
  returned: when run
runs:
  description: Ranks, settings, outcome, latency (us) and bus bandwidth (GB/s) of each run.
  type: list
  elements: dict
  returned: when run
"""

import dataclasses
import inspect
import json
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils import _release
from ansible_collections.sm120.sglang.plugins.module_utils._node import account
from ansible_collections.sm120.sglang.plugins.module_utils._proof import (
    collective,
    probe_collective,
    process,
    record,
)

_LARGE = 64 << 20
_SMALL = 32 << 10
# Beside the program's own deadline: importing torch, and ending what hangs.
_START_SECONDS = 120.0


def run_sets(
    module: AnsibleModule, tree: Path, sets: list[int], settings: dict[str, str]
) -> tuple[list[collective.Run], tuple[int, ...]]:
    """Call the program once.

    Args:
        module: The parameters.
        tree: The release.
        sets: Numbers of ranks.
        settings: Variables beside the engine's own.

    Returns:
        The runs, and processes that could not be ended.
    """
    asked = module.params
    cpu = asked["backend"] == "gloo"
    job = {
        "backend": asked["backend"],
        "sets": sets,
        "bytes": _LARGE // 8 if cpu else _LARGE,
        "small_bytes": _SMALL,
        "iterations": 5 if cpu else 20,
        "deadline": asked["deadline"],
    }
    ended = process.run_program(
        asked["user"],
        tree / "venv" / "bin" / "python",
        inspect.getsource(probe_collective),
        json.dumps(job),
        environment={**asked["environment"], **settings},
        deadline=asked["deadline"] * len(sets) + _START_SECONDS,
        scratch=process.scratch(Path(asked["root"])),
    )
    error = account.last_line(ended.errors)
    return collective.read_runs(ended.output, sets, settings, error), ended.left


def prove(
    module: AnsibleModule, tree: Path, floors: collective.Floors
) -> tuple[list[collective.Run], tuple[int, ...]]:
    """Run with more and more ranks until one set fails, then look for what helps.

    Args:
        module: The parameters.
        tree: The release.
        floors: What is good enough.

    Returns:
        The runs, and processes that could not be ended.
    """
    backend = module.params["backend"]
    sets = collective.rank_counts(module.params["devices"])
    runs, left = run_sets(module, tree, sets, {})
    while not left:
        step = collective.next_step(runs, floors, backend)
        if step is None:
            break
        more, left = run_sets(module, tree, [step.ranks], dict(step.settings))
        runs += more
    return runs, left


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "release": {"type": "str", "required": True},
            "user": {"type": "str", "required": True},
            "environment": {"type": "dict", "default": {}},
            "backend": {"type": "str", "choices": ["nccl", "gloo"], "default": "nccl"},
            "devices": {"type": "int", "required": True},
            "bandwidth": {"type": "float", "default": 10},
            "latency": {"type": "float", "default": 500},
            "deadline": {"type": "float", "default": 90},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False)
    asked = module.params
    paths = _release.Paths(Path(asked["root"]), asked["release"])
    tree = paths.building if paths.building.is_dir() else paths.final
    if not tree.is_dir():
        module.fail_json(msg=f"release {paths.release} is not on this node; run the deployment")
    floors = collective.Floors(asked["bandwidth"], asked["latency"])
    try:
        runs, left = prove(module, tree, floors)
    except account.AccountError as error:
        module.fail_json(msg=str(error))
    verdict = collective.judge(runs, floors, left)
    result = {
        "verdict": verdict.verdict,
        "cause": verdict.cause,
        "reason": verdict.reason,
        "runs": [dataclasses.asdict(run) for run in runs],
    }
    if verdict.verdict != "ok":
        module.fail_json(
            msg=f"the all-reduce over this node's {asked['devices']} device(s) failed, "
            f"{verdict.cause}: {verdict.reason}. {verdict.remedy}. To go on without this proof: "
            "-e engine_release_collective=never",
            **result,
        )
    record.write(paths.root, paths.release, "collective", record.stamp(), result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
