# SPDX-License-Identifier: Apache-2.0
"""What `_coherence` says about a release, against the metadata of its wheel."""

from __future__ import annotations

import zipfile
from email.parser import HeaderParser

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _coherence
from packaging.requirements import Requirement

from tests.releases import wheels

pytestmark = pytest.mark.releases


@pytest.mark.parametrize("release", [v for v in wheels.FEW if v in _coherence.RELEASES])
def test_the_facts_are_those_of_the_wheel(release: str) -> None:
    facts = _coherence.RELEASES[release]
    path = wheels.wheel(release)
    with zipfile.ZipFile(path) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    pins = {}
    for text in metadata.get_all("Requires-Dist", []):
        requirement = Requirement(text)
        if requirement.marker is None:
            pins[requirement.name.replace("_", "-")] = str(requirement.specifier)
    kernel, _, version = facts.kernels.partition("==")
    assert pins["torch"] == f"=={facts.torch}"
    assert pins["flashinfer-python"] == f"=={facts.flashinfer}"
    assert pins[kernel] == f"=={version}"
    assert pins["transformers"] == f"=={facts.transformers}"
    assert pins["cuda-python"].lstrip("=>").startswith(str(facts.cuda_python))
    tags = path.stem.split("-")[2:]
    assert (tags[0] == "cp312") == facts.only
    if facts.only:
        assert facts.python == "3.12"
        assert f"manylinux_{facts.glibc.replace('.', '_')}_x86_64" in tags[-1]
