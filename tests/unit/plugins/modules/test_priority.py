# SPDX-License-Identifier: Apache-2.0
"""What is prepared beside an engine that serves gives way to it, with all that it starts."""

from __future__ import annotations

import getpass
import json
import subprocess
import sys
from pathlib import Path

import pytest

MODULES = "ansible_collections.sm120.sglang.plugins.modules"
# As Ansible runs a module; without parameters it ends at once.
RUN = """
import atexit, os, runpy, sys
atexit.register(lambda: print("niceness", os.getpriority(os.PRIO_PROCESS, 0)))
sys.argv = ["module", '{"ANSIBLE_MODULE_ARGS": {}}']
runpy.run_module(%r, run_name="__main__")
"""
CHILDREN = """
import sys
from concurrent.futures import ThreadPoolExecutor
from ansible_collections.sm120.sglang.plugins.module_utils import _priority
from ansible_collections.sm120.sglang.plugins.module_utils._proof import process
user, python, source = sys.argv[1:]
_priority.give_way()
_priority.give_way()
with ThreadPoolExecutor(1) as pool:
    done = pool.submit(
        process.run_program, user, python, source, "", environment={}, deadline=30.0
    ).result()
print(done.output or done.errors)
"""


@pytest.mark.parametrize(
    "name",
    [
        "cuda_compile_proof",
        "engine_contract_info",
        "launch_check",
        "release_build",
        "release_proof",
        "release_prune",
        "release_seal",
        "source_patch",
        "support_bundle",
        "verified_files",
    ],
)
def test_a_module_that_works_beside_an_engine_is_niced(name: str) -> None:
    command = [sys.executable, "-c", RUN % f"{MODULES}.{name}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "niceness 10", done.stdout + done.stderr


def test_so_is_the_proof_that_it_starts_in_a_thread(tmp_path: Path) -> None:
    source = "import json, os; print(json.dumps(os.getpriority(os.PRIO_PROCESS, 0)))"
    command = [sys.executable, "-c", CHILDREN, getpass.getuser(), sys.executable, source]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout) == 10
