# SPDX-License-Identifier: Apache-2.0
"""Rule ``ensure_dict_entry``: a table must have a key."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._patch.bindings import (
    Built,
    TableReader,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.constants import (
    NotConstant,
    evaluate,
    literal,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.edits import Edit, apply_edits
from ansible_collections.sm120.sglang.plugins.module_utils._patch.entry_text import (
    Misfit,
    add_to_literal,
    add_union,
    render,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import SourceError
from ansible_collections.sm120.sglang.plugins.module_utils._patch.lookups import (
    Lookup,
    find_lookups,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.rules import DictEntryRule
from ansible_collections.sm120.sglang.plugins.module_utils._patch.same import same_but_for
from ansible_collections.sm120.sglang.plugins.module_utils._patch.scope import Doubtful
from ansible_collections.sm120.sglang.plugins.module_utils._patch.source import Source, parse
from ansible_collections.sm120.sglang.plugins.module_utils._patch.state import Decision, conflict

Read = Callable[[str], "bytes | None"]


def decide_dict_entry(source: Source, rule: DictEntryRule, read: Read) -> Decision:
    """Decide whether a table has a key, and where it would go.

    Args:
        source: the file that holds the table.
        rule: the rule.
        read: gives other files of the release by path, None where there is none.
    """
    try:
        built = TableReader(source, rule.table, rule.key).read()
    except Doubtful as doubt:
        return conflict(f"table {rule.table} {doubt.reason}", source.at(doubt.node))
    if rule.key in built.table.entries:
        return _present(source, rule, built)
    here = f"{source.at(built.node)} {rule.table}"
    try:
        edits = _edits(source, rule, built)
        _verify(source, rule, built, edits)
    except Misfit as misfit:
        return conflict(f"{rule.table} cannot get key {rule.key!r}: {misfit}", here)
    except SourceError as error:
        return conflict(f"an edit of {rule.table} would not be right: {error}", here)
    keys = ", ".join(repr(key) for key in built.table.entries)
    return _needed_or_obsolete(source, rule, f"{here} has keys {keys or 'none'}", edits, read)


def _present(source: Source, rule: DictEntryRule, built: Built) -> Decision:
    entry = built.table.entries[rule.key]
    value = "a computed value"
    if entry.value is not None:
        value = " ".join(ast.unparse(entry.value).split())
    return Decision(
        "upstream",
        f"{rule.table} has key {rule.key!r} already",
        (f"{source.at(entry.node)} {rule.table}[{rule.key!r}] = {value}",),
    )


def _needed_or_obsolete(
    source: Source,
    rule: DictEntryRule,
    shape: str,
    edits: tuple[Edit, ...],
    read: Read,
) -> Decision:
    """Ask the places that read the table whether a missing key hurts there."""
    lookups: list[Lookup] = []
    for path in rule.lookups or (source.path,):
        try:
            reader = source if path == source.path else _other(path, read)
        except SourceError as error:
            return conflict(f"the readers of {rule.table} are not known: {error}", shape)
        lookups += find_lookups(reader, rule.table) if reader is not None else []
    bare = [lookup for lookup in lookups if not lookup.copes]
    seen = tuple(f"{lookup.where} {lookup.text}" for lookup in (bare or lookups))
    if lookups and not bare:
        reason = f"{rule.table} has no key {rule.key!r}, and every place that reads it copes"
        return Decision("obsolete", reason, (shape, *seen), edits)
    reason = f"{rule.table} has no key {rule.key!r}"
    if bare:
        reason += f", and {bare[0].where} reads it without a fallback"
    return Decision("needed", reason, (shape, *seen), edits)


def _other(path: str, read: Read) -> Source | None:
    data = read(path)
    return None if data is None else parse(path, data)


def _edits(source: Source, rule: DictEntryRule, built: Built) -> tuple[Edit, ...]:
    table = built.table
    if table.unknown:
        raise Misfit(f"not all of its keys are certain, {table.unknown}")
    if table.site is None:
        raise Misfit("it is another table under a second name")
    value = _value_text(source, rule, built)
    key = source.encode(repr(rule.key))
    if isinstance(table.site.node, ast.Dict) and table.site.kind == "literal":
        return add_to_literal(source, table.site.node, key, value)
    return (add_union(source, table.site.node, key, value),)


def _value_text(source: Source, rule: DictEntryRule, built: Built) -> bytes:
    """The new value as source: the neighbour's own text, or the rule's value in its style."""
    if rule.has_like and rule.like in built.table.entries:
        model = built.table.entries[rule.like].value
        if model is not None and model.lineno and _constant(model, built.names) is not None:
            return source.code(model)
    if rule.value is None:
        raise Misfit(f"entry {rule.like!r}, which it is copied from, is not a constant there")
    models = [entry.value for entry in built.table.entries.values() if entry.value is not None]
    model = models[-1] if models else None
    if model is not None and _constant(model, built.names) is None:
        raise Misfit("the other entries are not constants, so their form is not known")
    return render(source, literal(rule.value), model, built.names)


def _constant(node: ast.expr, names: dict[str, ast.expr]) -> tuple[Any] | None:
    try:
        return (evaluate(node, names),)
    except NotConstant:
        return None


def _verify(source: Source, rule: DictEntryRule, built: Built, edits: tuple[Edit, ...]) -> None:
    """Read the edited file again: the key is there with its value, nothing else has changed.

    Raises:
        SourceError: it is not so.
    """
    after = parse(source.path, apply_edits(source.data, edits))
    try:
        again = TableReader(after, rule.table, rule.key).read()
    except Doubtful as doubt:
        raise SourceError(f"the table {doubt.reason}") from doubt
    entry = again.table.entries.get(rule.key)
    if entry is None or entry.value is None:
        raise SourceError("the key does not arrive in the table")
    value = _constant(entry.value, again.names)
    wanted: Any = literal(rule.value) if rule.value is not None else None
    if rule.has_like and rule.like in built.table.entries:
        model = built.table.entries[rule.like].value
        copied = _constant(model, built.names) if model is not None else None
        wanted = copied[0] if copied else wanted
    if value is None or not _equal(value[0], wanted):
        raise SourceError("the value does not arrive in the table")
    site = built.table.site
    if site is None or not same_but_for(source.tree, after.tree, site):
        raise SourceError("the edit would change something else")


def _equal(left: Any, right: Any) -> bool:
    """Equality that takes a list, a tuple and a set of the same members as one."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    many = (list, tuple, set, frozenset)
    if isinstance(left, many) and isinstance(right, many):
        return sorted(map(repr, left)) == sorted(map(repr, right))
    return bool(left == right)
