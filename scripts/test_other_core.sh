#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fast checks on the ansible-core that .venv does not have: 2.19 needs Python 3.11, 2.21 needs 3.12.
set -euo pipefail
cd "$(dirname "$0")/.."
mine=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [ "$mine" = 3.11 ]; then wanted="3.13 3.12"; else wanted="3.11"; fi

# On PATH, or kept by pyenv or uv; a pyenv shim of a version that is not selected does not run.
python=""
for version in $wanted; do
  for candidate in "$(command -v "python$version" || true)" \
    "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python \
    "${XDG_DATA_HOME:-$HOME/.local/share}/uv/python/cpython-$version".*/bin/python; do
    if [ -z "$python" ] && [ -x "$candidate" ] && "$candidate" -c '' 2>/dev/null; then
      python=$candidate
    fi
  done
done
if [ -z "$python" ]; then
  echo "other ansible-core: NOT TESTED, this machine has no Python ${wanted// / or } beside $mine"
  exit 0
fi
venv=.venv-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
scripts/venv.sh "$venv" "$python"
export PATH="$PWD/$venv/bin:$PATH"
ansible --version | sed -n 1p
# The searches for counterexamples ran on the first Python and do not touch ansible-core.
# Nor the many plays of a rollback, the longest of all: the other plays show where the two differ.
scripts/test_unit.sh -m "not hypothesis" \
  --ignore=tests/unit/playbooks/test_rollback.py --ignore=tests/unit/playbooks/test_rollback_again.py
ansible-playbook --syntax-check deploy.yml >/dev/null
scripts/test_package.sh
