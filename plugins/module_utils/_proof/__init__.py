# SPDX-License-Identifier: Apache-2.0
"""Proofs that a built release can work on this node, made before weights are read."""
