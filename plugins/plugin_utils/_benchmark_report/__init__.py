# SPDX-License-Identifier: Apache-2.0
"""The report of a benchmark: one HTML page, Markdown and JSON, made on the controller.

`view` says what stands in it, without drawing; `charts` draws, and is the only part that needs
matplotlib; `page` and `markdown` lay out.
"""
