#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The unit tests run a real sshd of their own, and sign a package repository of their own with gpg.
# Install the programs where they are missing, without starting or enabling the system's SSH service.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
if command -v sshd >/dev/null && command -v gpg >/dev/null && command -v dpkg-deb >/dev/null; then
  exit 0
fi
if [ "$(id -u)" = 0 ]; then
  sudo=""
elif sudo -n true 2>/dev/null; then
  sudo=sudo
fi
if [ "${LAB_INSTALL_PACKAGES:-1}" != 1 ] || [ -z "${sudo+set}" ]; then
  echo "the tests need sshd and gpg. Run: sudo apt-get install openssh-server gpg" >&2
  exit 1
fi
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  # Debian's own switch: packages must not start services while they are installed.
  printf '#!/bin/sh\nexit 101\n' | $sudo tee "$policy" >/dev/null
  $sudo chmod 0755 "$policy"
  trap '$sudo rm -f "$policy"' EXIT
fi
$sudo apt-get update -qq
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y openssh-server gpg >/dev/null
$sudo systemctl disable --quiet ssh.service ssh.socket 2>/dev/null || true
