# SPDX-License-Identifier: Apache-2.0
"""Reads the files of cases: a line ``#### name = state``, then a module's text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest


def read_cases(name: str) -> list[Any]:
    """The cases of a file beside this one, as pytest parameters ``(text, state)``."""
    text = (Path(__file__).parent / name).read_text("utf-8")
    parts = re.split(r"^#### (.*) = (\w+)\n", text, flags=re.MULTILINE)[1:]
    return [
        pytest.param(body.rstrip("\n") + "\n", state, id=title)
        for title, state, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]
