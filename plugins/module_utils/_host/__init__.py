# SPDX-License-Identifier: Apache-2.0
"""What a GPU host is, and what is wrong with it.

`read` runs on the node and never raises; the other readers' parsers are pure over recorded text.
`judge` runs where the play runs: it takes the reading and gives one verdict a check. `catalogue`
says why each check is made and where that is known from.
"""
