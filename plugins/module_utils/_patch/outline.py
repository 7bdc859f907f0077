# SPDX-License-Identifier: Apache-2.0
"""The syntax tree of a large file whose function bodies are parsed only when somebody looks.

Of the files that an audit reads it looks into a third of the functions; parsing the others takes
longer than all else. So the bodies are cut out of the text before it is parsed. Where they begin
and end is told from the text by the indentation. That is checked: a body is cut out only where its
quotes and brackets are balanced, each must turn out to be that of a function in the tree, and
where anything does not fit, there is no outline, and the file is parsed as a whole.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import SupportsIndex, overload

# What Python does with these is left to Python.
_UNUSUAL = (b"\r", b"\n\t", b"\f", b"\0", b"\xef\xbb\xbf")
# What can go wrong when Python parses.
_FAILS = (SyntaxError, ValueError, RecursionError, MemoryError)
# What is smaller is faster parsed than looked at.
_SMALL_FILE = 8 * 1024
_SMALL_BODY = 400

# Functions of a module or of its classes. The closing bracket of a header of several lines stands
# where the header begins.
_DEFINITION = re.compile(rb"\n((?:    )?)(?:async )?def \w+\(")
_CLOSING = {indent: re.compile(rb"\n" + indent + rb"\)[^\n]*:\n") for indent in (b"", b"    ")}
_BEHIND = {b"": re.compile(rb"\n[^\s#]"), b"    ": re.compile(rb"\n {0,4}[^\s#]")}


class Body(list[ast.stmt]):
    """The statements of a function, parsed when they are first looked at.

    Args:
        load: parses them; raises what they cannot be parsed for.
    """

    def __init__(self, load: Callable[[], list[ast.stmt]]) -> None:
        super().__init__()
        self._load: Callable[[], list[ast.stmt]] | None = load

    def _parse(self) -> None:
        if self._load is not None:
            super().extend(self._load())
            self._load = None

    def __iter__(self) -> Iterator[ast.stmt]:
        """Each statement."""
        self._parse()
        return super().__iter__()

    def __reversed__(self) -> Iterator[ast.stmt]:
        """Each statement, the last one first."""
        self._parse()
        return super().__reversed__()

    def __len__(self) -> int:
        """How many statements there are."""
        self._parse()
        return super().__len__()

    @overload
    def __getitem__(self, index: SupportsIndex) -> ast.stmt: ...

    @overload
    def __getitem__(self, index: slice) -> list[ast.stmt]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> ast.stmt | list[ast.stmt]:
        """One statement, or some."""
        self._parse()
        return super().__getitem__(index)


@dataclass(frozen=True)
class _Cut:
    """A body in the text: from the start of its first line to the end of its last."""

    start: int
    end: int


def outline(path: str, data: bytes, failed: Callable[[Exception], Exception]) -> ast.Module | None:
    """The tree of a file in UTF-8; positions are those of the file.

    Ends of functions and classes are right to the line, not to the column.

    Args:
        path: for messages.
        data: the file.
        failed: makes the error that is raised where a body turns out not to be Python.

    Returns:
        None where the file has to be parsed as a whole.
    """
    if len(data) < _SMALL_FILE or any(mark in data for mark in _UNUSUAL):
        return None
    cuts = list(_cuts(data))
    if not cuts:
        return None
    kept: list[bytes] = []
    waiting: dict[int, Callable[[], list[ast.stmt]]] = {}
    position, line = 0, 1
    for cut in cuts:
        kept.append(data[position : cut.start])
        line += kept[-1].count(b"\n")
        body = data[cut.start : cut.end]
        lines = body.count(b"\n")
        # The mark stands in the last line: so the function ends where it did.
        kept.append(b"\n" * lines + b" " * 8 + b"...")
        waiting[line + lines] = _later(path, body, line, failed)
        line += lines
        position = cut.end
    kept.append(data[position:])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(b"".join(kept), filename=path)
    except _FAILS:
        return None
    for function in _functions(tree.body):
        mark = function.body[0]
        load = waiting.get(mark.lineno)
        if load is not None and len(function.body) == 1 and _is_mark(mark):
            function.body = Body(load)
            del waiting[mark.lineno]
    return None if waiting else tree


def _cuts(data: bytes) -> Iterator[_Cut]:
    """The bodies that can be cut out, none inside another."""
    done = 0
    for match in _DEFINITION.finditer(data):
        if match.start() < done:
            continue
        indent = match.group(1)
        start = _behind_header(data, match, indent)
        behind = _BEHIND[indent].search(data, start - 1) if start else None
        if behind is None:
            continue
        end = _last_line(data, start, behind.start())
        body = data[start:end]
        if len(body) > _SMALL_BODY and _is_balanced(body):
            yield _Cut(start, end)
            done = end


def _behind_header(data: bytes, match: re.Match[bytes], indent: bytes) -> int:
    """Where the line behind a function's header starts; 0 where it is not certain."""
    end = data.find(b"\n", match.end())
    header = data[match.start() : end].partition(b"  #")[0]
    if not header.endswith(b":") or header.count(b"(") != header.count(b")"):
        closing = _CLOSING[indent].search(data, match.end())
        if closing is None:
            return 0
        end = closing.end() - 1
        header = data[match.start() : end]
        if (
            header.count(b"(") != header.count(b")")
            or b"def " in header[match.end() - match.start() :]
        ):
            return 0
    return end + 1


def _last_line(data: bytes, start: int, end: int) -> int:
    """The end of the last line that is neither empty nor a comment."""
    while end > start:
        line = data.rfind(b"\n", start - 1, end) + 1
        text = data[line:end].strip()
        if text and not text.startswith(b"#"):
            return end
        end = line - 1
    return start


def _is_balanced(body: bytes) -> bool:
    """Whether a text that ends in the middle of something would be noticed here."""
    return not body.count(b'"""') % 2 and not body.count(b"'''") % 2


def _later(
    path: str, body: bytes, line: int, failed: Callable[[Exception], Exception]
) -> Callable[[], list[ast.stmt]]:
    """What parses a body that starts in a line."""

    def load() -> list[ast.stmt]:
        # A header in the line before, so that lines and columns are those of the file.
        text = b"\n" * (line - 2) + b"if 1:\n" + body + b"\n"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                (statement,) = ast.parse(text, filename=path).body
        except _FAILS as error:
            raise failed(error) from error
        return statement.body if isinstance(statement, ast.If) else []

    return load


def _functions(body: Iterable[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of a module and of its classes, also those that stand under a condition."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield statement
        elif isinstance(statement, ast.ClassDef):
            yield from _functions(statement.body)
        elif isinstance(statement, (ast.If, ast.Try, ast.With)):
            yield from _functions(statement.body)
            yield from _functions(getattr(statement, "orelse", []))
            for handler in getattr(statement, "handlers", []):
                yield from _functions(handler.body)


def _is_mark(statement: ast.stmt) -> bool:
    value = getattr(statement, "value", None)
    return isinstance(value, ast.Constant) and value.value is ...
