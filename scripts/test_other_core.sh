#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fast checks on the ansible-core that .venv does not have: 2.19 needs Python 3.11, 2.21 needs 3.12.
set -euo pipefail
cd "$(dirname "$0")/.."
mine=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [ "$mine" = 3.11 ]; then wanted=">=3.12,<3.14"; else wanted="==3.11.*"; fi
python=$(.venv/bin/python -m uv python find --no-python-downloads --system "$wanted" 2>/dev/null) || {
  echo "other ansible-core: NOT TESTED, this machine has no Python $wanted beside $mine"
  exit 0
}
venv=.venv-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
scripts/venv.sh "$venv" "$python"
export PATH="$PWD/$venv/bin:$PATH"
ansible --version | sed -n 1p
pytest -q -n 2 --dist loadfile tests/unit
ansible-playbook --syntax-check deploy.yml >/dev/null
scripts/test_package.sh
