# SPDX-License-Identifier: Apache-2.0
"""What became of each request that a client made while engines were switched. Pure: no I/O."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Outcome(Enum):
    """How a request ended, as its client saw it."""

    ANSWERED = "answered"  # whole, and the answer is the known one
    WRONG = "wrong"  # whole, and the answer is another one
    REFUSED = "refused"  # nothing was promised: no connection, or 503
    CUT = "cut"  # an error after the request was taken
    FAILED = "failed"  # the engine said that it failed, by another status than 503
    TIMEOUT = "timeout"  # no end within the client's limit
    LOST = "lost"  # no end at all: the record was never closed


class Trouble(Enum):
    """What the connection did, where it did not end as it should."""

    NONE = ""
    REFUSED = "connection refused"
    BROKEN = "connection broken"
    TIMEOUT = "time limit"


UNAVAILABLE = 503
# With these the engine says that it said all it was asked for.
_WHOLE = ("length", "stop")


@dataclass(frozen=True)
class Seen:
    """What a client saw of one request.

    Attributes:
        status: HTTP status; 0 without one.
        text: The answer's text.
        finish: Its finish reason; empty when none came.
        error: What the engine said in place of an answer, or in the middle of a stream.
        trouble: What the connection did.
    """

    status: int = 0
    text: str = ""
    finish: str = ""
    error: str = ""
    trouble: Trouble = Trouble.NONE


def classify(seen: Seen, expected: str) -> Outcome:
    """Judge one request.

    Args:
        seen: What its client saw.
        expected: The one right answer; blanks around it do not count.

    Returns:
        Any outcome but `LOST`, which is a record without an end.
    """
    if seen.trouble is Trouble.TIMEOUT:
        return Outcome.TIMEOUT
    if seen.trouble is Trouble.REFUSED or (seen.status == UNAVAILABLE and not seen.text):
        return Outcome.REFUSED
    # Without a status the request was sent, and nobody said what became of it.
    if seen.trouble is Trouble.BROKEN or not seen.status:
        return Outcome.CUT
    if seen.status != 200:
        return Outcome.FAILED
    if seen.error or seen.finish not in _WHOLE:
        return Outcome.CUT
    return Outcome.ANSWERED if seen.text.strip() == expected.strip() else Outcome.WRONG


@dataclass(frozen=True)
class Record:
    """One request; times in seconds since the epoch.

    Attributes:
        number: Its number, in the order of starts.
        kind: Which question, and whether it was streamed.
        start: When the client began.
        end: When it knew the outcome; None as long as it does not.
        outcome: How it ended.
        detail: For people: what was seen where it was not answered.
    """

    number: int
    kind: str
    start: float
    end: float | None = None
    outcome: Outcome = Outcome.LOST
    detail: str = ""

    @property
    def seconds(self) -> float:
        """How long it took; 0.0 without an end."""
        return (self.end or self.start) - self.start

    def line(self) -> str:
        """The record as one line of JSON."""
        return json.dumps({**asdict(self), "outcome": self.outcome.value})


def read(lines: Iterable[str]) -> list[Record]:
    """Read lines of records; of two with one number the later one counts.

    Returns:
        The records by number; one that was never closed is `LOST`.
    """
    found: dict[int, Record] = {}
    for line in lines:
        fields: dict[str, Any] = json.loads(line)
        record = Record(**{**fields, "outcome": Outcome(fields["outcome"])})
        found[record.number] = record
    return [found[number] for number in sorted(found)]


def broken(records: Iterable[Record]) -> list[Record]:
    """Requests that ended as none may whose client's proxy reads the engine's health."""
    return [r for r in records if r.outcome not in (Outcome.ANSWERED, Outcome.REFUSED)]


@dataclass(frozen=True)
class Switch:
    """When systemd stopped one engine and started the next; seconds since the epoch."""

    stopping: float
    stopped: float
    started: float

    @property
    def drain(self) -> float:
        """Seconds in which running requests were finished and the processes ended."""
        return self.stopped - self.stopping

    @property
    def between(self) -> float:
        """Seconds in which no engine ran."""
        return self.started - self.stopped


_STOPPING = "de5b426a63be47a7b6ac3eaac82e2f6f"
_STOPPED = "9d1aaa27d60140bd96365438aad20286"
_STARTED = "39f53479d3a045ac8e11786248231fbf"


def switches(journal: Iterable[str]) -> list[Switch]:
    """Find the switches in systemd's own messages about a unit.

    Args:
        journal: `journalctl -o json`, one object a line. The messages are known by their ids, see
            sd-messages.h of systemd: SD_MESSAGE_UNIT_STOPPING, _STOPPED and _STARTED.

    Returns:
        The switches, oldest first; a first start is none.
    """
    found, moments = [], {}
    for line in journal:
        entry = json.loads(line)
        identity = entry.get("MESSAGE_ID", "")
        moment = int(entry["__REALTIME_TIMESTAMP"]) / 1e6
        if identity in (_STOPPING, _STOPPED):
            moments[identity] = moment
        elif identity == _STARTED:
            if _STOPPING in moments and _STOPPED in moments:
                found.append(Switch(moments[_STOPPING], moments[_STOPPED], moment))
            moments = {}
    return found


@dataclass(frozen=True)
class Account:
    """What the clients met in one step; times in seconds.

    Attributes:
        outcomes: How many requests ended how; all outcomes are named.
        old: Answers of the engine that was stopped.
        drained: Those of them that came after it was asked to stop.
        new: Answers of the engine that was started.
        downtime: From the last answer of the old engine to the first one of the new one; None
            when either never came.
        slowest_refusal: The longest time in which a client was left without a "no".
        slowest_answer: The longest time to a right answer.
    """

    outcomes: Mapping[str, int]
    old: int
    drained: int
    new: int
    downtime: float | None
    slowest_refusal: float
    slowest_answer: float


def account(records: Sequence[Record], switch: Switch) -> Account:
    """Sum up the requests around one switch.

    The two engines never run at the same time, so the moment of an answer tells whose it is.
    """
    answered = [r for r in records if r.outcome is Outcome.ANSWERED and r.end is not None]
    old = sorted(r.end for r in answered if r.end is not None and r.end < switch.started)
    new = sorted(r.end for r in answered if r.end is not None and r.end >= switch.started)
    counted = Counter(record.outcome.value for record in records)
    refused = [record.seconds for record in records if record.outcome is Outcome.REFUSED]
    return Account(
        outcomes={outcome.value: counted[outcome.value] for outcome in Outcome},
        old=len(old),
        drained=sum(end >= switch.stopping for end in old),
        new=len(new),
        downtime=new[0] - old[-1] if old and new else None,
        slowest_refusal=max(refused, default=0.0),
        slowest_answer=max((record.seconds for record in answered), default=0.0),
    )
