# SPDX-License-Identifier: Apache-2.0
"""Journal lines of the engine's unit: parsing, hiding secrets, and the phase that they tell."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

PHASES = ("starting", "loading", "memory", "compiling", "graphs", "draft", "warmup", "ready")
"""The phases of a start. `draft` is everything that a rank does after it began its second load."""

HIDDEN = "<hidden>"

# Quoted values first, so that a quote inside the value cannot end it early.
_VALUE = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s,'")&]+)"""
_SENSITIVE = r"[\w-]*(?:api[-_]?key|password|passwd|secret|(?:access|auth|hf|hub)[-_]token)"
_ASSIGNED = re.compile(
    rf"""(?P<name>['"]?{_SENSITIVE}['"]?)(?P<sep>\s*[=:]\s*|\s+)(?P<value>{_VALUE})""",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(?P<name>\bBearer)\s+[\w.~+/=-]+", re.IGNORECASE)
_HARMLESS = frozenset({"none", "null", "true", "false", "'none'", '"none"', "''", '""'})
# Code of a traceback, not a value: `api_key = server_args.api_key`, `api_key: Optional[str]`.
_CODE = re.compile(
    r"(?:self|cls|args|server_args|envs|os)(?:\.[A-Za-z_]\w*)+(?:[\[(].*)?"
    r"|str|int|float|bool|(?:Optional|Union|[Ll]ist)\[[\w\[\]|.]*"
)
_MIN_SECRET = 4

_LOG_PREFIX = re.compile(
    r"^\s*\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?P<rank>(?: (?:DP|PP|TP|EP|CP|MoE)?\w*\d+)*)\]\s*"
)
_LOAD_BEGINS = "Load weight begin"
# Messages of 0.5.9 to 0.5.23: phase, pattern, and the detail shown (its groups filled in).
_TELLTALES = tuple(
    (phase, re.compile(pattern), detail)
    for phase, pattern, detail in (
        ("ready", r"The server is fired up and ready to roll", ""),
        ("warmup", r"Uvicorn running on|Application startup complete", ""),
        ("graphs", r"Capture (.*?)(?:CUDA|cuda|CPU|cpu|device) graphs? (?:begin|bs)", r"\1"),
        ("graphs", r"Capturing (?:batches|num tokens).*? (\d{1,3})%\|", r"\1%"),
        ("compiling", r"Running FlashInfer autotune", ""),
        ("memory", r"KV Cache is allocated\b.*?#tokens: (\d+)", r"\1 tokens"),
        ("loading", r"[Ll]oading .*? (\d{1,3})% Completed", r"\1%"),
        ("loading", _LOAD_BEGINS, ""),
    )
)


@dataclass(frozen=True)
class Line:
    """One journal entry.

    `text` has no trailing blanks; a progress bar's carriage returns are resolved to what a
    terminal would show. `time` is in seconds since the epoch. `manager` is true for what systemd
    itself says about the unit.
    """

    text: str
    pid: int = 0
    time: float = 0.0
    manager: bool = False

    @property
    def message(self) -> str:
        """The text without the engine's own time stamp and rank."""
        return _LOG_PREFIX.sub("", self.text, count=1)

    @property
    def rank(self) -> str:
        """The rank in the engine's log prefix ("TP1", "DP0 TP3"), or an empty string."""
        found = _LOG_PREFIX.match(self.text)
        return found["rank"].strip() if found else ""

    @property
    def stamped(self) -> bool:
        """Whether the engine's logger wrote this line (it carries the logger's time stamp)."""
        return _LOG_PREFIX.match(self.text) is not None


def parse_line(raw: str) -> Line | None:
    """Read one line of `journalctl -o json`.

    journalctl writes a text that is not plain UTF-8 text (progress bars have carriage returns) as
    a list of byte values, a field longer than 4096 bytes as null, and a repeated field as a list
    of strings. Returns None for an entry without text: the long one is the engine's dump of its
    own arguments, API key included, and is best left unread.
    """
    try:
        entry = json.loads(raw)
    except ValueError:
        return None
    if not isinstance(entry, dict):
        return None
    text = _text(entry.get("MESSAGE"))
    if text is None:
        return None
    return Line(
        text=text,
        pid=_number(entry.get("_PID")),
        time=_number(entry.get("__REALTIME_TIMESTAMP")) / 1e6,
        manager=entry.get("_PID") == "1" or entry.get("SYSLOG_IDENTIFIER") == "systemd",
    )


def parse_lines(raws: Iterable[str]) -> list[Line]:
    """Read many lines of `journalctl -o json`, leaving out entries without text."""
    return [line for line in map(parse_line, raws) if line is not None]


def _text(message: Any) -> str | None:
    if isinstance(message, list):
        if message and all(isinstance(item, str) for item in message):
            message = message[-1]
        elif all(isinstance(item, int) for item in message):
            message = bytes(item & 0xFF for item in message).decode("utf-8", "replace")
    if not isinstance(message, str):
        return None
    shown = [part for part in message.split("\r") if part.strip()]
    return shown[-1].rstrip() if shown else ""


def _number(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Hide known secrets, and whatever stands where a secret usually stands.

    The engine logs its own arguments with `api_key='...'` in them (SGLang 0.5.9,
    managers/... `server_args=ServerArgs(...)`), and `/server_info` returns the same.
    """
    for secret in secrets:
        if len(secret) >= _MIN_SECRET:
            text = text.replace(secret, HIDDEN)
    text = _BEARER.sub(rf"\g<name> {HIDDEN}", text)
    return _ASSIGNED.sub(_hide_value, text)


def is_code(value: str) -> bool:
    """Whether what is assigned is an attribute or a type in a line of source, not a value."""
    return _CODE.fullmatch(value) is not None


def _hide_value(match: re.Match[str]) -> str:
    value, separator = match["value"], match["sep"]
    if value.lower() in _HARMLESS or HIDDEN in value or is_code(value):
        return match[0]
    if value.rstrip("]") == match["name"].lstrip("-").upper().replace("-", "_"):
        return match[0]  # the argument parser's usage: [--api-key API_KEY]
    if not separator.strip() and not match["name"].startswith("--"):
        return match[0]  # prose ("the api key is wrong") is not an assignment
    return f"{match['name']}{separator}{HIDDEN}"


@dataclass(frozen=True)
class Progress:
    """A phase of the start and a few words on how far it is."""

    phase: str
    detail: str = ""

    def __str__(self) -> str:
        """The words shown to the operator."""
        return f"{_WORDS[self.phase]}{': ' + self.detail if self.detail else ''}"


_WORDS = {
    "starting": "starting",
    "loading": "loading weights",
    "memory": "KV cache allocated",
    "compiling": "tuning kernels",
    "graphs": "capturing graphs",
    "draft": "draft model",
    "warmup": "warming up",
    "ready": "ready",
}


@dataclass
class PhaseTracker:
    """Follows the phases of one start.

    `times` maps a phase to the time at which it was first seen. Every rank loads the target and
    then the draft, so a second load by the same process is the draft's.
    """

    current: Progress = field(default_factory=lambda: Progress("starting"))
    times: dict[str, float] = field(default_factory=dict)
    _loads: dict[int, int] = field(default_factory=dict)
    _seen: set[Progress] = field(default_factory=set)

    def feed(self, line: Line) -> Progress | None:
        """Take one line; return the progress that it tells, if no rank told it before."""
        if line.manager:
            return None
        if _LOAD_BEGINS in line.text:
            self._loads[line.pid] = self._loads.get(line.pid, 0) + 1
        progress = self._progress(line)
        if progress is None or progress in self._seen:
            return None
        self._seen.add(progress)
        self.times.setdefault(progress.phase, line.time)
        self.current = progress
        return progress

    def durations(self, start: float, end: float) -> dict[str, float]:
        """Seconds spent in each phase that was seen, `start` and `end` being its bounds."""
        marks = sorted([(start, "starting"), *((t, p) for p, t in self.times.items())])
        # A phase counts from where it was first seen to the next phase's first sight.
        ends = [mark for mark, _phase in marks[1:]] + [end]
        spent = {
            phase: round(max(0.0, until - mark), 1)
            for (mark, phase), until in zip(marks, ends, strict=True)
        }
        spent.pop("ready", None)
        return spent

    def _progress(self, line: Line) -> Progress | None:
        text = line.message
        for phase, pattern, detail in _TELLTALES:
            if found := pattern.search(text):
                progress = Progress(phase, found.expand(detail).strip())
                if self._loads.get(line.pid, 0) > 1 and phase not in ("warmup", "ready"):
                    return Progress("draft", str(progress))
                return progress
        return None
