# SPDX-License-Identifier: Apache-2.0
"""What a benchmark relies on in a release: its load generator, and how acceptance is counted."""

from __future__ import annotations

import re
import zipfile

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import drive, plan
from ansible_collections.sm120.sglang.plugins.module_utils._engine import accept_length

from tests.releases import wheels

pytestmark = pytest.mark.releases

SUPPORTED = wheels.ALL[wheels.ALL.index("0.5.9") :]
RELEASES = [
    version if version in wheels.FEW else pytest.param(version, marks=pytest.mark.releases_all)
    for version in SUPPORTED
]


def text(version: str, *names: str) -> str:
    """The first of these files that the release has."""
    with zipfile.ZipFile(wheels.wheel(version)) as archive:
        name = next(one for one in names if one in archive.namelist())
        return archive.read(name).decode()


@pytest.mark.parametrize("version", RELEASES)
def test_accepted_drafts_are_counted_under_a_name_that_is_known(version: str) -> None:
    source = text(version, "sglang/srt/managers/tokenizer_manager.py")
    told = set(re.findall(r'meta_info\["(spec_\w+)"\] =', source))
    assert drive.VERIFIED in told
    assert told & set(drive.ACCEPTED), told
    assert (drive.VERIFIED, drive.ACCEPTED) == (
        accept_length.VERIFIED,
        accept_length.ACCEPTED,
    )


@pytest.mark.parametrize("version", RELEASES)
def test_the_load_generator_has_every_argument_and_tells_every_figure(version: str) -> None:
    paths = [f"{name.replace('.', '/')}.py" for name in drive.MODULES]
    source = text(version, *paths)
    point = plan.points([1], [{"input": 1, "output": 1}])[0]
    step = plan.Step(1, "off", point.id, 1)
    where = {"url": "http://h", "model": "/m", "name": "m"}
    for dataset in ("random-ids", "custom"):
        words = plan.arguments(step, point, dataset={"name": dataset, "path": "/d"}, **where)
        for flag in [word for word in words if word.startswith("--")]:
            assert f'"{flag}"' in source, flag
    for field in ("duration", "output_lens", "ttfts", "itls", "errors", *drive.PRIVATE):
        assert f'"{field}"' in source, field
    assert 'os.environ.get("OPENAI_API_KEY")' in source
