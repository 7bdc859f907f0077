#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The stand-in kernels' tests need torch: a venv from the wheelhouse that the lab downloaded.
set -euo pipefail
cd "$(dirname "$0")/.."
state=${LAB_STATE:-.lab}
# The folder with the whole stack, not the one with SGLang alone that preflight reads.
torch=$(find "$state/wheelhouse/" -path '*/lab-0.5.9-*/torch-*.whl' | head -n 1)
house=${torch%/*}
if [ -z "$house" ] || [ ! -f "$house/wheelhouse.json" ]; then
  echo "test-kernels: no wheelhouse yet; run make deploy or make test-molecule first" >&2
  exit 1
fi
python=$(basename "$house" | sed 's/.*-py3\([0-9]*\)-.*/3.\1/')
venv=.venv-torch
if [ ! -f "$venv/.stamp" ] || [ "$(cat "$venv/.stamp")" != "$house" ]; then
  .venv/bin/python -m uv venv --quiet --clear --python "$python" "$venv"
  .venv/bin/python -m uv pip install --quiet --python "$venv/bin/python" --offline --no-index \
    --find-links "$house" torch numpy
  # Test tools from the controller's own lock.
  .venv/bin/python -m pip download --quiet --disable-pip-version-check --dest .cache/test-tools \
    --require-hashes --no-deps -r <(scripts/pick_requirements.py pytest hypothesis)
  .venv/bin/python -m uv pip install --quiet --python "$venv/bin/python" --offline --no-index \
    --find-links .cache/test-tools --find-links "$house" pytest hypothesis
  printf '%s' "$house" >"$venv/.stamp"
fi
"$venv/bin/python" -m pytest -q tests/unit/lab/kernels -m torch
