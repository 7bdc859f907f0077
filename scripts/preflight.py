#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run playbooks/preflight.yml and exit with what it found: 0 ok, 1 warnings, 2 failures.

ansible-playbook has no exit status for warnings; this script takes it from the report. A node that
cannot be reached, an inventory that is refused and a play that breaks are failures.

    scripts/preflight.py -i inventories/SITE [--report FILE] [any option of ansible-playbook]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
FAILED = 2


def read_report(path: Path) -> dict[str, Any]:
    """The report, empty when there is none or the file is something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and "exit_code" in found else {}


def exit_status(status: int, before: Mapping[str, Any], after: Mapping[str, Any]) -> int:
    """Map the play's exit status and report to 0, 1 or 2.

    Args:
        status: Of ansible-playbook.
        before: The report that was there before.
        after: The report that is there now; an earlier run's is not taken for this one's.

    Returns:
        The report's own exit code; 2 when there is none, or when the play failed although the
        report has no failure in it.
    """
    if not after or after.get("written") == before.get("written") or status != 0:
        return FAILED
    return int(after["exit_code"])


def main(words: list[str]) -> int:
    """Run the play.

    Args:
        words: Command line; what is not known here goes to ansible-playbook.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="Every other option is one of ansible-playbook: -i, --limit, -e, ...",
    )
    parser.add_argument("--report", type=Path, default=Path("preflight.json"), metavar="FILE")
    options, rest = parser.parse_known_args(words)
    target = options.report.absolute()
    before = read_report(target)
    play = str(REPOSITORY / "playbooks/preflight.yml")
    command = ["ansible-playbook", play, "-e", json.dumps({"preflight_report": str(target)})]
    done = subprocess.run([*command, *rest], check=False)
    status = exit_status(done.returncode, before, read_report(target))
    print(f"preflight: exit status {status}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
