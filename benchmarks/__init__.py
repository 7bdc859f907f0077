# SPDX-License-Identifier: Apache-2.0
"""Measurements of what this project promises in figures."""
