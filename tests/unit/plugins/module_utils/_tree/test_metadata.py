# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import TreeError
from ansible_collections.sm120.sglang.plugins.module_utils._tree.metadata import (
    Metadata,
    Requirement,
    parse_metadata,
    parse_pyproject,
    parse_requirement,
)

METADATA = b"""\
Metadata-Version: 2.4
Name: sglang
Version: 0.5.14
Requires-Python: >=3.10
Requires-Dist: cuda-python>=13.0
Requires-Dist: flashinfer_python[cu13]==0.6.12
Requires-Dist: torchcodec==0.11.1; sys_platform != "linux"
Requires-Dist: torch==2.11.0
Requires-Dist: nvidia-modelopt; extra == "diffusion"
Provides-Extra: diffusion

Text of the project. Requires-Dist: not-me==1
"""
WHEEL = b"Wheel-Version: 1.0\nTag: cp312-cp312-manylinux_2_34_x86_64\n"
needs_toml = pytest.mark.skipif(sys.version_info < (3, 11), reason="no TOML reader in Python 3.10")


@pytest.mark.parametrize(
    ("text", "wanted", "pin"),
    [
        ("torch==2.11.0", ("torch", (), "==2.11.0", ""), "2.11.0"),
        (
            "Flashinfer_Python[cu13, x] == 0.7.2",
            ("flashinfer-python", ("cu13", "x"), "==0.7.2", ""),
            "0.7.2",
        ),
        ("cuda-python>=13.0", ("cuda-python", (), ">=13.0", ""), ""),
        (
            "a.b_c (>=1, <2) ; python_version < '3.11'",
            ("a-b-c", (), ">=1,<2", "python_version < '3.11'"),
            "",
        ),
        ("torch==2.*", ("torch", (), "==2.*", ""), ""),
        ("torch===2.1+cu130", ("torch", (), "===2.1+cu130", ""), "2.1+cu130"),
        ("orjson", ("orjson", (), "", ""), ""),
        ("kernel @ https://example.com/k-1.0.whl", ("kernel", (), "", ""), ""),
    ],
)
def test_a_requirement_is_taken_apart(
    text: str, wanted: tuple[str, tuple[str, ...], str, str], pin: str
) -> None:
    requirement = parse_requirement(text)
    assert requirement == Requirement(*wanted)
    assert requirement.pin == pin


def test_wheel_metadata_without_the_extras() -> None:
    metadata = parse_metadata("METADATA", METADATA, WHEEL)
    assert metadata.version == "0.5.14"
    assert metadata.requires_python == ">=3.10"
    assert metadata.tags == ("cp312-cp312-manylinux_2_34_x86_64",)
    names = [requirement.name for requirement in metadata.requires]
    assert names == ["cuda-python", "flashinfer-python", "torchcodec", "torch"]
    torch = metadata.requirement("torch")
    assert torch is not None
    assert torch.pin == "2.11.0"
    kernel = metadata.requirement("sgl-kernel", "Flashinfer_Python")
    assert kernel is not None
    assert kernel.extras == ("cu13",)
    assert metadata.requirement("sgl-kernel") is None


@pytest.mark.parametrize("data", [b"", b"\x00\xff\xfe", b"Version: 1\n", b"Name:\n"])
def test_metadata_without_a_name_is_refused(data: bytes) -> None:
    with pytest.raises(TreeError, match="names no distribution"):
        parse_metadata("METADATA", data)


@needs_toml
def test_a_checkout() -> None:
    metadata = parse_pyproject(
        "pyproject.toml",
        b'[project]\nname = "sglang"\ndynamic = ["version"]\nrequires-python = ">=3.10"\n'
        b'dependencies = ["torch==2.9.1", "sgl-kernel==0.3.21"]\n',
    )
    assert (metadata.name, metadata.version) == ("sglang", "")
    assert [requirement.pin for requirement in metadata.requires] == ["2.9.1", "0.3.21"]


@needs_toml
@pytest.mark.parametrize(
    "data", [b"[project", b"\xff", b"project = 3\n", b"[project]\ndependencies = 3\n",
             b'[project]\ndependencies = ["=="]\n'],
)  # fmt: skip
def test_a_damaged_checkout_is_refused(data: bytes) -> None:
    with pytest.raises(TreeError, match=r"pyproject\.toml"):
        parse_pyproject("pyproject.toml", data)


@needs_toml
def test_a_pyproject_of_tools_alone_asks_for_nothing() -> None:
    assert parse_pyproject("p", b"[tool.x]\na = 1\n") == Metadata(source="p")
