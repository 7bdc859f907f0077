# SPDX-License-Identifier: Apache-2.0
"""The filters, by what they are about."""
