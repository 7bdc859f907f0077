#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Make the controller environment in DIR from requirements.txt (versions and hashes).
# usage: scripts/venv.sh [DIR [PYTHON]]
# DIR is rebuilt only when requirements.txt or the interpreter changed.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:-.venv}
wanted=${2:-}
# The environment that is about to be replaced must not be the interpreter that makes it.
PATH=$(tr : '\n' <<<"$PATH" | grep -v "^$PWD/" | paste -sd:)

usable() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }

find_python() {
  local candidate
  for candidate in ${wanted:-python3 python3.13 python3.12 python3.11}; do
    if command -v "$candidate" >/dev/null && usable "$candidate"; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

install_packages() {
  if [ "${LAB_INSTALL_PACKAGES:-1}" = 1 ] && [ "$(id -u)" = 0 ]; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "$@"
  elif [ "${LAB_INSTALL_PACKAGES:-1}" = 1 ] && sudo -n true 2>/dev/null; then
    sudo apt-get update -qq && sudo DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "$@"
  else
    echo "venv: missing system packages. Run: sudo apt-get install $*" >&2
    exit 1
  fi
}

python=$(find_python) || {
  [ -z "$wanted" ] || { echo "venv: $wanted is not a Python 3.11 to 3.13" >&2; exit 1; }
  # Ubuntu 22.04 has 3.10 as its own and 3.11 in universe.
  install_packages python3.11 python3.11-venv
  python=$(find_python)
}

stamp="$("$python" -c 'import sys; print(sys.version, sys.base_prefix)' | tr '\n' ' ')$(sha256sum requirements.txt)"
if [ -f "$dir/.stamp" ] && [ "$(cat "$dir/.stamp")" = "$stamp" ]; then
  exit 0
fi
"$python" -c 'import ensurepip' 2>/dev/null ||
  install_packages "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
echo "venv: $dir from requirements.txt with $("$python" --version)"
rm -rf "$dir"
"$python" -m venv "$dir"
"$dir/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
printf '%s' "$stamp" >"$dir/.stamp"
