# SPDX-License-Identifier: Apache-2.0
"""What the values of a release's source are made of, and where an expression stands."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._patch.source import Source


class Unresolved(Exception):  # noqa: N818 - a question's answer, not a failure
    """The source alone does not tell this value; says why."""


class Opaque:
    """A value whose place in a collection is known, and not its content."""


@dataclass(frozen=True)
class Pending:
    """A value of a mapping, worked out only when somebody asks: most ask for the keys alone."""

    scope: Scope
    node: ast.expr


@dataclass(frozen=True)
class Member:
    """A member of an enumeration."""

    name: str
    value: Any


@dataclass(frozen=True)
class Scope:
    """Where an expression stands.

    Attributes:
        module: Dotted name of its module.
        source: The module's source.
        body: Statements of the function around it, none at the top level.
        owner: The class around it.
        known: Names with a known value, such as the variable of a loop.
    """

    module: str
    source: Source
    body: tuple[ast.stmt, ...] = ()
    owner: ast.ClassDef | None = None
    known: Mapping[str, Any] = field(default_factory=dict)

    def at(self, node: ast.AST) -> str:
        """File and line of a node."""
        return self.source.at(node)


@dataclass(frozen=True)
class Definition:
    """A class or function of the release, and the scope that it stands in."""

    scope: Scope
    node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def with_known(scope: Scope, known: Mapping[str, Any]) -> Scope:
    """The scope with further known names."""
    return Scope(scope.module, scope.source, scope.body, scope.owner, {**scope.known, **known})
