#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unit tests, on two processors but for those that run whole plays and watch the clock.
# Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
pytest -q -n 2 --dist loadfile tests/unit --ignore=tests/unit/plugins/action "$@"
pytest -q tests/unit/plugins/action "$@"
