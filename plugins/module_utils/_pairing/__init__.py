# SPDX-License-Identifier: Apache-2.0
"""Whether target and draft belong together, and whether both fit into the GPUs."""
