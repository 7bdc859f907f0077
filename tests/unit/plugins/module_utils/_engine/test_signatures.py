# SPDX-License-Identifier: Apache-2.0
"""From a cause to what is known of it: signatures and their remedies."""

from __future__ import annotations

import re

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._engine.cause import (
    find_cause,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.known import SIGNATURES
from ansible_collections.sm120.sglang.plugins.module_utils._engine.signatures import (
    best_match,
    from_parameters,
)

from tests.unit.plugins.module_utils._engine.recordings import journal


@pytest.mark.parametrize(
    ("text", "signature"),
    [
        ("Failed at step EXEC spawning /v/python: No such file or directory", "service-program"),
        ("Failed at step CREDENTIALS spawning /x: No such file", "service-credential"),
        ("Failed at step NAMESPACE spawning /x: No such file", "service-sandbox"),
        ("OSError: [Errno 98] Address already in use", "port-in-use"),
        ("ValueError: HTTP server port at 30000 is not available in 60 seconds. x", "port-in-use"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 34.00 GiB", "gpu-memory"),
        (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            "kv-pool-memory",
        ),
        ("RuntimeError: DefaultCPUAllocator: can't allocate memory", "host-memory"),
        ("OSError: [Errno 28] No space left on device: '/x'", "disk-full"),
        ("PermissionError: [Errno 13] Permission denied: '/x'", "permission"),
        ("ModuleNotFoundError: No module named 'sgl_kernel'", "missing-module"),
        ("ImportError: /x.so: undefined symbol: _ZN3c10", "abi"),
        ("KeyError: 12", "symm-mem-capability"),
        (
            "RuntimeError: No supported CUDA architectures found for major versions [9, 10].",
            "fusion-architecture",
        ),
        (
            (
                "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: "
                "106496, Hardware limit: 101376."
            ),
            "triton-shared-memory",
        ),
        ("RuntimeError: CUDA driver version is insufficient for CUDA runtime version", "driver"),
        ("RuntimeError: Could not find nvcc and default cuda_home", "nvcc"),
        ("argument refused: argument --port: invalid int value: 'x'", "argument-value"),
    ],
)
def test_signatures(text: str, signature: str) -> None:
    match = best_match(text, SIGNATURES)
    assert match is not None
    assert match[0].id == signature
    assert match[1]


@pytest.mark.parametrize("name", ["head-lost-a-node", "second-node-lost-its-head"])
def test_a_node_that_ended_because_another_did_says_so(name: str) -> None:
    cause = find_cause(journal(name))
    assert cause.signature == "another-node-died"
    assert "another rank of this engine" in cause.known


def test_a_key_that_only_begins_like_one_is_another() -> None:
    assert best_match("KeyError: 128", SIGNATURES) is None


def test_signatures_are_unique_and_their_remedies_expand() -> None:
    assert len({one.id for one in SIGNATURES}) == len(SIGNATURES)
    for one in SIGNATURES:
        groups = re.compile(one.pattern).groups
        for number in re.findall(r"\\(\d)", one.remedy):
            assert int(number) <= groups
        for name in re.findall(r"\\g<(\w+)>", one.remedy):
            assert name in re.compile(one.pattern).groupindex


def test_remedies_of_the_task_come_first_and_are_plain_text() -> None:
    remedies = from_parameters([{"pattern": "AttributeError", "remedy": r"see C:\1\g<x>"}])
    cause = find_cause(journal("unpatched"), remedies=remedies)
    assert cause.remedy == r"see C:\1\g<x>"
    assert cause.signature == "remedy-1"


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        ({"pattern": "("}, r"remedies\[1\] needs"),
        ({"pattern": "(", "remedy": "x"}, r"remedies\[1\]\.pattern '\('"),
    ],
)
def test_bad_remedies(entry: dict[str, str], wanted: str) -> None:
    with pytest.raises(ValueError, match=wanted):
        from_parameters([entry])
