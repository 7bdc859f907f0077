# SPDX-License-Identifier: Apache-2.0
"""A real browser without a screen; `scripts/test_report.sh` sees to it that one is there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# It must not look for updates or features: every request that a page makes is a failure here.
QUIET = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_browser() -> str:
    """Path of the browser, `BROWSER` first."""
    for name in (os.environ.get("BROWSER", ""), *NAMES):
        if name and (found := shutil.which(name)):
            return found
    pytest.fail("no browser: run `make test-report`, or install one of " + ", ".join(NAMES))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=find_browser(), args=list(QUIET))
        yield started
        started.close()
