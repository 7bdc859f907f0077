# SPDX-License-Identifier: Apache-2.0
"""The lab: systemd hosts on this machine that the product is deployed to."""
