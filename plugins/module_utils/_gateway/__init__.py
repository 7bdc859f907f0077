# SPDX-License-Identifier: Apache-2.0
"""SGLang's router in front of the engines: its API, what it may send to, when a node leaves it."""
