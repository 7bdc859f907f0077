# SPDX-License-Identifier: Apache-2.0
"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes is the machine's affair, and no verdict on the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
