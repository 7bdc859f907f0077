# SPDX-License-Identifier: Apache-2.0
"""Every place of a module that touches a table: does one of them change it, or hand it on.

A table is certain only where all of its uses are known to leave it as it is, or are plain
statements of its own scope that can be followed. So this lists what is harmless; the rest is a
doubt.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from typing import Literal

from ansible_collections.sm120.sglang.plugins.module_utils._patch.scopes import (
    FUNCTIONS,
    bound_names,
)

READERS = frozenset({
    "get", "items", "keys", "values", "copy", "index", "count",
    "__contains__", "__getitem__", "__len__", "__iter__",
})  # fmt: skip
# Statements of this form, in the table's own scope, are followed by who reads the table.
FOLLOWED = frozenset({"update", "setdefault", "pop"})
# Calls that take a table and leave it as it is.
_HARMLESS = frozenset({
    "all", "any", "bool", "dict", "enumerate", "frozenset", "isinstance", "len", "list", "max",
    "min", "print", "range", "repr", "reversed", "set", "sorted", "str", "sum", "tuple", "type",
    "zip", "id", "MappingProxyType", "OrderedDict",
})  # fmt: skip
_BY_TEXT = frozenset({"exec", "eval", "globals", "locals"})
# What takes the content of an expression and hands nothing on.
_READING = (
    ast.Compare, ast.FormattedValue, ast.Starred, ast.Expr, ast.For, ast.AsyncFor, ast.UnaryOp,
)  # fmt: skip
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

# Where code runs: a statement of the table's scope, elsewhere at import, or in a function.
Region = Literal["scope", "import", "function"]


@dataclass(frozen=True)
class Doubt:
    """A use that may change the table: the node, and what it does as the end of a sentence."""

    node: ast.AST
    reason: str


@dataclass(frozen=True)
class _Place:
    """A node to look at, with where it runs and whether the bare name means the table there."""

    node: ast.AST
    region: Region
    visible: bool


class Uses:
    """Looks at the uses of one table.

    Args:
        tree: the module.
        name: the bare name of the table in its scope.
        owner: the class whose attribute it is; None for a table of the module.
        rebound: names of the module that may hide a builtin.
        other_key: whether an expression is a key that is not the one in question; functions may
            write such a key.
        reader: name of another table, whose ``update`` only reads what it is given.

    Attributes:
        followed: places that change the table and that its reader follows.
    """

    def __init__(
        self,
        tree: ast.Module,
        name: str,
        owner: ast.ClassDef | None,
        rebound: Set[str],
        *,
        other_key: Callable[[ast.expr], bool] = lambda _key: False,
        reader: str = "",
    ) -> None:
        self.tree, self.name, self.owner = tree, name, owner
        self.harmless = _HARMLESS - rebound
        self.other_key, self.reader = other_key, reader
        self.followed: list[ast.AST] = []
        self.parents: dict[int, ast.AST] = {}

    def doubt(self) -> Doubt | None:
        """The first use, in the order of the module, that is not known to be harmless."""
        found = list(self._doubts())
        return min(found, key=lambda item: getattr(item.node, "lineno", 0), default=None)

    def _doubts(self) -> Iterator[Doubt]:
        start: Region = "import" if self.owner else "scope"
        todo = [_Place(self.tree, start, self.owner is None)]
        while todo:
            place = todo.pop()
            node = place.node
            for child in ast.iter_child_nodes(node):
                self.parents[id(child)] = node
            reason = self._by_text(node) or self._reason(place)
            if reason:
                yield Doubt(node, reason)
            todo.extend(self._inside(place))

    def _inside(self, place: _Place) -> Iterator[_Place]:
        """What a node holds, each with where it runs and what the bare name means there."""
        node, region, visible = place.node, place.region, place.visible
        if isinstance(node, FUNCTIONS):
            body = node.body if isinstance(node.body, list) else [node.body]
            sees = self._seen_in(node, visible)
            for child in ast.iter_child_nodes(node):
                runs = any(child is item for item in body)
                yield _Place(child, "function" if runs else region, sees if runs else visible)
        elif isinstance(node, ast.ClassDef):
            yield from self._in_class(node, place)
        elif isinstance(node, _COMPREHENSIONS) and self._bound_by_generators(node):
            head = node.generators[0]
            for child in ast.iter_child_nodes(node):
                if child is not head:
                    yield _Place(child, region, visible=False)
            for child in ast.iter_child_nodes(head):  # only its iterable runs outside
                self.parents[id(child)] = head
                yield _Place(child, region, visible=visible and child is head.iter)
        else:
            for child in ast.iter_child_nodes(node):
                yield _Place(child, region, visible)

    def _in_class(self, node: ast.ClassDef, place: _Place) -> Iterator[_Place]:
        own = node is self.owner
        inner: Region = "function" if place.region == "function" else "import"
        sees = own or (place.visible and self.owner is None)
        for child in ast.iter_child_nodes(node):
            if not any(child is statement for statement in node.body):
                yield _Place(child, place.region, place.visible)
                continue
            binds = isinstance(child, ast.stmt) and self.name in bound_names(child)
            if binds and not own:
                sees = False  # from here on the class has a name of its own
            yield _Place(child, "scope" if own else inner, sees)

    def _seen_in(self, function: ast.AST, visible: bool) -> bool:
        """Whether the bare name means the table inside a function."""
        nodes = list(_own_nodes(function))
        if any(isinstance(node, ast.Global) and self.name in node.names for node in nodes):
            return self.owner is None
        arguments: ast.arguments = function.args  # type: ignore[attr-defined]
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [item for item in (arguments.vararg, arguments.kwarg) if item]
        if any(argument.arg == self.name for argument in every):
            return False
        stored = any(
            isinstance(node, ast.Name) and node.id == self.name and isinstance(node.ctx, ast.Store)
            for node in nodes
        )
        return visible and self.owner is None and not stored

    def _bound_by_generators(self, node: ast.AST) -> bool:
        return any(
            isinstance(item, ast.Name) and item.id == self.name
            for generator in getattr(node, "generators", [])
            for item in ast.walk(generator.target)
        )

    def _by_text(self, node: ast.AST) -> str:
        """Ways to reach a name by its text."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = node.func.id
            if called in _BY_TEXT or (called == "vars" and not node.args):
                return f"may be changed by a call of {called}"
        if isinstance(node, (ast.Call, ast.Subscript)):
            given = [node.slice] if isinstance(node, ast.Subscript) else node.args
            if any(isinstance(item, ast.Constant) and item.value == self.name for item in given):
                return "is reached by its name as text"
        if isinstance(node, ast.Global) and self.owner and self.name in node.names:
            return "is declared global"
        return ""

    def _reason(self, place: _Place) -> str:
        node = place.node
        if isinstance(node, ast.Name) and node.id == self.name and place.visible:
            return self._judge(node, place.region)
        if isinstance(node, ast.Attribute) and node.attr == self.name:
            reason = self._judge(node, place.region)
            # In a module's table, an attribute of that name is likely one of something else.
            return reason if self.owner or "changed" in reason or "replaced" in reason else ""
        return ""

    def _followed(self, node: ast.expr, region: Region) -> bool:
        """Whether the reader of the table follows what a statement at this place does."""
        follows = self._follows(node, region)
        if follows and isinstance(getattr(node, "ctx", None), ast.Load):
            self.followed.append(node)
        return follows

    def _follows(self, node: ast.expr, region: Region) -> bool:
        if isinstance(node, ast.Name):
            return region == "scope"
        base = node.value if isinstance(node, ast.Attribute) else node
        name = self.owner.name if self.owner else ""
        named = getattr(base, "id", getattr(base, "attr", "")) == name
        return bool(name) and named and region == "import" and self._at_top(node)

    def _judge(self, node: ast.Name | ast.Attribute, region: Region) -> str:
        """Why a use is not harmless; empty where it is."""
        parent = self.parents[id(node)]
        if not isinstance(node.ctx, ast.Load):
            plain = isinstance(node, ast.Name) or getattr(parent, "targets", []) == [node]
            return "" if plain and self._followed(node, region) else "is replaced elsewhere"
        if isinstance(parent, ast.Subscript) and parent.value is node:
            return self._item(node, parent, region)
        if isinstance(parent, ast.Attribute):
            return self._method(node, parent, region)
        if isinstance(parent, ast.comprehension):
            return self._iterated(parent, node)
        if self._only_read(node, parent):
            return self._control(node, region)
        return "gets a second name or is handed on"

    def _only_read(self, node: ast.expr, parent: ast.AST) -> bool:
        """Whether an expression takes the table's content, and nobody gets the table itself."""
        if isinstance(parent, _READING):
            return getattr(parent, "target", None) is not node
        if isinstance(parent, ast.Call):
            return self._harmless_call(parent)
        if isinstance(parent, ast.BinOp):
            return isinstance(parent.op, ast.BitOr) or self._for_reader(node)
        if isinstance(parent, ast.Dict):
            pairs = zip(parent.keys, parent.values, strict=True)
            spread = any(key is None and value is node for key, value in pairs)
            return spread or self._for_reader(node)
        spread = isinstance(parent, ast.keyword) and parent.arg is None
        added = isinstance(parent, ast.AugAssign) and parent.value is node
        return spread or added or self._for_reader(node)

    def _for_reader(self, node: ast.expr) -> bool:
        """Whether an expression is part of the other table, whose own uses are looked at too."""
        parent = self.parents.get(id(node))
        depth = 0
        while isinstance(parent, (ast.Dict, ast.Tuple, ast.List, ast.BinOp)):
            parent, depth = self.parents.get(id(parent)), depth + 1
        binds = isinstance(parent, (ast.Assign, ast.AnnAssign))
        return binds and depth > 0 and self.reader in bound_names(parent)  # type: ignore[arg-type]

    def _harmless_call(self, call: ast.Call) -> bool:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "update" and self.reader:
            return getattr(call.func.value, "id", "") == self.reader
        return isinstance(call.func, ast.Name) and call.func.id in self.harmless

    def _item(self, table: ast.expr, node: ast.Subscript, region: Region) -> str:
        """A subscript of the table: a value that is read, or an entry that is written."""
        if isinstance(node.ctx, ast.Load):
            return self._value_read(node, region)
        statement = self.parents[id(node)]
        if self._followed(table, region):
            alone = isinstance(statement, (ast.Assign, ast.Delete)) and statement.targets == [node]
            return "" if alone else "is changed in a way that cannot be followed"
        other = region == "function" and self.other_key(node.slice)
        return "" if other else "is changed elsewhere"

    def _value_read(self, node: ast.Subscript, region: Region) -> str:
        parent = self.parents[id(node)]
        if isinstance(parent, ast.Attribute) and parent.attr not in READERS:
            return "has a value that is changed"
        if isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load):
            return "has a value that is changed"
        if region == "function":
            return ""
        reading = isinstance(parent, (ast.Subscript, ast.BinOp, ast.Attribute, *_READING))
        if reading or (isinstance(parent, ast.Call) and self._harmless_call(parent)):
            return self._control(node, region)
        return "has a value with a second name"

    def _method(self, table: ast.expr, node: ast.Attribute, region: Region) -> str:
        """A method of the table: one that reads, or one that writes."""
        if node.attr in READERS:
            return self._method_reads(node, region)
        call = self.parents[id(node)]
        if not isinstance(call, ast.Call) or not isinstance(self.parents[id(call)], ast.Expr):
            return "may be changed by a method"
        if node.attr in FOLLOWED and self._followed(table, region):
            return ""
        keyed = node.attr in {"setdefault", "pop"} and bool(call.args)
        other = keyed and region == "function" and self.other_key(call.args[0])
        return "" if other else "is changed elsewhere"

    def _method_reads(self, node: ast.Attribute, region: Region) -> str:
        parent = self.parents[id(node)]
        call = parent if isinstance(parent, ast.Call) and parent.func is node else node
        above = self.parents[id(call)]
        if isinstance(above, ast.comprehension):
            return self._iterated(above, call)
        if region != "function" and isinstance(above, (ast.For, ast.AsyncFor, ast.Attribute)):
            return "is walked through in a way that may change its values"
        return self._control(node, region)

    def _iterated(self, generator: ast.comprehension, node: ast.AST) -> str:
        """A comprehension reads; unless it calls methods that may change what it walks through."""
        if generator.iter is not node:
            return ""  # a membership test in a condition
        whole = self.parents.get(id(generator))
        for item in ast.walk(whole) if whole else ():
            called = item.func if isinstance(item, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr not in READERS:
                return "is walked through in a way that may change its values"
        return ""

    def _control(self, node: ast.AST, region: Region) -> str:
        """One entry more must not lead the module another way while it is imported."""
        child, parent = node, self.parents.get(id(node))
        member = False
        while parent is not None and not isinstance(parent, ast.stmt):
            if isinstance(parent, ast.Compare):
                tests = (ast.In, ast.NotIn)
                member = member or isinstance(parent.ops[0], tests)
            child, parent = parent, self.parents.get(id(parent))
        steers = getattr(parent, "test", None) is child or getattr(parent, "subject", None) is child
        if region != "function" and steers:
            return "decides what happens when the module is imported"
        if isinstance(parent, ast.Assert) and not member:
            return "is checked by an assertion"
        return ""

    def _at_top(self, node: ast.AST) -> bool:
        """Whether a node is part of a statement of the module itself, not of a class in it."""
        parent: ast.AST | None = node
        while parent is not None and not isinstance(parent, (ast.ClassDef, *FUNCTIONS)):
            parent = self.parents.get(id(parent))
        return parent is None


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a function outside the functions and classes that it defines."""
    todo = list(ast.iter_child_nodes(function))
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, (ast.ClassDef, *FUNCTIONS)):
            todo.extend(ast.iter_child_nodes(node))
