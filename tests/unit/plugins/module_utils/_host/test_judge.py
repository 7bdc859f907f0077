# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._host import catalogue, finding, judge
from ansible_collections.sm120.sglang.plugins.module_utils._host.catalogue import CHECKS
from ansible_collections.sm120.sglang.plugins.module_utils._host.finding import Finding

from tests.unit.plugins.module_utils._host.wanted import FAIL_ON, REPOSITORY

STATES = (finding.OK, finding.FOUND, finding.UNKNOWN)


def test_every_combination_has_one_meaning() -> None:
    switches = itertools.product([False, True], repeat=3)
    for state, (fatal, accepted, soft) in itertools.product(STATES, list(switches)):
        found = judge.verdict(
            Finding("acs", state, "read"),
            ["acs"] if fatal else [],
            ["acs"] if accepted else [],
            {"acs": "a reason"} if soft else {},
        )
        fails = state == finding.FOUND and fatal and not soft
        plain = "ok" if state == finding.OK else "fail" if fails else "warn"
        assert found["accepted"] is (accepted and plain != "ok")
        assert found["verdict"] == ("ok" if found["accepted"] else plain)
        assert bool(found["remedy"]) is (found["verdict"] != "ok")
        assert found["remedy"].startswith("a reason; ") is (
            soft and state == finding.FOUND and not accepted
        )


def test_a_finding_has_the_catalogues_remedy_or_its_own() -> None:
    assert judge.verdict(Finding("mig", finding.FOUND, "x"), [])["remedy"] == CHECKS["mig"].remedy
    assert judge.verdict(Finding("mig", finding.FOUND, "x", "do y"), [])["remedy"] == "do y"
    why = judge.verdict(Finding("mig", finding.OK, "x"), [])["why"]
    assert why == f"{CHECKS['mig'].why} ({CHECKS['mig'].source})"


def test_what_nothing_helps_over_is_not_accepted() -> None:
    found = judge.verdict(Finding("python", finding.FOUND, "none"), FAIL_ON, ["python"])
    assert (found["verdict"], found["accepted"]) == ("fail", False)


def test_mistyped_checks_are_named() -> None:
    assert judge.mistyped(FAIL_ON, ["acs", "gpu_count"]) == []
    assert judge.mistyped(["gpucount"], ["nothing_like_it", "reachable"]) == [
        "no check gpucount; did you mean gpu_count?",
        "no check nothing_like_it",
        "reachable cannot be accepted, there would be nothing to go on with",
    ]


@pytest.mark.parametrize(
    ("verdicts", "worst"), [([], "ok"), (["ok", "warn"], "warn"), (["fail", "ok", "warn"], "fail")]
)
def test_the_worst_verdict(verdicts: list[str], worst: str) -> None:
    assert judge.worst({"verdict": verdict} for verdict in verdicts) == worst


def test_names_that_say_the_same_are_joined() -> None:
    entries = [("GPU 0", "off"), ("GPU 3", "off"), ("GPU 1", "hot")]
    assert finding.group(entries) == ["GPU 0, 3: off", "GPU 1: hot"]


def test_groups_of_the_catalogue_share_no_check() -> None:
    groups = [catalogue.DEPLOYMENT, catalogue.DRIVER, catalogue.GPUS, catalogue.PCIE]
    groups += [catalogue.HOST, catalogue.REACHABLE, catalogue.GROUP]
    assert sum(len(group) for group in groups) == len(CHECKS)
    for name, check in CHECKS.items():
        assert re.fullmatch(r"[a-z0-9_]+", name)
        assert check.why
        assert check.remedy or name == "hugepages", name


def test_the_page_lists_every_check_as_it_is() -> None:
    page = (Path(REPOSITORY) / "docs/preflight.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \| (.*) \|$", page, re.MULTILINE)
    wanted = []
    for name, check in CHECKS.items():
        why = f"{check.why} ({check.source})" if check.source else check.why
        does = "reports" if not check.remedy else "fails" if name in FAIL_ON else "warns"
        wanted.append((name, does, why, check.remedy or "none"))
    assert rows == wanted
