# SPDX-License-Identifier: Apache-2.0
"""A Python source file: its syntax tree, and the way back from a node to its bytes."""

from __future__ import annotations

import ast
import codecs
import functools
import itertools
import re
import sys
import tokenize
import warnings
from dataclasses import dataclass

from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import SourceError
from ansible_collections.sm120.sglang.plugins.module_utils._patch.outline import outline

# The largest source of SGLang 0.5.23 has 282 156 bytes (managers/scheduler.py). A syntax tree
# takes some hundred times the size of its text, so this also bounds the memory of a run.
MAX_BYTES = 1024 * 1024

# Far more than two lines of a source ever have.
_HEAD_BYTES = 64 * 1024

_TERMINATOR = re.compile(rb"\r\n|\r|\n")
_STATEFUL = (
    "iso2022",
    "hz",
    "utf_7",
    "utf-7",
    "utf_16",
    "utf-16",
    "utf_32",
    "utf-32",
    "idna",
    "punycode",
)


@dataclass(frozen=True, eq=False)
class Source:
    """One parsed file.

    Attributes:
        path: path inside the release, for messages.
        data: the bytes as they are on disk.
        encoding: codec of the text behind the byte order mark.
        tree: the syntax tree.
    """

    path: str
    data: bytes
    encoding: str
    tree: ast.Module

    @functools.cached_property
    def _walrus(self) -> bool:
        return b":=" in self.data or self.encoding != "utf-8"

    def walrus_in(self, statement: ast.stmt) -> bool:
        """An expression in a statement may bind a name."""
        return self._walrus and (self.encoding != "utf-8" or b":=" in self.lines(statement))

    def lines(self, statement: ast.stmt) -> bytes:
        """The lines of a statement; of a definition without its decorators."""
        last = (statement.end_lineno or statement.lineno) - 1
        return self.data[self.starts[statement.lineno - 1] : self.ends[last]]

    @functools.cached_property
    def _lines(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return split_lines(self.data, _mark(self.data))

    @property
    def starts(self) -> tuple[int, ...]:
        """Byte offset of each physical line."""
        return self._lines[0]

    @property
    def ends(self) -> tuple[int, ...]:
        """Byte offset of each line's end, its terminator excluded."""
        return self._lines[1]

    def offset(self, line: int, column: int) -> int:
        """Byte offset of a tree position (line from 1, column in UTF-8 bytes from 0)."""
        start = self.starts[line - 1]
        if self.encoding == "utf-8":
            return start + column
        text = self.data[start : self.ends[line - 1]].decode(self.encoding)
        prefix = text.encode("utf-8")[:column].decode("utf-8")
        return start + len(prefix.encode(self.encoding))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Byte range of a node."""
        end_line = node.end_lineno if node.end_lineno is not None else node.lineno
        end_column = node.end_col_offset if node.end_col_offset is not None else node.col_offset
        return self.offset(node.lineno, node.col_offset), self.offset(end_line, end_column)

    def code(self, node: ast.expr | ast.stmt) -> bytes:
        """The bytes of a node as written."""
        start, end = self.span(node)
        return self.data[start:end]

    def line(self, number: int) -> bytes:
        """A physical line (from 1) without its terminator."""
        return self.data[self.starts[number - 1] : self.ends[number - 1]]

    def line_of(self, offset: int) -> int:
        """Number (from 1) of the physical line that holds a byte offset."""
        low, high = 0, len(self.starts) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self.starts[middle] <= offset:
                low = middle
            else:
                high = middle - 1
        return low + 1

    def newline(self, number: int) -> bytes:
        """The terminator used at a line; that of the first line where it has none of its own."""
        for index in (number - 1, 0):
            following = self.starts[index + 1] if index + 1 < len(self.starts) else len(self.data)
            if following > self.ends[index]:
                return self.data[self.ends[index] : following]
        return b"\n"

    def encode(self, text: str) -> bytes:
        """Encode new text in the file's own encoding.

        Raises:
            SourceError: the encoding has no such character.
        """
        try:
            return text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise SourceError(
                f"{self.path}: the new text does not fit the file's encoding {self.encoding}",
                f"write the value in plain ASCII ({error.reason})",
            ) from error

    def at(self, node: ast.AST) -> str:
        """``file:line`` of a node, for evidence."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


def split_lines(data: bytes, start: int = 0) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Offsets of the lines' starts and ends, by the three terminators that Python knows."""
    lines = data[start:].splitlines(keepends=True)
    starts = list(itertools.accumulate(map(len, lines), initial=start))
    ends = [offset + len(line.rstrip(b"\r\n")) for offset, line in zip(starts, lines, strict=False)]
    if lines and not lines[-1].endswith((b"\r", b"\n")):
        starts.pop()
    else:
        ends.append(len(data))
    return tuple(starts), tuple(ends)


def _mark(data: bytes) -> int:
    """Length of a byte order mark."""
    return len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0


def decode(path: str, data: bytes) -> tuple[str, str, int]:
    """Read a source's bytes the way Python does.

    Returns:
        The text without byte order mark, its codec, and the length of the mark in bytes.

    Raises:
        SourceError: too large, an unknown or unsuitable codec, or bytes that are not of it.
    """
    if len(data) > MAX_BYTES:
        raise SourceError(
            f"{path}: {len(data)} bytes, more than the {MAX_BYTES} that a source may have",
            "look at what stands there: no SGLang release has such a file",
        )
    mark = _mark(data)
    try:
        encoding = _declared(data)
        text = data[mark:].decode(encoding)
    except (SyntaxError, LookupError) as error:
        raise SourceError(f"{path}: its encoding declaration is wrong: {error}") from error
    except UnicodeDecodeError as error:
        position = error.start + (mark if len(error.object) < len(data) else 0)
        line = len(_TERMINATOR.findall(data, 0, position)) + 1
        raise SourceError(
            f"{path}:{line}: byte 0x{data[position]:02x} is not {error.encoding}",
            "reinstall the release: the file is damaged",
        ) from error
    except UnicodeError as error:  # codecs that are no character sets raise this bare
        raise SourceError(f"{path}: its encoding declaration is wrong: {error}") from error
    if encoding.startswith(_STATEFUL) or not _comes_back(text, encoding, data[mark:]):
        raise SourceError(f"{path}: encoding {encoding} cannot be edited byte for byte")
    return text, encoding, mark


def _comes_back(text: str, encoding: str, data: bytes) -> bool:
    """Whether a codec gives the bytes back that it read."""
    try:
        return text.encode(encoding) == data
    except UnicodeError:
        return False


def _declared(data: bytes) -> str:
    """The codec that a source declares in its first two lines; UTF-8 without a declaration."""
    lines = iter(_TERMINATOR.split(data[:_HEAD_BYTES], maxsplit=2)[:2])
    try:
        found = tokenize.detect_encoding(lambda: next(lines, b"") + b"\n")[0]
    except SyntaxError:
        data.decode("utf-8")  # says which byte, where the bytes are the problem
        raise
    name = codecs.lookup(found).name
    return "utf-8" if name == "utf-8-sig" else name


def parse(path: str, data: bytes, *, outlined: bool = False) -> Source:
    """Parse a source file.

    Args:
        path: path inside the release.
        data: its bytes.
        outlined: leave the bodies of functions until they are looked at, where that can be done;
            what is wrong in one is raised there.

    Raises:
        SourceError: it cannot be decoded, or is not Python for the interpreter that runs this.
    """
    text, encoding, _ = decode(path, data)

    def not_valid(error: Exception) -> SourceError:
        return _not_valid(path, error)

    tree = outline(path, data, not_valid) if outlined and encoding == "utf-8" else None
    if tree is None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text, filename=path)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise not_valid(error) from error
    return Source(path, data, encoding, tree)


def _not_valid(path: str, error: Exception) -> SourceError:
    if isinstance(error, SyntaxError):
        return SourceError(
            f"{path}:{error.lineno or 1}: not valid for Python "
            f"{sys.version_info.major}.{sys.version_info.minor}: {error.msg}",
            "reinstall the release, or run this with the Python that the release asks for",
        )
    return SourceError(
        f"{path}: cannot be parsed: {error or type(error).__name__}",
        "reinstall the release: no SGLang source has this shape",
    )


def check_compiles(path: str, data: bytes) -> None:
    """Compile the bytes as Python would load them.

    Raises:
        SourceError: they do not compile.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(data, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SourceError(f"{path}: does not compile after the edit: {error}") from error
