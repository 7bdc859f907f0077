# SPDX-License-Identifier: Apache-2.0
"""Calls: what they reach, and what they hand on."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable

from ansible_collections.sm120.sglang.plugins.module_utils._contract.expressions import PLATFORM
from ansible_collections.sm120.sglang.plugins.module_utils._contract.known import Known
from ansible_collections.sm120.sglang.plugins.module_utils._contract.recorder import Frame, State
from ansible_collections.sm120.sglang.plugins.module_utils._contract.values import (
    ANY,
    NOTHING,
    Algorithm,
    Args,
    Cls,
    Const,
    Func,
    Model,
    Named,
    Obj,
    Part,
    Value,
    Values,
    join,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import ClassRef

# An object that is made by an object that is made by ...: told apart down to here.
_MAKERS = 3
_COLLECTS = {"append", "add", "extend", "insert"}


class Calls(Known):
    """Works calls out."""

    home: str

    def call(self, node: ast.Call, state: State, frame: Frame) -> Values:
        """What a call may give."""
        if isinstance(node.func, ast.Name) and node.func.id not in state.names:
            known = self.builtin(node, node.func.id, state, frame)
            if known is not None:
                return known
        found: list[Values] = []
        if isinstance(node.func, ast.Attribute):
            name = node.func.attr
            base = self.value(node.func.value, state, frame)
            if base is not ANY and _target_in(base):
                self.touch(frame, state, node.func, name, "call", required=True)
                found.append(frozenset({Part(name, inner=True)}))
                base = frozenset(v for v in base if not isinstance(v, Model))
            args = self.arguments(node, state, frame)
            if name in _COLLECTS:
                self.collect(node, args, state, frame)
            targets = self.attribute(node.func, base, name, state, frame)
        else:
            targets = self.value(node.func, state, frame)
            args = self.arguments(node, state, frame)
        if targets is ANY and not found:
            self._hand_over(node, args, state, frame)
            return ANY
        found += [self._reach(target, node, args, state, frame) for target in targets]
        return found[0] if len(found) == 1 else join(*found)

    def _reach(
        self, target: Value, node: ast.Call, args: Args, state: State, frame: Frame
    ) -> Values:
        if isinstance(target, Func):
            if target.spec and self._is_factory(args):
                args = Args(args.given[1:], args.keywords, args.more)
            return self.invoke(target, args, state, frame)
        if isinstance(target, Cls):
            return self.construct(target, node, args, state, frame)
        if isinstance(target, Obj):
            return self._call_object(target, args, state, frame)
        if isinstance(target, Named):
            return self._call_named(target, node, args, state, frame)
        if isinstance(target, Model):
            if target.role == "target":
                self.touch(frame, state, node, "forward", "call", required=True)
            return ANY
        self._hand_over(node, args, state, frame)
        return ANY

    def _call_object(self, target: Obj, args: Args, state: State, frame: Frame) -> Values:
        for name in ("__call__", "forward"):
            member = self.program.find(target.ref, name)
            if member is None:
                continue
            bound = self.bound(member.owner, member.node, target)
            return join(*(self.invoke(f, args, state, frame) for f in bound if isinstance(f, Func)))
        return ANY

    def _call_named(
        self, target: Named, node: ast.Call, args: Args, state: State, frame: Frame
    ) -> Values:
        """A function of a file that has not been looked into: only where it may matter."""
        name = target.name.rsplit(".", 1)[-1]
        if name in PLATFORM:
            return frozenset({Const(PLATFORM[name])})
        every = args.every()
        if frame.module != self.home and not self.follows(target.module, every):
            self.escape(every, state, frame)
            return ANY
        targets = [value for value in self.named(target) if not isinstance(value, Named)]
        found = [self._reach(value, node, args, state, frame) for value in targets]
        return join(*found) if found else ANY

    def _is_factory(self, args: Args) -> bool:
        """A registered worker is called without the algorithm that it is registered for."""
        first = args.given[0] if args.given else ANY
        return bool(self.table.registered) and all(isinstance(v, Algorithm) for v in first)

    def _hand_over(self, node: ast.Call, args: Args, state: State, frame: Frame) -> None:
        """Something is handed to code that is not followed."""
        every = args.every()
        if not every:
            return
        self.escape(every, state, frame)
        if _target_in(every):
            root = node.func
            while isinstance(root, ast.Attribute):
                root = root.value
            name = root.id if isinstance(root, ast.Name) else ""
            if name and (hasattr(builtins, name) or self._is_outside(name, state, frame)):
                return
            self.doubt(frame, node, f"hands the target model to '{ast.unparse(node.func)[:60]}'")

    def _is_outside(self, name: str, state: State, frame: Frame) -> bool:
        """A name that is imported from another package."""
        if name in frame.outside or name in state.names:
            return name in frame.outside
        statements = self.program.global_statements(frame.module, name)
        return bool(statements) and all(
            isinstance(s, (ast.Import, ast.ImportFrom))
            and self.program.imported(frame.module, s, name) is None
            for s in statements
        )

    def construct(
        self, target: Cls, node: ast.AST, args: Args, state: State, frame: Frame
    ) -> Values:
        """What making an object gives; its ``__init__`` is walked through."""
        ref = target.ref
        if args.pending:
            return NOTHING
        if ref.node is self.table.ref.node:
            return ANY
        if frame.module == self.home:
            self._enter(ref)
        every = args.every()
        inside = self.program.in_scope(ref.module) or ref.module in self.entries
        follow = frame.module == self.home or self.follows(ref.module, every)
        follow = follow or (self.loads_model(ref) and not state.spec)
        if not follow and not inside:
            self.escape(every, state, frame)
            return ANY
        obj = self._made(ref, node, state, frame)
        initial = self.program.find(ref, "__init__")
        if initial is None or not isinstance(initial.node, ast.FunctionDef):
            pairs = [*zip(self.program.fields(ref), args.given, strict=False), *args.keywords]
            for name, values in pairs:
                self.put(obj, name, values, state.spec)
        elif follow:
            function = Func(initial.owner.module, initial.node, obj, initial.owner)
            self.invoke(function, args, state, frame)
        return frozenset({obj})

    def _enter(self, ref: ClassRef) -> None:
        """The engine makes objects of a class itself: its file belongs to the scope."""
        if ref.module not in self.entries:
            self.entries.add(ref.module)
            self._names.clear()
        if self.relevance.add([item.source.path for item in self.program.line(ref)]):
            self.changed("text")

    def _made(self, ref: ClassRef, node: ast.AST, state: State, frame: Frame) -> Obj:
        maker = frame.bound if isinstance(frame.bound, Obj) else None
        if maker is not None and maker.depth >= _MAKERS:
            maker = maker.maker
        place = f"{frame.path}:{getattr(node, 'lineno', 0)}:{getattr(node, 'col_offset', 0)}"
        key = (ref.node, place, maker, state.spec)
        obj = self.objects.get(key)
        if obj is None:
            obj = self.objects[key] = Obj(ref, place, maker, state.spec)
            self.grown = True
        if frame.module == self.home and not obj.spec:
            self.hold(obj)
        return obj


def _target_in(values: Iterable[Value]) -> bool:
    return any(isinstance(value, Model) and value.role == "target" for value in values)
