# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _stack

SCRIPT = Path(__file__).parents[3] / "scripts/lock_stacks.py"
A, B = "a" * 64, "b" * 64
# As uv prints a universal lock.
LOCK = f"""\
plain==1.0 \\
    --hash=sha256:{A} \\
    --hash=sha256:{B}
numpy==2.2 ; python_full_version < '3.12' \\
    --hash=sha256:{A}
numpy==2.3 ; python_full_version >= '3.12' \\
    --hash=sha256:{B}
linux-only==3.0 ; platform_machine == 'x86_64' and sys_platform == 'linux' \\
    --hash=sha256:{A}
windows==4.0 ; sys_platform == 'win32' \\
    --hash=sha256:{A}
Torch==2.13.0+cpu \\
    --hash=sha256:{A}
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lock_stacks", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("python", "numpy"), [("3.11", "2.2"), ("3.12", "2.3"), ("3.13", "2.3")])
def test_a_lock_keeps_what_one_python_needs(script: ModuleType, python: str, numpy: str) -> None:
    pins = _stack.parse_lock(script.select(LOCK, python, {"torch"}), "x.lock")
    assert [(pin.name, pin.version) for pin in pins] == [
        ("plain", "1.0"),
        ("numpy", numpy),
        ("linux-only", "3.0"),
        ("torch", "2.13.0+cpu"),
    ]
    assert pins[0].hashes == (A, B)
    assert pins[-1].hashes == ()  # its digest differs from place to place


@pytest.mark.parametrize(
    "line",
    [
        "torch @ https://example.org/torch.whl\n",
        "-e ./here\n",
        "numpy>=2\n",
        f"    --hash=sha256:{A}\n",
    ],
)
def test_a_line_that_is_not_understood_is_not_dropped(script: ModuleType, line: str) -> None:
    with pytest.raises(SystemExit, match="cannot read"):
        script.select(LOCK + line, "3.11", set())


def test_shipped_locks_are_what_selecting_leaves(script: ModuleType) -> None:
    """A lock has no marker left: selecting from it again changes nothing."""
    for path in script.STACKS.glob("*.lock"):
        text = path.read_text()
        assert script.select(text, "3.12", set()) == text
