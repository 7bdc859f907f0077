# SPDX-License-Identifier: Apache-2.0
"""Find every argument of a release by following its own `ServerArgs.add_cli_args`.

The reader does what the function would do, on the syntax tree: it goes through the statements,
follows the parser into groups and other functions, and notes each declaration. What touches the
parser in a way that it does not understand becomes a gap, never a missing argument.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ansible_collections.sm120.sglang.plugins.module_utils._arguments import (
    ArgumentsError,
    Reads,
)
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.declare import declare
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.fields import FieldReader
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.model import (
    Argument,
    ReleaseParser,
)
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.scope import (
    Definition,
    Scope,
    Unresolved,
    with_known,
)
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.values import Values
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import SourceError
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import (
    ClassRef,
    Modules,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.scopes import (
    flat,
    inner_bodies,
    own_expressions,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.source import Source

SERVER_ARGS = "srt/server_args.py"
FIELDS = "srt/arg_groups/fields/"
_MODULE = "sglang.srt.server_args"
_CLASS = "ServerArgs"
_FROM_FIELDS = "add_cli_args_from_dataclass"
_GROUPS = ("add_argument_group", "add_mutually_exclusive_group")
_HARMLESS = ("set_defaults", "print_help", "format_help")
_MAX_DEPTH = 10


def read_parser(tree: Reads, modules: Modules | None = None) -> ReleaseParser:
    """Read all arguments of a release.

    Args:
        tree: The release.
        modules: Its modules, where they are parsed already.

    Returns:
        The arguments, and what could not be read.

    Raises:
        ArgumentsError: There is no `ServerArgs.add_cli_args`, or its file is not Python.
    """
    modules = modules or Modules(tree.read)
    try:
        source = modules.source(SERVER_ARGS)
    except SourceError as error:
        raise ArgumentsError(error.cause, error.remedy) from error
    if source is None:
        raise ArgumentsError(
            f"there is no {SERVER_ARGS}", "name the package folder, wheel or checkout of a release"
        )
    try:
        return _Reader(tree, modules, source).read()
    except RecursionError as error:
        raise ArgumentsError(
            f"{SERVER_ARGS} is nested too deeply to be read", "no SGLang release has this shape"
        ) from error


class _Reader:
    def __init__(self, tree: Reads, modules: Modules, source: Source) -> None:
        self.tree = tree
        self.modules = modules
        self.source = source
        self.values = Values(modules)
        self.gaps: list[str] = []
        self.found: list[Argument] = []
        self.fields = FieldReader(self.values, self.gaps)

    def read(self) -> ReleaseParser:
        owner = next(
            (
                ClassRef(_MODULE, self.source, node)
                for node in self.source.tree.body
                if isinstance(node, ast.ClassDef) and node.name == _CLASS
            ),
            None,
        )
        method = None if owner is None else _method(owner.node, "add_cli_args")
        if owner is None or method is None:
            raise ArgumentsError(
                f"{SERVER_ARGS} has no {_CLASS}.add_cli_args",
                "this release declares its arguments in a way that is not known here",
            )
        self.owner = owner
        parser = _parameters(method)[0]
        scope = Scope(_MODULE, self.source, tuple(method.body))
        self._body(method.body, scope, frozenset({parser}), conditional=False, depth=0)
        help_argument = Argument(("--help", "-h"), "argparse", nargs=0, ends=True)
        return ReleaseParser(
            (help_argument, *self.found), tuple(dict.fromkeys(self.gaps)), self._abbreviations()
        )

    def _abbreviations(self) -> bool:
        """Whether the program's parser takes prefixes (argparse's `allow_abbrev`)."""
        if b"allow_abbrev" not in self.source.data:
            return True
        for node in ast.walk(self.source.tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("ArgumentParser"):
                for word in node.keywords:
                    if word.arg == "allow_abbrev" and isinstance(word.value, ast.Constant):
                        return bool(word.value.value)
        return True

    def _body(
        self,
        statements: Sequence[ast.stmt],
        scope: Scope,
        parsers: frozenset[str],
        conditional: bool,
        depth: int,
    ) -> frozenset[str]:
        """Go through statements; returns the names that stand for the parser or a group of it."""
        for statement in statements:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                if _touches(statement, parsers):
                    self._gap(scope, statement)
                continue
            if isinstance(statement, ast.For):
                self._loop(statement, scope, parsers, depth)
                continue
            blocks = list(inner_bodies(statement))
            if blocks and any(_touches(node, parsers) for node in own_expressions(statement)):
                self._gap(scope, statement)
            for block in blocks:
                guarded = conditional or not isinstance(statement, ast.With)
                parsers = self._body(block, scope, parsers, guarded, depth)
            if not blocks:
                parsers = self._statement(statement, scope, parsers, conditional, depth)
        return parsers

    def _loop(self, statement: ast.For, scope: Scope, parsers: frozenset[str], depth: int) -> None:
        if not _touches(statement, parsers):
            return
        try:
            items = self.values.iterate(scope, self.values.value(scope, statement.iter))
            for item in items:
                inner = with_known(scope, _unpacked(statement.target, item))
                self._body(statement.body, inner, parsers, conditional=False, depth=depth)
        except Unresolved as unresolved:
            self.gaps.append(f"{scope.at(statement)}: a loop over the parser: {unresolved}")

    def _statement(
        self,
        statement: ast.stmt,
        scope: Scope,
        parsers: frozenset[str],
        conditional: bool,
        depth: int,
    ) -> frozenset[str]:
        groups: set[str] = set()
        understood: set[int] = set()
        for node in ast.walk(statement):
            if not isinstance(node, ast.Call):
                continue
            name = self._on_parser(node.func, parsers)
            if name == "add_argument":
                self._argument(node, scope, conditional)
            elif name in _GROUPS:
                if isinstance(statement, ast.Assign) and statement.value is node:
                    groups |= {t.id for t in statement.targets if isinstance(t, ast.Name)}
            elif name in _HARMLESS:
                pass
            elif name is None and any(_names(word, parsers) for word in _words(node)):
                self._follow(node, scope, parsers, conditional, depth)
                understood |= {id(n) for word in _words(node) for n in ast.walk(word)}
                continue
            else:
                continue
            understood |= {id(n) for n in ast.walk(node.func)}
        for node in ast.walk(statement):
            if not isinstance(node, ast.Name) or isinstance(node.ctx, ast.Store):
                continue
            if node.id in parsers and id(node) not in understood:
                self._gap(scope, statement)
        return parsers | groups

    def _gap(self, scope: Scope, statement: ast.stmt) -> None:
        words = ast.unparse(statement).splitlines()[0][:70]
        self.gaps.append(f"{scope.at(statement)}: the parser in '{words}'")

    def _on_parser(self, function: ast.expr, parsers: frozenset[str]) -> str | None:
        """The method's name where a call is one on the parser, or on a group made on the spot."""
        if not isinstance(function, ast.Attribute):
            return None
        base = function.value
        if isinstance(base, ast.Name) and base.id in parsers:
            return function.attr
        if isinstance(base, ast.Call) and self._on_parser(base.func, parsers) in _GROUPS:
            return function.attr
        return None

    def _argument(self, call: ast.Call, scope: Scope, conditional: bool) -> None:
        try:
            flags: list[str] = []
            for word in call.args:
                if isinstance(word, ast.Starred):
                    value = self.values.value(scope, word.value)
                    flags += [str(item) for item in self.values.iterate(scope, value)]
                else:
                    flags.append(str(self.values.value(scope, word)))
        except Unresolved as unresolved:
            self.gaps.append(f"{scope.at(call)}: an argument's name: {unresolved}")
            return
        if not flags or not flags[0].startswith("-"):
            self.gaps.append(f"{scope.at(call)}: a positional argument")
            return
        options = {word.arg: word.value for word in call.keywords if word.arg}
        if any(word.arg is None for word in call.keywords):
            self.gaps.append(f"{scope.at(call)}: the options of {flags[0]} are computed")
        where = scope.at(call)
        self.found.append(
            declare(self.values, scope, tuple(flags), where, options, conditional=conditional)
        )

    def _follow(
        self,
        call: ast.Call,
        scope: Scope,
        parsers: frozenset[str],
        conditional: bool,
        depth: int,
    ) -> None:
        """Go into a function that gets the parser."""
        where = scope.at(call)
        if ast.unparse(call.func).rpartition(".")[2] == _FROM_FIELDS:
            self._from_fields(call, scope, where)
            return
        try:
            function = self._function(scope, call.func)
        except Unresolved as unresolved:
            self.gaps.append(
                f"{where}: the parser goes into {ast.unparse(call.func)}: {unresolved}"
            )
            return
        if depth >= _MAX_DEPTH or isinstance(function.node, ast.ClassDef):
            self.gaps.append(f"{where}: the parser goes into {ast.unparse(call.func)}")
            return
        names = _parameters(function.node)
        inner = {
            name for name, word in zip(names, call.args, strict=False) if _names(word, parsers)
        } | {word.arg for word in call.keywords if word.arg and _names(word.value, parsers)}
        body = function.node.body
        place = Scope(function.scope.module, function.scope.source, tuple(body))
        self._body(body, place, frozenset(inner), conditional, depth + 1)

    def _function(self, scope: Scope, node: ast.expr) -> Definition:
        if isinstance(node, ast.Attribute):
            owner = self.modules.resolve(scope.module, node.value)
            if isinstance(owner, ClassRef):
                method = _method(owner.node, node.attr)
                if method is not None:
                    return Definition(Scope(owner.module, owner.source), method)
        found = self.values.value(scope, node)
        if not isinstance(found, Definition):
            raise Unresolved("it is no function of the release")
        return found

    def _from_fields(self, call: ast.Call, scope: Scope, where: str) -> None:
        before = len(self.found)
        self.gaps += self.fields.unknown_keys()
        owner = self.modules.resolve(scope.module, call.args[1]) if len(call.args) > 1 else None
        owners = [owner] if isinstance(owner, ClassRef) else [self.owner]
        owners += self._collected()
        for one in owners:
            self.found += self.fields.arguments(one)
        for missed in self._not_collected({id(one.node) for one in owners}):
            self.gaps.append(f"{missed.at}: nothing collects the fields of {missed.node.name}")
        if len(self.found) == before:
            self.gaps.append(f"{where}: no annotated field was found")

    def _collected(self) -> list[ClassRef]:
        """Classes with fields that `server_args.py` names in a list of its own."""
        found: dict[int, ClassRef] = {}
        for statement, _ in flat(self.source.tree.body):
            if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.ImportFrom)):
                continue
            for node in ast.walk(statement):
                if not isinstance(node, (ast.List, ast.Tuple)):
                    continue
                for item in node.elts:
                    if not isinstance(item, (ast.Name, ast.Attribute)):
                        continue
                    meaning = self.modules.resolve(_MODULE, item)
                    if isinstance(meaning, ClassRef) and self.fields.has_fields(meaning):
                        found[id(meaning.node)] = meaning
        return list(found.values())

    def _not_collected(self, known: set[int]) -> list[ClassRef]:
        """Classes below the folder of fields that nothing names."""
        missed = []
        for path in self.tree.names(FIELDS):
            if not path.endswith(".py"):
                continue
            try:
                source = self.modules.source(path)
            except SourceError as error:
                self.gaps.append(error.cause)
                continue
            for node in source.tree.body if source else []:
                if isinstance(node, ast.ClassDef) and id(node) not in known and source:
                    owner = ClassRef(self.modules.name_of(path), source, node)
                    if any(True for _ in FieldReader(self.values, []).arguments(owner)):
                        missed.append(owner)
        return missed


def _method(owner: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    for statement in owner.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            return statement
    return None


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    names = [a.arg for a in [*function.args.posonlyargs, *function.args.args]]
    return names[1:] if names and names[0] in ("self", "cls") else names


def _words(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(word.value for word in call.keywords)]


def _names(node: ast.expr, parsers: frozenset[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in parsers


def _touches(node: ast.AST, parsers: frozenset[str]) -> bool:
    return any(isinstance(n, ast.Name) and n.id in parsers for n in ast.walk(node))


def _unpacked(target: ast.expr, item: object) -> dict[str, object]:
    if isinstance(target, ast.Name):
        return {target.id: item}
    if isinstance(target, ast.Tuple) and isinstance(item, (list, tuple)):
        pairs = zip(target.elts, item, strict=False)
        return {name.id: value for name, value in pairs if isinstance(name, ast.Name)}
    raise Unresolved("its variable is computed")
