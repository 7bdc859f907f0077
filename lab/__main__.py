# SPDX-License-Identifier: Apache-2.0
"""`python -m lab`."""

from __future__ import annotations

import sys

from lab.cli import main

sys.exit(main(sys.argv[1:]))
