# SPDX-License-Identifier: Apache-2.0
"""Reading a node: parsers are pure over text, readers take the root of the file system."""
