# SPDX-License-Identifier: Apache-2.0
"""An inventory in which recorded nodes are hosts, all of them the lab's first node.

python -m tests.host.inventory            prints it, for use beside inventories/lab
python -m tests.host.inventory --expected prints the verdicts that are not ok, by node
"""

from __future__ import annotations

import json
import sys
from typing import Any

from lab.inventory import addresses, host_variables
from lab.state import Lab, state_dir
from tests.host.cases import CASES

RECORDED = "/srv/recorded"
# The unit tests judge every case. These stand for each source of a reading: XML, matrices, exit
# statuses, files, configuration space, log, units. `old-driver` needs a stack that names a driver,
# which the lab's does not.
CHOSEN = (
    "good",
    "no-driver",
    "mismatch",
    "fallen-card",
    "acs",
    "iommu",
    "proprietary",
    "other-process",
    "small-bar1",
    "tunable",
    "tight-limits",
    "foreign-libraries",
    "stuck",
    "no-tools",
)


def inventory(lab: Lab) -> dict[str, Any]:
    """The group `recorded`, in the form of a static inventory.

    Args:
        lab: The lab that runs.
    """
    _, address, port = addresses(lab)[0]
    node = {
        **host_variables(lab, address, port),
        "cuda_stack_gpus": 8,
        # What the lab's inventory sets for nodes without cards.
        "preflight_shm_gib": 16,
        "preflight_accept": [],
    }
    hosts = {name: {**node, "preflight_host_root": f"{RECORDED}/{name}"} for name in CHOSEN}
    return {"recorded": {"hosts": hosts}, "engines": {"children": {"recorded": {}}}}


if __name__ == "__main__":
    if "--expected" in sys.argv:
        print(json.dumps({name: CASES[name].expected for name in CHOSEN}, indent=2))
    else:
        print(json.dumps(inventory(Lab(state_dir())), indent=2))
