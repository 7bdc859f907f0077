# SPDX-License-Identifier: Apache-2.0
"""Compare two syntax trees that may differ at one named place only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ansible_collections.sm120.sglang.plugins.module_utils._patch.tables import Site


def same_tree(left: ast.AST, right: ast.AST) -> bool:
    """Whether two trees say the same; positions do not count."""
    todo: list[tuple[object, object]] = [(left, right)]
    while todo:
        one, other = todo.pop()
        if type(one) is not type(other):
            return False
        if isinstance(one, ast.AST):
            todo.extend(
                (getattr(one, name, None), getattr(other, name, None)) for name in one._fields
            )
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            todo.extend(zip(one, other, strict=True))
        elif one != other:
            return False
    return True


def same_but_for(before: ast.Module, after: ast.Module, site: Site) -> bool:
    """Whether ``after`` is ``before`` with one entry more at a site.

    ``after`` is changed: the entry is taken out of it for the comparison.
    """
    path = _path_to(before, site.node)
    parent: ast.AST = after
    for name, index in path[:-1]:
        parent = _child(parent, name, index)
    name, index = path[-1]
    node = _child(parent, name, index)
    if site.kind == "literal":
        if not isinstance(node, ast.Dict) or not node.keys:
            return False
        node.keys.pop()
        node.values.pop()
    else:
        if not isinstance(node, ast.BinOp):
            return False
        if index is None:
            setattr(parent, name, node.left)
        else:
            getattr(parent, name)[index] = node.left
    return same_tree(before, after)


def _child(parent: ast.AST, name: str, index: int | None) -> ast.AST:
    value = getattr(parent, name, None)
    found = value[index] if isinstance(value, list) and index is not None else value
    return found if isinstance(found, ast.AST) else ast.Pass()


def _path_to(root: ast.AST, wanted: ast.AST) -> list[tuple[str, int | None]]:
    """Field names and indexes that lead from a tree's root to a node."""
    todo: list[tuple[ast.AST, list[tuple[str, int | None]]]] = [(root, [])]
    while todo:
        node, path = todo.pop()
        if node is wanted:
            return path
        todo.extend((child, [*path, step]) for child, step in _children(node))
    raise ValueError("the node is not in the tree")


def _children(node: ast.AST) -> Iterator[tuple[ast.AST, tuple[str, int | None]]]:
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield value, (name, None)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield item, (name, index)
