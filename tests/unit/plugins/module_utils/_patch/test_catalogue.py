# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.sm120.sglang.plugins.module_utils._patch import catalogue_digest, select
from ansible_collections.sm120.sglang.plugins.module_utils._patch.catalogue import (
    merge,
    parse_catalogue,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import (
    CatalogueError,
    PatchError,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.rules import (
    DelegationRule,
    DictEntryRule,
    DiffRule,
    parse_method,
)

SHIPPED = yaml.safe_load(
    (Path(__file__).parents[5] / "roles/source_patches/files/catalogue.yml").read_text("utf-8")
)
IDS = ["kimi_k25_eagle3_delegation", "sm120_allreduce_sizes", "sm120_symm_mem_world_sizes"]

DIFF = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"
ENTRIES: dict[str, dict[str, Any]] = {
    "dict": {
        "id": "one",
        "title": "One",
        "file": "srt/x.py",
        "rule": {"kind": "ensure_dict_entry", "table": "T", "key": 12, "value": "[8]"},
    },
    "delegation": {
        "id": "two",
        "title": "Two",
        "file": "srt/x.py",
        "rule": {
            "kind": "ensure_delegating_methods",
            "class": "K",
            "target": "inner",
            "methods": ["a(b, *c, d=None, **e)"],
        },
    },
    "diff": {
        "id": "three",
        "title": "Three",
        "file": "srt/x.py",
        "rule": {"kind": "unified_diff", "diff": DIFF},
    },
}


def changed(name: str, path: list[str | int], value: object) -> list[dict[str, Any]]:
    entry = copy.deepcopy(ENTRIES[name])
    place: Any = entry
    for step in path[:-1]:
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return [entry]


def test_the_shipped_catalogue_is_valid_and_honest() -> None:
    patches = parse_catalogue(SHIPPED)
    assert [patch.id for patch in patches] == IDS
    for patch in patches[1:]:
        assert "PCIe" in patch.does_not
        assert "multicast" in patch.does + patch.does_not
        assert patch.obsolete
    assert all(patch.does and patch.releases and patch.remedy for patch in patches)


def test_every_kind_of_rule_is_read() -> None:
    one, two, three = parse_catalogue(list(ENTRIES.values()))
    assert one.rule == DictEntryRule("T", 12, value="[8]")
    assert isinstance(two.rule, DelegationRule)
    assert two.rule.methods[0].call == "b, *c, d=d, **e"
    assert isinstance(three.rule, DiffRule)


@pytest.mark.parametrize(
    ("name", "path", "value", "message"),
    [
        ("dict", ["id"], "No Spaces", r"entry\[0\].id: 'No Spaces' is not lower_case"),
        ("dict", ["id"], ..., r"entry\[0\].id: is missing"),
        ("dict", ["title"], 5, r"title: is not text: 5"),
        ("dict", ["file"], "/etc/passwd", "is not a path inside the sglang package"),
        ("dict", ["file"], "srt/../../x.py", "is not a path inside the sglang package"),
        ("dict", ["file"], 7, "is not a path inside the sglang package"),
        ("dict", ["fil"], "x", r"entry\[0\].fil: unknown; known here: id, title"),
        ("dict", ["rule"], "patch it", r"rule.kind: None is no rule"),
        ("dict", ["rule", "kind"], "sed", r"rule.kind: 'sed' is no rule; there are: ensure_dict"),
        ("dict", ["rule", "table"], "a-b", r"rule.table: 'a-b' is not a Python name"),
        ("dict", ["rule", "table"], 9, r"rule.table: 9 is not a Python name"),
        ("dict", ["rule", "key"], {"a": 1}, r"rule.key: .* cannot be the key"),
        ("dict", ["rule", "value"], "os.getpid()", r"rule.value: 'os.getpid\(\)' is not a Python"),
        ("dict", ["rule", "value"], ..., r"rule.value: is missing, and so is 'like'"),
        ("dict", ["rule", "like"], 12, r"rule.like: is the key itself"),
        ("dict", ["rule", "lookups"], "x.py", r"rule.lookups: is not a list"),
        ("dict", ["rule", "lookups"], ["/x"], r"rule.lookups\[0\]: '/x' is not a path"),
        ("dict", ["rule", "ky"], 1, r"rule.ky: unknown; known here: kind, table, key, like"),
        ("dict", ["proof"], {"kind": "x"}, r"proof.communicator: is missing"),
        ("dict", ["releases"], ["0.5.9"], r"releases: is not a mapping"),
        ("dict", ["releases"], {0.5: "x"}, r"releases.0.5: range and note must both be text"),
        ("delegation", ["rule", "class"], "class", r"rule.class: 'class' is not a Python name"),
        ("delegation", ["rule", "target"], "a.b", r"rule.target: 'a.b' is not a Python name"),
        ("delegation", ["rule", "methods"], [], r"rule.methods: is not a list of signatures"),
        ("delegation", ["rule", "methods"], "a()", r"rule.methods: is not a list of signatures"),
        ("delegation", ["rule", "methods", 0], "a", r"methods\[0\]: 'a' is not a signature"),
        ("delegation", ["rule", "methods", 0], "a(self)", r"methods\[0\]: .* leave 'self' out"),
        ("delegation", ["rule", "methods", 0], "a(b: int)", "leave annotations out"),
        ("delegation", ["rule", "methods", 0], "a(b=f())", "must be a constant"),
        ("delegation", ["rule", "methods", 0], "a(): pass\ndef b()", "is not one signature"),
        ("delegation", ["rule", "methods"], ["a()", "a(b)"], r"methods\[1\]: 'a' is there twice"),
        ("diff", ["rule", "diff"], "", r"rule.diff: is not text"),
        ("diff", ["rule", "diff"], "hello\n", r"rule.diff: line 1 of the diff: no hunk"),
        ("diff", ["rule", "diff"], "@@ -1 +1 @@\n a\n", "the hunk changes nothing"),
        ("diff", ["rule", "diff"], "@@ -1 +1 @@\n-a\n", "fewer lines than"),
        ("diff", ["rule", "diff"], "@@ -1 +1 @@\n-a\n+b\n+c\n", "expected '@@|more lines"),
        ("diff", ["rule", "diff"], DIFF + "@@ -1 +1 @@\n-a\n+b\n", "overlaps"),
        ("diff", ["rule", "diff"], DIFF + "@@ -9 +12 @@\n-a\n+b\n", "do not fit the hunks before"),
        ("diff", ["rule", "diff"], "--- a\n+++ b\n--- c\n+++ d\n" + DIFF, "more than one file"),
    ],
)
def test_a_bad_entry_is_named_by_its_place(
    name: str, path: list[str | int], value: object, message: str
) -> None:
    with pytest.raises(CatalogueError, match=message):
        parse_catalogue(changed(name, path, value))


@pytest.mark.parametrize("content", [{"id": "x"}, "text", None, [5], [["a"]]])
def test_what_is_no_catalogue_is_refused(content: object) -> None:
    with pytest.raises(CatalogueError):
        parse_catalogue(content)


def test_ids_are_unique() -> None:
    twice = [ENTRIES["dict"], ENTRIES["dict"]]
    with pytest.raises(CatalogueError, match=r"entry\[1\].id: 'one' is there twice"):
        parse_catalogue(twice)
    own = parse_catalogue([ENTRIES["dict"]])
    with pytest.raises(CatalogueError, match=r"is the id of a shipped patch"):
        merge(own, own)
    with pytest.raises(PatchError, match=r"no patch 'nine' in the catalogue. there are: one"):
        select(own, ["nine"])


@pytest.mark.parametrize(
    ("signature", "parameters", "call"),
    [
        ("a()", "", ""),
        ("a(b, c=None)", "b, c=None", "b, c"),
        ("a(b, /, c=(1, 2))", "b, /, c=(1, 2)", "b, c"),
        ("a(*, b=1)", "*, b=1", "b=b"),
        ("a(*b, **c)", "*b, **c", "*b, **c"),
    ],
)
def test_signatures(signature: str, parameters: str, call: str) -> None:
    method = parse_method(signature)
    assert (method.name, method.parameters, method.call) == ("a", parameters, call)


class TestDigest:
    def test_texts_for_people_do_not_count(self) -> None:
        told = copy.deepcopy(SHIPPED)
        for entry in told:
            entry["title"] = entry["does"] = "something else"
            entry["releases"] = {}
        assert catalogue_digest(told) == catalogue_digest(SHIPPED)

    def test_rules_selection_and_policy_count(self) -> None:
        other = copy.deepcopy(SHIPPED)
        other[2]["rule"]["value"] = "[4, 8]"
        digests = {
            catalogue_digest(SHIPPED),
            catalogue_digest(other),
            catalogue_digest(SHIPPED, IDS[:2]),
            catalogue_digest(SHIPPED, []),
            catalogue_digest(SHIPPED, None, "needed_only"),
        }
        assert len(digests) == 5

    def test_order_of_ids_and_form_of_values_do_not_count(self) -> None:
        assert catalogue_digest(SHIPPED, IDS) == catalogue_digest(SHIPPED, IDS[::-1])
        assert catalogue_digest(SHIPPED, IDS) == catalogue_digest(SHIPPED)
        data = copy.deepcopy(SHIPPED)
        data[2]["rule"]["value"] = [8]
        assert catalogue_digest(data) == catalogue_digest(SHIPPED)
        assert catalogue_digest(json.loads(json.dumps(SHIPPED))) == catalogue_digest(SHIPPED)

    def test_bad_requests_are_refused(self) -> None:
        with pytest.raises(PatchError, match=r"unknown policy 'always'"):
            catalogue_digest(SHIPPED, None, "always")
        with pytest.raises(PatchError, match=r"no patch 'x'"):
            catalogue_digest(SHIPPED, ["x"])
