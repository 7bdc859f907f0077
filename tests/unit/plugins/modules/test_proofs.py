# SPDX-License-Identifier: Apache-2.0
"""release_proof and collective_proof over a real virtual environment with small wheels."""

from __future__ import annotations

import getpass
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._proof import record
from ansible_collections.sm120.sglang.plugins.modules import collective_proof, release_proof

from tests.unit.plugins.conftest import build_wheel

RELEASE = "lab-0123456789ab"
BROKEN = (
    "raise ImportError('/x/site-packages/sgl_kernel/common_ops.abi3.so: undefined symbol: "
    "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib')\n"
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("product")
    wheels = root / "wheels"
    wheels.mkdir()
    place = root / "releases" / RELEASE
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "--quiet", "--offline", str(place / "venv")], check=True)
    made = [build_wheel(wheels, "torch", "2.9.1"), build_wheel(wheels, "sgl-kernel", "0.3.21")]
    install = ["pip", "install", "--quiet", "--offline", "--no-deps", "--no-index", "--no-cache"]
    python = ["--python", str(place / "venv/bin/python")]
    subprocess.run([*uv, *install, *python, *map(str, made)], check=True)
    (place / "stack.lock").write_text("torch==2.9.1\nsgl-kernel==0.3.21\n")
    return root


def arguments(root: Path) -> dict[str, Any]:
    return {
        "root": str(root),
        "release": RELEASE,
        "user": getpass.getuser(),
        "modules": ["torch", "sgl_kernel"],
        "gpu": False,
        "deadline": 30,
    }


def package(root: Path, name: str) -> Path:
    (found,) = (root / "releases" / RELEASE / "venv/lib").glob(f"python3*/site-packages/{name}")
    return found / "__init__.py"


def test_a_release_is_proved_and_the_proof_recorded(run_module: Any, tree: Path) -> None:
    found = run_module(release_proof, arguments(tree))
    assert (found["changed"], found["proved"]) == (False, True)
    assert [(one["module"], one["version"]) for one in found["imports"]] == [
        ("torch", "2.9.1"),
        ("sgl_kernel", "0.3.21"),
    ]
    seen = record.read(tree, RELEASE, record.stamp())
    assert seen["imports"]["valid"]
    # The engine's package is not what it was proved as: nothing was written into the release.
    assert not list((tree / "releases" / RELEASE).rglob("__pycache__"))


def test_a_proof_that_leaves_out_gpus_is_recorded_as_such(
    run_module: Any, tree: Path, full_cards: None
) -> None:
    """What serves on them may need the rest."""
    found = run_module(release_proof, {**arguments(tree), "gpu": True})
    assert found["gpus"] == []
    assert len(found["left_out"]) == len(found["warnings"]) == 2
    proofs = record.read(tree, RELEASE, record.stamp())
    assert proofs["imports"]["valid"]
    assert [one["kind"] for one in record.differences(proofs, {"imports": "auto"}, False)]
    assert record.differences(proofs, {"imports": "auto"}, True) == []


def test_check_mode_proves_and_records_nothing(run_module: Any, tree: Path) -> None:
    record.path(tree, RELEASE).unlink(missing_ok=True)
    assert run_module(release_proof, arguments(tree), check=True)["proved"]
    assert not record.path(tree, RELEASE).exists()


def test_a_package_of_another_version_is_named(run_module: Any, tree: Path) -> None:
    lock = tree / "releases" / RELEASE / "stack.lock"
    before = lock.read_text()
    lock.write_text(before.replace("0.3.21", "0.3.20"))
    try:
        found = run_module(release_proof, arguments(tree))
    finally:
        lock.write_text(before)
    assert found["failed"]
    assert "sgl-kernel: the lock says 0.3.20, installed is 0.3.21" in found["msg"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BROKEN, "import sgl_kernel: sgl-kernel 0.3.21 x torch 2.9.1: sgl_kernel/common_ops.abi3"),
        ("import os; os.kill(os.getpid(), 11)\n", "ended by SIGSEGV in step 'import sgl_kernel'"),
        ("import time; time.sleep(60)\n", "did not end within 2 s"),
    ],
)
def test_a_release_that_cannot_work(run_module: Any, tree: Path, text: str, message: str) -> None:
    place = package(tree, "sgl_kernel")
    before = place.read_text()
    place.write_text(text)
    try:
        found = run_module(release_proof, {**arguments(tree), "deadline": 2})
    finally:
        place.write_text(before)
    assert found["failed"]
    assert message in found["msg"]
    assert not found["proved"]


def test_a_release_that_is_not_there(run_module: Any, tree: Path) -> None:
    found = run_module(release_proof, {**arguments(tree), "release": "other-1"})
    assert "release other-1 is not on this node" in found["msg"]
    check = run_module(release_proof, {**arguments(tree), "release": "other-1"}, check=True)
    assert not check["proved"]


def collective(root: Path) -> dict[str, Any]:
    return {
        "root": str(root),
        "release": RELEASE,
        "user": getpass.getuser(),
        "backend": "gloo",
        "devices": 2,
        "deadline": 5,
    }


# A torch.distributed of this test's own: ranks meet in a folder, one may fail on purpose.
DISTRIBUTED = """
import os, time
from pathlib import Path
FAULT = os.environ.get("FAULT", "")
class _State: pass
def init_process_group(backend, init_method, world_size, rank):
    _State.rank, _State.world = rank, world_size
    if FAULT == "die" and rank == 1: os._exit(3)
    if FAULT == "hang" and world_size == 2: time.sleep(60)
def all_reduce(tensor):
    world = _State.world
    if FAULT == "slow" and world > 1: time.sleep(0.03)
    wrong = 1 if FAULT == "wrong" and world > 1 and _State.rank == 1 else 0
    tensor.values = [(v - _State.rank) * world + world * (world - 1) / 2 + wrong
                     for v in tensor.values]
def barrier(): pass
def destroy_process_group(): pass
"""
TORCH = """
import importlib
float32 = None
class Tensor:
    def __init__(self, values): self.values = list(values)
    def remainder(self, n): return Tensor(v % n for v in self.values)
    def to(self, _): return self
    def fill_(self, value): self.values = [value] * len(self.values); return self
    def _map(self, f): return Tensor(f(v) for v in self.values)
    def __mul__(self, n): return self._map(lambda v: v * n)
    def __add__(self, n): return self._map(lambda v: v + n)
def arange(n, device): return Tensor(float(i) for i in range(min(n, 64)))
def equal(a, b): return a.values == b.values
def device(*_): return None
def __getattr__(name):
    if name == "distributed": return importlib.import_module("torch.distributed")
    raise AttributeError(name)
"""


@pytest.fixture
def small_torch(tree: Path) -> Any:
    """A torch that is just enough for the program: its protocol and processes are the real ones."""
    place = package(tree, "torch")
    before = place.read_text()
    place.write_text(TORCH)
    place.with_name("distributed.py").write_text(DISTRIBUTED)
    yield
    place.write_text(before)
    place.with_name("distributed.py").unlink()


@pytest.mark.usefixtures("small_torch")
def test_ranks_that_talk_to_each_other(run_module: Any, tree: Path) -> None:
    found = run_module(collective_proof, {**collective(tree), "bandwidth": 0, "latency": 1e9})
    assert found["verdict"] == "ok"
    assert [(one["ranks"], one["outcome"]) for one in found["runs"]] == [(1, "ok"), (2, "ok")]
    assert record.read(tree, RELEASE, record.stamp())["collective"]["valid"]


@pytest.mark.usefixtures("small_torch")
@pytest.mark.parametrize(
    ("fault", "outcome", "words"),
    [
        ("die", "died", "rank 1 ended with 3 in phase 'connect'"),
        ("hang", "hang", "rank 0 in phase 'connect'; rank 1 in phase 'connect'"),
        ("wrong", "wrong", "wrong sum on rank(s) 1"),
        ("slow", "ok", "the floors are"),
    ],
)
def test_ranks_that_do_not(
    run_module: Any, tree: Path, fault: str, outcome: str, words: str
) -> None:
    record.path(tree, RELEASE).unlink(missing_ok=True)
    # In the first three the deadline is what ends them, or what has to be kept.
    asked = {**collective(tree), "environment": {"FAULT": fault}, "deadline": 1.0}
    if fault == "slow":
        asked |= {"deadline": 20, "bandwidth": 1}
    found = run_module(collective_proof, asked)
    assert found["failed"]
    assert found["runs"][-1]["outcome"] == outcome
    assert words in found["msg"]
    assert "engine_release_collective=never" in found["msg"]
    assert not record.path(tree, RELEASE).exists()


def test_a_torch_that_does_not_start_is_no_matter_of_links(run_module: Any, tree: Path) -> None:
    found = run_module(collective_proof, collective(tree))
    assert found["cause"] == "torch"
    assert "No module named 'torch.distributed'" in found["msg"]
    assert json.dumps(found["runs"])


def test_check_mode_runs_nothing(run_module: Any, tree: Path) -> None:
    found = run_module(collective_proof, collective(tree), check=True)
    assert found["changed"] is False
    assert "runs" not in found
