# SPDX-License-Identifier: Apache-2.0
"""Rule ``unified_diff``: lines at exactly the places that the diff names, or nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansible_collections.sm120.sglang.plugins.module_utils._patch.edits import Edit
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import SourceError
from ansible_collections.sm120.sglang.plugins.module_utils._patch.rules import (
    DiffRule,
    Hunk,
    HunkLine,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.source import (
    decode,
    split_lines,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.state import Decision, conflict

_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class DiffError(ValueError):
    """A diff is not a unified diff of one file.

    Args:
        line: line of the diff, from 1.
        problem: what is wrong there.
    """

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
        self.problem = problem


def parse_diff(text: str) -> tuple[Hunk, ...]:
    """Read a unified diff of one file.

    Raises:
        DiffError: the counts of a hunk are wrong, hunks overlap, or a line has no tag.
    """
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    hunks: list[Hunk] = []
    position = _skip_header(lines)
    drift = 0
    while position < len(lines):
        number = position + 1
        if not lines[position]:
            position += 1
            continue
        match = _HEADER.match(lines[position])
        if not match:
            raise DiffError(number, f"expected '@@ -a,b +c,d @@', found {lines[position]!r}")
        old, old_count, new, new_count = (int(group or "1") for group in match.groups())
        body, position = _hunk_body(lines, position + 1, old_count, new_count)
        # An empty side counts from the line before it.
        hunk = Hunk(old + (old_count == 0), new + (new_count == 0), body)
        if all(line.tag == " " for line in body):
            raise DiffError(number, "the hunk changes nothing")
        if not hunk.side("-") or not hunk.side("+"):
            raise DiffError(number, "the hunk has no context: nothing tells whether it was applied")
        if hunks and hunk.old_start < hunks[-1].old_start + len(hunks[-1].side("-")):
            raise DiffError(number, "the hunk overlaps the one before")
        if hunk.new_start - hunk.old_start != drift:
            raise DiffError(number, "old and new line numbers do not fit the hunks before")
        drift += len(hunk.side("+")) - len(hunk.side("-"))
        hunks.append(hunk)
    if not hunks:
        raise DiffError(1, "no hunk")
    return tuple(hunks)


def _skip_header(lines: Sequence[str]) -> int:
    position = 0
    while position < len(lines) and not lines[position].startswith("@@"):
        position += 1
    names = [line for line in lines[:position] if line.startswith(("--- ", "+++ "))]
    if len(names) > 2:
        raise DiffError(1, "more than one file: make one entry for each")
    return position


def _hunk_body(
    lines: Sequence[str], position: int, old_count: int, new_count: int
) -> tuple[tuple[HunkLine, ...], int]:
    body: list[HunkLine] = []
    while position < len(lines):
        line = lines[position]
        if line.startswith("\\"):
            if not body:
                raise DiffError(position + 1, "'\\' behind no line")
            body[-1] = HunkLine(body[-1].tag, body[-1].text, newline=False)
        elif old_count == 0 and new_count == 0:
            break
        else:
            tag, content = (line[0], line[1:]) if line else (" ", "")
            if tag not in {" ", "-", "+"}:
                raise DiffError(position + 1, f"no ' ', '-' or '+' before {line!r}")
            old_count -= tag != "+"
            new_count -= tag != "-"
            if old_count < 0 or new_count < 0:
                raise DiffError(position + 1, "more lines than the hunk's header says")
            body.append(HunkLine(tag, content))
        position += 1
    if old_count or new_count:
        raise DiffError(position, "fewer lines than the hunk's header says")
    return tuple(body), position


def decide_diff(path: str, data: bytes, rule: DiffRule) -> Decision:
    """Decide whether the old or the new side of a diff stands in the file.

    Raises:
        SourceError: the file cannot be decoded.
    """
    _, encoding, mark = decode(path, data)
    starts, ends = split_lines(data, mark)
    lines = [data[start:end] for start, end in zip(starts, ends, strict=True)]
    old_miss = _mismatch(path, lines, rule, "-", encoding)
    new_miss = _mismatch(path, lines, rule, "+", encoding)
    here = f"{path}:{rule.hunks[0].old_start}"
    if not old_miss and not new_miss:
        return conflict("the old and the new lines of the diff both fit: not certain which", here)
    if not new_miss:
        return Decision("upstream", "the diff's new lines stand in the file already", (here,))
    if old_miss:
        return conflict("the diff does not fit this release", old_miss)
    edits = tuple(_hunk_edit(data, starts, ends, hunk, encoding) for hunk in rule.hunks)
    return Decision("needed", "the diff's old lines stand in the file", (here,), edits)


def _mismatch(path: str, lines: Sequence[bytes], rule: DiffRule, tag: str, encoding: str) -> str:
    """The first line that is not as one side of the diff says; empty where all are."""
    # The last element is what follows the last terminator: nothing, if the file ends with one.
    count = len(lines) - (lines[-1] == b"")
    for hunk in rule.hunks:
        side = hunk.side(tag)
        first = (hunk.old_start if tag == "-" else hunk.new_start) - 1
        for index, line in enumerate(side, start=first):
            found = lines[index] if index < count else None
            if found != _encoded(path, line.text, encoding):
                shown = "the end of the file" if found is None else repr(found.decode(encoding))
                return f"{path}:{index + 1} expected {line.text!r}, found {shown}"
            if (index == len(lines) - 1) == line.newline:
                return f"{path}:{index + 1} newline at the end of the file is not as in the diff"
        if _ends_file(hunk) and first + len(side) != count:
            return f"{path}:{first + len(side)} expected the end of the file behind this line"
    return ""


def _ends_file(hunk: Hunk) -> bool:
    """Whether a hunk stands at the end of its file: its context behind is cut short there."""
    tags = [line.tag for line in hunk.lines]
    changes = [index for index, tag in enumerate(tags) if tag != " "]
    return len(tags) - 1 - changes[-1] < changes[0]


def _encoded(path: str, text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        raise SourceError(f"{path}: the diff does not fit the encoding {encoding}") from error


def _hunk_edit(
    data: bytes, starts: Sequence[int], ends: Sequence[int], hunk: Hunk, encoding: str
) -> Edit:
    """Replace a hunk's lines; context keeps its bytes, new lines take the terminator there."""
    first = hunk.old_start - 1
    terminator = b"\n"
    for index in (first, 0):
        if index + 1 < len(starts):
            terminator = data[ends[index] : starts[index + 1]]
            break
    old, new, index = b"", b"", first
    begin = starts[first] if first < len(starts) else len(data)
    for line in hunk.lines:
        if line.tag == "+":
            new += line.text.encode(encoding) + (terminator if line.newline else b"")
            continue
        behind = starts[index + 1] if index + 1 < len(starts) else len(data)
        raw = data[starts[index] : behind]
        old += raw
        new += raw if line.tag == " " else b""
        index += 1
    return Edit(begin, old, new)
