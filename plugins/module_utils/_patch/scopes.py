# SPDX-License-Identifier: Apache-2.0
"""What the names of a module or class body are bound to, as far as that is certain."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

_BUILTINS = ("dict", "list", "tuple", "set", "frozenset", "range", "zip")
# Types that keep the entries of a table as they are, by the modules that have them.
_WRAPPERS = {
    "OrderedDict": ("collections", "typing"),
    "MappingProxyType": ("types",),
}

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Match)


def inner_bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The statement lists inside a compound statement that run in the same scope."""
    if not isinstance(statement, BLOCKS) and type(statement).__name__ != "TryStar":
        return
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if isinstance(block, list):
            yield block
    for part in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
        yield part.body


def flat(body: Sequence[ast.stmt], *, certain: bool = True) -> Iterator[tuple[ast.stmt, bool]]:
    """Every statement of a scope in order, with whether it runs for sure (no block around it)."""
    for statement in body:
        yield statement, certain
        for block in inner_bodies(statement):
            yield from flat(block, certain=False)


def names_of_target(target: ast.expr) -> Iterator[str]:
    """Names that an assignment target binds."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for item in target.elts:
            yield from names_of_target(item)
    elif isinstance(target, ast.Starred):
        yield from names_of_target(target.value)


def bound_names(statement: ast.stmt, *, walrus: bool = True) -> Iterator[str]:
    """Names that one statement binds in its own scope; blocks inside it do not count.

    Args:
        statement: the statement.
        walrus: expressions may bind names too; False where the text has no ``:=``.
    """
    for target in _targets(statement):
        yield from names_of_target(target)
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        for alias in statement.names:
            yield alias.asname or alias.name.split(".", maxsplit=1)[0]
    elif isinstance(statement, ast.Match):
        for case in statement.cases:
            yield from _captured(case.pattern)
    elif isinstance(statement, ast.Try) or type(statement).__name__ == "TryStar":
        yield from (h.name for h in getattr(statement, "handlers", []) if h.name)
    elif type(statement).__name__ == "TypeAlias":  # Python 3.12
        yield from names_of_target(statement.name)  # type: ignore[attr-defined]
    for node in own_expressions(statement) if walrus else ():
        if isinstance(node, ast.NamedExpr):
            yield node.target.id


def _captured(pattern: ast.pattern) -> Iterator[str]:
    """Names that a pattern of a ``match`` binds."""
    for node in ast.walk(pattern):
        name = getattr(node, "rest", None) if isinstance(node, ast.MatchMapping) else None
        if isinstance(node, (ast.MatchAs, ast.MatchStar)):
            name = node.name
        if name:
            yield name


def standard_imports(tree: ast.Module) -> set[str]:
    """Names of the wrapper types that the module imports from where they belong."""
    return {
        alias.name
        for statement, _ in flat(tree.body)
        if isinstance(statement, ast.ImportFrom) and not statement.level
        for alias in statement.names
        if statement.module in _WRAPPERS.get(alias.name, ()) and not alias.asname
    }


def _targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, (ast.Assign, ast.Delete)):
        return list(statement.targets)
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return [item.optional_vars for item in statement.items if item.optional_vars is not None]
    if isinstance(statement, ast.AnnAssign) and statement.value is None:
        return []
    if isinstance(statement, (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
        return [statement.target]
    return []


def own_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Nodes of a statement outside nested statements and functions."""
    todo: list[ast.AST] = [
        child for child in ast.iter_child_nodes(statement) if not _is_statement(child)
    ]
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, FUNCTIONS):
            todo.extend(child for child in ast.iter_child_nodes(node) if not _is_statement(child))


def _is_statement(node: ast.AST) -> bool:
    return isinstance(node, (ast.stmt, ast.ExceptHandler)) or type(node).__name__ == "match_case"


def assigned_value(statement: ast.stmt, name: str) -> ast.expr | None:
    """The expression that a plain assignment gives to ``name``; None where it is not certain."""
    if isinstance(statement, ast.AnnAssign):
        return statement.value
    if not isinstance(statement, ast.Assign):
        return None
    for target in statement.targets:
        if isinstance(target, ast.Name) and target.id == name:
            return statement.value
        found = _matching(target, statement.value, name)
        if found is not None:
            return found
    return None


def _matching(target: ast.expr, value: ast.expr, name: str) -> ast.expr | None:
    """The element of ``value`` that lands in ``name`` when sequences are unpacked."""
    if isinstance(target, ast.Name):
        return value if target.id == name else None
    pair = (ast.Tuple, ast.List)
    if not isinstance(target, pair) or not isinstance(value, pair):
        return None
    if len(target.elts) != len(value.elts):
        return None
    if any(isinstance(item, ast.Starred) for item in [*target.elts, *value.elts]):
        return None
    for part, item in zip(target.elts, value.elts, strict=True):
        found = _matching(part, item, name)
        if found is not None:
            return found
    return None


def constant_names(tree: ast.Module, body: Sequence[ast.stmt]) -> dict[str, ast.expr]:
    """What each name of a scope stands for, where it is bound exactly once and for sure.

    Builtins that the module binds itself map to an expression that cannot be evaluated, so that
    nobody takes them for the builtin.

    Args:
        tree: the module; ``global`` statements anywhere in it make a name uncertain.
        body: statements of the scope.
    """
    counts: dict[str, int] = {}
    values: dict[str, ast.expr] = {}
    for statement, certain in flat(body):
        for name in bound_names(statement):
            counts[name] = counts.get(name, 0) + 1
            value = assigned_value(statement, name) if certain else None
            if value is not None:
                values[name] = value
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            for name in node.names:
                counts[name] = counts.get(name, 0) + 2
    result = {name: value for name, value in values.items() if counts[name] == 1}
    hidden = [name for name in _BUILTINS if name in counts]
    hidden += [name for name in _WRAPPERS if name not in standard_imports(tree)]
    star = any(s.names[0].name == "*" for s, _ in flat(body) if isinstance(s, ast.ImportFrom))
    if star:  # it may bind any of the names
        result = {}
        hidden = [*_BUILTINS, *_WRAPPERS]
    result.update((name, ast.Yield(value=None)) for name in hidden)
    return result


def find_class(tree: ast.Module, path: Sequence[str]) -> list[tuple[ast.ClassDef, bool]]:
    """Definitions of a (nested) class, each with whether it is defined for sure."""
    found: list[tuple[ast.ClassDef, bool]] = []
    bodies: list[tuple[list[ast.stmt], bool]] = [(tree.body, True)]
    for depth, name in enumerate(path):
        found = [
            (statement, certain)
            for body, outer in bodies
            for statement, certain in flat(body, certain=outer)
            if isinstance(statement, ast.ClassDef) and statement.name == name
        ]
        if depth + 1 < len(path):
            bodies = [(definition.body, certain) for definition, certain in found]
    return found
