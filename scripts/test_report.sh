#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The benchmark's report in a real browser. Installs one where there is none. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
have_browser() {
  local name
  for name in "${BROWSER:-}" chromium chromium-browser google-chrome google-chrome-stable; do
    if [ -n "$name" ] && command -v "$name" >/dev/null; then return 0; fi
  done
  return 1
}
if ! have_browser; then
  # Ubuntu's package of that name is an empty one that asks for a snap.
  if ! grep -q '^ID=debian' /etc/os-release; then
    echo "the tests of the report need chromium or google-chrome; install one of them" >&2
    exit 1
  fi
  if [ "$(id -u)" = 0 ]; then
    sudo=""
  elif sudo -n true 2>/dev/null; then
    sudo=sudo
  fi
  if [ "${LAB_INSTALL_PACKAGES:-1}" != 1 ] || [ -z "${sudo+set}" ]; then
    echo "the tests of the report need a browser. Run: sudo apt-get install chromium" >&2
    exit 1
  fi
  $sudo apt-get update -qq
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
    chromium fonts-dejavu-core >/dev/null
fi
pytest -q tests/report "$@"
