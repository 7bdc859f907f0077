# SPDX-License-Identifier: Apache-2.0
"""Benchmark: measure a served engine, judge the figures, say what follows."""
