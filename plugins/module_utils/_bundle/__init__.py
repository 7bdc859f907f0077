# SPDX-License-Identifier: Apache-2.0
"""One archive with what somebody needs who was not there, and without a secret in it."""
