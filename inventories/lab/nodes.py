#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inventory script: the nodes of the lab, see `python -m lab status`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from lab.inventory import addresses, listing
from lab.state import Lab, LabError, state_dir


def main() -> int:
    """Print what Ansible asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    question = parser.add_mutually_exclusive_group(required=True)
    question.add_argument("--list", action="store_true", help="groups and all host variables")
    question.add_argument("--host", metavar="NAME", help="variables of one host")
    options = parser.parse_args()
    try:
        lab = Lab(state_dir())
        found = listing(lab, addresses(lab))
    except LabError as error:
        print(f"lab inventory: {error}", file=sys.stderr)
        return 1
    answer = found if options.list else found["_meta"]["hostvars"].get(options.host, {})
    print(json.dumps(answer, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
