# SPDX-License-Identifier: Apache-2.0
"""What the gate reads of an engine's answers is told by every release, whatever the launch."""

from __future__ import annotations

import re
import zipfile

import pytest

from tests.releases import wheels
from tests.releases.test_load_generator import RELEASES

pytestmark = pytest.mark.releases

# Source to what it puts into an answer: a field that is gone would fail every launch.
TOLD = {
    r"managers/tokenizer_manager\.py": [
        '"cached_tokens"',
        '"completion_tokens"',
        '"prompt_tokens"',
    ],
    r"entrypoints/http_server\.py": ['"/server_info"', '"has_image_understanding"'],
    r"managers/scheduler\.py": ['"max_total_num_tokens"', '"max_req_input_len"'],
    r"server_args\.py|arg_groups/fields/.*\.py": [
        "disable_radix_cache:",
        "reasoning_parser:",
        "tool_call_parser:",
        "context_length:",
    ],
}


@pytest.mark.parametrize("version", RELEASES)
def test_every_field_that_the_gate_wants_is_told(version: str) -> None:
    with zipfile.ZipFile(wheels.wheel(version)) as archive:
        for pattern, fields in TOLD.items():
            named = re.compile(rf"sglang/srt/({pattern})\Z")
            source = "".join(
                archive.read(name).decode() for name in archive.namelist() if named.match(name)
            )
            assert [field for field in fields if field not in source] == []
