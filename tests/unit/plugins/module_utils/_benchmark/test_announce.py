# SPDX-License-Identifier: Apache-2.0
"""What an operator reads before and after a benchmark."""

from __future__ import annotations

from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import announce

PLANNED = {
    "runs": 16,
    "restarts": 4,
    "seconds": 1920.0,
    "start_bound": 381.0,
    "unknown_start": False,
}
TOLD = {
    "node": "n1",
    "settings": [{"id": "off"}, {"id": "eagle3-3-1-4"}],
    "points": [{"id": "c1-i1024-o256"}, {"id": "c64-i1024-o256"}],
    "repeats": 4,
    "minutes": 120,
    "start_seconds": 127.0,
    "consent": True,
    "others": 0,
    "folder": "/r",
}


def said(planned: dict[str, Any] | None = None, **told: Any) -> str:
    return "\n".join(announce.before({**PLANNED, **(planned or {})}, {**TOLD, **told}))


def test_what_it_takes_is_said_before() -> None:
    text = said()
    assert "16 runs: off, eagle3-3-1-4; c1-i1024-o256, c64-i1024-o256; each 4 time(s)" in text
    assert "RESTARTS 4 times, about 127 s each" in text
    assert "about 32 min, never more than 120 min" in text
    assert "does not all fit" not in text
    assert "benchmark_allow_restart" not in text


def test_what_does_not_fit_is_said_before() -> None:
    assert "that does not all fit" in said(minutes=30)


def test_without_consent_it_says_what_is_left_out() -> None:
    text = said({"restarts": 0, "runs": 8}, settings=[{"id": "off"}], consent=False, others=1)
    assert "goes on without a restart" in text
    assert "1 other setting(s) need restarts" in text


def test_a_start_that_was_never_measured_is_bounded() -> None:
    assert "at most 381 s each" in said({"unknown_start": True})


def run(setting: str, state: str = "ok", **more: Any) -> dict[str, Any]:
    base = {"setting": setting, "point": "p", "state": state, "reason": "", "accept": None}
    return {**base, "output_tok_s": 90.0, **more}


def test_what_was_measured_is_said_after() -> None:
    document = {
        "meaning": {"figures": False, "reason": "a lab"},
        "points": [{"id": "p"}],
        "settings": [{"id": "off"}, {"id": "on"}],
        "runs": [
            run("off"),
            run("off", output_tok_s=100.0),
            run("on", accept={"length": 2.5}),
            run("on", "failed", reason="the engine ended meanwhile"),
            run("on", "skipped", reason="does not fit"),
        ],
    }
    lines = announce.after(document, "/r")
    assert lines[0] == "THE FIGURES MEAN NOTHING: a lab"
    assert lines[1] == "p off: 95.0 tok/s (median of 2, 90.0 to 100.0)"
    assert lines[2] == (
        "p on: 90.0 tok/s (median of 1, 90.0 to 90.0); accept length 2.50; "
        "1 failed: the engine ended meanwhile; 1 skipped: does not fit"
    )
    assert lines[3] == "kept: /r"


def test_preflight_s_verdicts_are_summed_up() -> None:
    verdict = {"id": "iommu_acs", "verdict": "warn", "read": "on", "remedy": "x"}
    assert announce.checks([verdict]) == [{"check": "iommu_acs", "verdict": "warn", "text": "on"}]
