# SPDX-License-Identifier: Apache-2.0
"""What one SGLang release means for this product, said before a node is touched."""
