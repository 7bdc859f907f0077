# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._report.dependencies import (
    cuda_major,
    dependencies,
)
from ansible_collections.sm120.sglang.plugins.module_utils._tree.metadata import (
    Metadata,
    parse_requirement,
)


def metadata(*requirements: str, python: str = ">=3.10") -> Metadata:
    parsed = tuple(map(parse_requirement, requirements))
    return Metadata("METADATA", "sglang", "0.5.9", python, parsed, ("py3-none-any",))


def test_what_a_wheel_asks_for() -> None:
    """The lines of SGLang 0.5.9's METADATA."""
    assert dependencies(
        metadata(
            "cuda-python==12.9",
            "flashinfer_python==0.6.3",
            "sgl-kernel==0.3.21",
            "torch==2.9.1",
            "transformers==4.57.1",
        )
    ) == {
        "torch": "2.9.1",
        "cuda_major": 12,
        "kernel": "sgl-kernel 0.3.21",
        "flashinfer": "0.6.3",
        "transformers": "4.57.1",
        "python": ">=3.10",
        "wheel": "py3-none-any",
    }


def test_what_is_not_said_is_none() -> None:
    assert set(dependencies(Metadata()).values()) == {None}


@pytest.mark.parametrize(
    ("requirements", "major"),
    [
        (["cuda-python==12.9"], 12),
        (["cuda-python>=13.0"], 13),
        (["cuda-python>=13.0,<14"], 13),
        (["cuda-python"], None),
        (["flashinfer_python[cu13]==0.6.12"], 13),
        (["flashinfer_python[cu13]==0.6.12", "cuda-python>=13.0"], 13),
        (["flashinfer_python[cu12]==0.6.12", "cuda-python>=13.0"], None),
        (["cuda-python<14"], None),
        (["torch==2.9.1"], None),
        ([], None),
    ],
)
def test_the_cuda_major_is_derived_or_not_told(requirements: list[str], major: int | None) -> None:
    assert cuda_major(metadata(*requirements)) == major


def test_conditions_are_shown_where_nothing_is_pinned() -> None:
    found = dependencies(metadata("torch>=2.9,<3", "sglang-kernel", python=""))
    assert (found["torch"], found["kernel"], found["python"]) == (
        ">=2.9,<3",
        "sglang-kernel any",
        None,
    )
