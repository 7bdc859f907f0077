# SPDX-License-Identifier: Apache-2.0
"""Rule ``ensure_delegating_methods``: a wrapper class must answer for its inner object."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ansible_collections.sm120.sglang.plugins.module_utils._patch.classes import (
    Classes,
    Member,
    Missing,
    Uncertain,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.edits import Edit, apply_edits
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import SourceError
from ansible_collections.sm120.sglang.plugins.module_utils._patch.members import is_silent
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import ClassRef, Modules
from ansible_collections.sm120.sglang.plugins.module_utils._patch.objects import (
    Given,
    given_to_objects,
    inner_of,
    is_deleted,
    last_given,
    settles,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.rules import (
    DelegationRule,
    Method,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.same import same_tree
from ansible_collections.sm120.sglang.plugins.module_utils._patch.scopes import (
    FUNCTIONS,
    find_class,
    flat,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.source import Source, parse
from ansible_collections.sm120.sglang.plugins.module_utils._patch.state import Decision, conflict


def decide_delegation(source: Source, rule: DelegationRule, modules: Modules) -> Decision:
    """Decide which of a rule's methods a class lacks, and where they would go.

    Args:
        source: the file that holds the class.
        rule: the rule.
        modules: the release, for bases in other files.
    """
    meaning = modules.lookup(modules.name_of(source.path), (rule.class_name,))
    if not isinstance(meaning, ClassRef):
        reason = getattr(meaning, "reason", f"it comes from {getattr(meaning, 'name', '')}")
        return conflict(f"class {rule.class_name} is not found: {reason}", source.path)
    classes = Classes(modules)
    present: list[Member] = []
    missing: list[Method] = []
    for method in rule.methods:
        answer = classes.find(meaning, method.name)
        refusal = _refuse(meaning, method, answer)
        if refusal is not None:
            return refusal
        if isinstance(answer, Member) and answer.kind != "stub":
            present.append(answer)
        else:
            missing.append(method)
    shown = tuple(_show(method, member) for method, member in _pairs(rule, missing, present))
    if not missing:
        return Decision("upstream", f"{rule.class_name} has all of the methods itself", shown)
    here = f"{meaning.at} class {rule.class_name}"
    obstacle = next(_obstacles(source, rule, meaning, classes), None)
    if obstacle is not None:
        return obstacle
    try:
        edit = _edit(source, meaning.node, rule, missing)
        _verify(source, edit, rule, missing)
    except SourceError as error:
        return conflict(f"methods of {rule.class_name} cannot be added: {error}", here)
    names = ", ".join(method.name for method in missing)
    given = [g for g in given_to_objects(classes, meaning, rule.target) if not g.is_none]
    inner = tuple(f"{item.at} {item.text}" for item in given[:1])
    reason = f"{rule.class_name} lacks {names}, which self.{rule.target} can answer"
    return Decision("needed", reason, (f"{here} lacks {names}", *inner, *shown), (edit,))


def _pairs(
    rule: DelegationRule, missing: list[Method], present: list[Member]
) -> list[tuple[Method, Member]]:
    there = [method for method in rule.methods if method not in missing]
    return list(zip(there, present, strict=True))


def _show(method: Method, member: Member) -> str:
    how = {"getattr": "is forwarded by __getattr__", "instance": "is set in __init__"}
    return f"{member.at} {member.owner}.{method.name} {how.get(member.kind, f'({member.kind})')}"


def _refuse(ref: ClassRef, method: Method, answer: Member | Missing | Uncertain) -> Decision | None:
    """A conflict where it is not certain whether, or how, a class has a method."""
    name = f"{ref.node.name}.{method.name}"
    if isinstance(answer, Uncertain):
        return conflict(f"not certain whether {name} exists: {answer.reason}", ref.at)
    if not isinstance(answer, Member):
        return None
    if answer.kind == "value":
        return conflict(f"{name} is there and cannot be called", answer.at)
    if answer.kind == "stub" and answer.owner == ref.node.name:
        return conflict(
            f"{name} is there without a body: a second definition would be wrong", answer.at
        )
    if answer.kind == "stub" and is_silent(answer.node):
        return conflict(f"{name} does nothing: not certain whether that is meant", answer.at)
    return None


def _obstacles(
    source: Source, rule: DelegationRule, ref: ClassRef, classes: Classes
) -> Iterator[Decision]:
    """Why methods cannot be added to a class although it lacks them."""
    if ref.source is not source:
        where = f"{ref.at} class {rule.class_name}"
        yield conflict(f"{rule.class_name} lives in another file now", where)
        return
    found = find_class(source.tree, [rule.class_name])
    if len(found) != 1:
        places = [source.at(definition) for definition, _ in found]
        yield conflict(f"{rule.class_name} is not defined just once in this file", *places)
    for statement, _ in flat(source.tree.body):
        star = isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*"
        if star and statement.lineno > ref.node.lineno:
            yield conflict(
                f"{rule.class_name} may be replaced by what this imports", source.at(statement)
            )
    given = given_to_objects(classes, ref, rule.target)
    inner = classes.find(ref, rule.target)
    if not given and not (isinstance(inner, Member) and inner.kind in {"property", "attribute"}):
        yield conflict(f"{rule.class_name} gives its objects no self.{rule.target}", ref.at)
    left = last_given(given)
    if given and (all(item.is_none for item in given) or (left is not None and left.is_none)):
        yield conflict(f"self.{rule.target} is always None", (left or given[0]).at)
    if is_deleted(classes, ref, rule.target):
        yield conflict(f"{rule.class_name} deletes self.{rule.target}", ref.at)
    yield from _lacking_inner(rule, classes, given)
    unsettled = settles(classes, ref, rule.target)
    if given and unsettled:
        yield conflict(unsettled, ref.at)


def _lacking_inner(
    rule: DelegationRule, classes: Classes, given: list[Given]
) -> Iterator[Decision]:
    """A conflict where the inner object is known to lack a method: forwarding would not help."""
    for item in given:
        found = inner_of(classes, item)
        if found.plain is not None:
            yield conflict(
                f"self.{rule.target} is no object with methods", f"{item.at} {item.text}"
            )
        for inner in found.classes:
            for method in rule.methods:
                if isinstance(classes.find(inner, method.name), Missing):
                    yield conflict(
                        f"self.{rule.target} is a {inner.node.name}, which has no {method.name} "
                        "itself",
                        f"{item.at} {item.text}",
                        f"{inner.at} class {inner.node.name}",
                    )


def _edit(source: Source, node: ast.ClassDef, rule: DelegationRule, methods: list[Method]) -> Edit:
    """The bytes of the new methods, behind the last line of the class."""
    first, last = node.body[0], node.body[-1]
    first_line = min([first.lineno, *[d.lineno for d in getattr(first, "decorator_list", [])]])
    indent = _leading(source.line(first_line))
    if first_line <= _header_end(node) or not indent:
        raise SourceError("the class body stands on the line of its header")
    step = _step(source, node, indent)
    newline = source.newline(node.lineno)
    lines: list[bytes] = []
    for method in methods:
        parameters = f"self, {method.parameters}" if method.parameters else "self"
        call = f"return self.{rule.target}.{method.name}({method.call})"
        lines += [b"", indent + source.encode(f"def {method.name}({parameters}):")]
        lines += [indent + step + source.encode(call)]
    at = _class_end(source, last, indent)
    return Edit(at, b"", b"".join(newline + line for line in lines))


def _header_end(node: ast.ClassDef) -> int:
    """Line on which the class header ends, as far as its parts tell."""
    parts = [*node.bases, *[keyword.value for keyword in node.keywords]]
    return max([node.lineno, *[part.end_lineno or part.lineno for part in parts]])


def _leading(line: bytes) -> bytes:
    return line[: len(line) - len(line.lstrip(b" \t\f"))]


def _step(source: Source, node: ast.ClassDef, indent: bytes) -> bytes:
    """One level of indentation, as the class's own functions have it."""
    for statement in node.body:
        if isinstance(statement, FUNCTIONS) and isinstance(statement.body, list):
            inner = _leading(source.line(statement.body[0].lineno))
            if inner.startswith(indent) and len(inner) > len(indent):
                return inner[len(indent) :]
    outer = _leading(source.line(node.lineno))
    return indent[len(outer) :] if indent.startswith(outer) and indent != outer else b"    "


def _class_end(source: Source, last: ast.stmt, indent: bytes) -> int:
    """End of the class's last line; comments that are indented like its body belong to it."""
    number = last.end_lineno or last.lineno
    candidate = number
    while candidate < len(source.starts):
        line = source.line(candidate + 1)
        if line.strip():
            if not line.lstrip().startswith(b"#") or not line.startswith(indent):
                break
            number = candidate + 1
        candidate += 1
    return source.ends[number - 1]


def _verify(source: Source, edit: Edit, rule: DelegationRule, methods: list[Method]) -> None:
    """Parse the result: the class has exactly the new methods more, nothing else has changed.

    Raises:
        SourceError: it is not so.
    """
    after = parse(source.path, apply_edits(source.data, [edit])).tree
    found = find_class(after, [rule.class_name])
    if len(found) != 1:
        raise SourceError("the class would be lost")
    body = found[0][0].body
    added = body[-len(methods) :]
    del body[-len(methods) :]
    for statement, method in zip(added, methods, strict=True):
        wanted = _definition(rule, method)
        if not same_tree(statement, wanted):
            raise SourceError(f"{method.name} would not arrive in the class")
    if not body or not same_tree(source.tree, after):
        raise SourceError("the edit would change something else")


def _definition(rule: DelegationRule, method: Method) -> ast.stmt:
    parameters = f"self, {method.parameters}" if method.parameters else "self"
    call = f"return self.{rule.target}.{method.name}({method.call})"
    return ast.parse(f"def {method.name}({parameters}):\n    {call}").body[0]
