# SPDX-License-Identifier: Apache-2.0
"""What an engine's journal and answers mean: pure decisions, no input or output of their own."""
