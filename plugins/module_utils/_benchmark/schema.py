# SPDX-License-Identifier: Apache-2.0
"""The document of one benchmark of one node: what was measured, on which stack, how it went.

It is stored as JSON, on the node and on the controller, and is all that statistics, decision and
report read. `from_json` is strict: an unknown field, a missing one, a figure out of its range, a
run of a setting that is not listed, all are refused with the path of the field. Fields that may be
null may also be left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.decode import (
    SchemaError,
    decode,
)

SCHEMA = 1
OFF = "off"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_FINGERPRINT = re.compile(r"[0-9a-f]{12}")
_ID = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True)
class Meaning:
    """Whether the figures say anything about real hardware.

    Attributes:
        figures: False on the lab: its kernels are CPU stand-ins and its model is tiny.
        reason: Why they mean nothing; empty where they do.
    """

    figures: bool
    reason: str = ""


@dataclass(frozen=True)
class Stack:
    """What served.

    Attributes:
        fingerprint: Of all that shapes speed but speculation; settings and results compare as
            those of one stack where it is the same.
        release: The release's id on the node.
        stack: The stack's name.
        sglang: Its version.
        gpu: Name of the GPUs; null without any.
        gpu_count: How many of them serve.
        patches: Ids of the patches that are in the release.
        arguments: Launch arguments, speculation's own included, as they were configured.
        environment: What shapes speed in the engine's environment, NCCL's above all.
        model: Name of the target model.
        draft_model: Name of the draft model; null without one.
    """

    fingerprint: str
    release: str
    stack: str
    sglang: str
    torch: str | None = None
    cuda: str | None = None
    driver: str | None = None
    gpu: str | None = None
    gpu_count: int = 0
    patches: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    draft_model: str | None = None


@dataclass(frozen=True)
class Check:
    """One line of preflight's summary; `verdict` is its own word (ok, warn, fail, ...)."""

    check: str
    verdict: str
    text: str = ""


@dataclass(frozen=True)
class Draft:
    """How speculation drafts, in the words of the engine's launch arguments."""

    num_steps: int
    eagle_topk: int
    num_draft_tokens: int
    algorithm: str = "EAGLE3"


@dataclass(frozen=True)
class Setting:
    """One way to serve: `off`, or speculation with a draft setting.

    Attributes:
        id: `off` without speculation; used in file names.
        label: For people, such as `EAGLE-3 3/1/4`.
        speculation: Whether it drafts; then `draft` is given, else null.
    """

    id: str
    label: str
    speculation: bool
    draft: Draft | None = None


@dataclass(frozen=True)
class Point:
    """One load: so many requests of such lengths, so many of them at a time."""

    id: str
    concurrency: int
    input_tokens: int
    output_tokens: int
    dataset: str
    requests: int


@dataclass(frozen=True)
class Latency:
    """Distribution of a latency over the requests or tokens of one run, in milliseconds."""

    mean: float
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True)
class Accept:
    """Speculation in this run alone.

    Attributes:
        length: Tokens a verify step, bonus token included; at least 1.
        accepted: Draft tokens accepted in this run; null where the release has no counter of them.
        verify_steps: Verify steps in this run; null likewise.
        source: Where it was read.
    """

    length: float
    accepted: int | None
    verify_steps: int | None
    source: str


@dataclass(frozen=True)
class Reading:
    """Samples of a gauge during a run."""

    median: float
    max: float


@dataclass(frozen=True)
class Gpu:
    """GPU gauges during a run, over all GPUs that serve; each null where it cannot be read."""

    power_w: Reading | None = None
    sm_clock_mhz: Reading | None = None
    temperature_c: Reading | None = None


@dataclass(frozen=True)
class Run:
    """One repeat of one point under one setting.

    Attributes:
        setting: Id of the setting.
        point: Id of the point.
        repeat: Which repeat, from 1.
        order: Its place in the order of all runs, from 1.
        state: `ok`, `failed` (tried, no usable figures) or `skipped` (not tried).
        reason: Why it failed or was skipped.
        started: UTC, ISO 8601; null where it was not tried.
        duration_s: Seconds from the first request to the last answer.
        completed: Requests that were answered in full.
        failed: Requests that were not.
        output_tok_s: Output tokens of all requests by `duration_s`.
        request_tok_s: Median over the requests of a request's own output rate.
        ttft_ms: Time to first token.
        itl_ms: Time between tokens; null where an answer is one token.
        accept: Null without speculation.
        kv_use: Highest used share of the KV pool, 0 to 1.
        gpu: Gauges of the GPUs.
        raw: Name of the raw output, relative to the document's folder; empty without one.
    """

    setting: str
    point: str
    repeat: int
    order: int
    state: Literal["ok", "failed", "skipped"]
    reason: str = ""
    started: str | None = None
    duration_s: float | None = None
    completed: int = 0
    failed: int = 0
    output_tok_s: float | None = None
    request_tok_s: float | None = None
    ttft_ms: Latency | None = None
    itl_ms: Latency | None = None
    accept: Accept | None = None
    kv_use: float | None = None
    gpu: Gpu | None = None
    raw: str = ""


@dataclass(frozen=True)
class Document:
    """One benchmark of one node.

    Attributes:
        schema: Version of this schema.
        node: The node's name in the inventory.
        started: UTC, ISO 8601.
        finished: The same.
        configured: Id of the setting that served before and serves again; null where it is none
            of those measured.
        settings: Those to measure, `off` first where it is one of them.
        points: In the order of the report.
        runs: Every planned run, whatever became of it.
    """

    schema: int
    node: str
    started: str
    finished: str
    meaning: Meaning
    stack: Stack
    settings: tuple[Setting, ...]
    points: tuple[Point, ...]
    runs: tuple[Run, ...]
    preflight: tuple[Check, ...] = ()
    configured: str | None = None


def from_json(data: object) -> Document:
    """Read a document.

    Args:
        data: What `json.loads` gave.

    Raises:
        SchemaError: the document does not fit; the message begins with the path of the field.
    """
    if isinstance(data, dict) and data.get("schema", SCHEMA) != SCHEMA:
        raise SchemaError(f"schema: is {data['schema']!r}, this version reads {SCHEMA}")
    document: Document = decode(Document, data, "")
    _check(document)
    return document


def to_json(document: Document) -> dict[str, Any]:
    """A document as plain JSON values, every field written out.

    Raises:
        SchemaError: the document could not be read again.
    """
    plain: dict[str, Any] = json.loads(json.dumps(asdict(document)))
    from_json(plain)
    return plain


def loads(text: str) -> Document:
    """Read a stored document.

    Raises:
        SchemaError: it is no JSON, or does not fit the schema.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise SchemaError(f"not JSON: {error}") from error
    return from_json(data)


def dumps(document: Document) -> str:
    """A document as text to store.

    Raises:
        SchemaError: the document could not be read again.
    """
    return json.dumps(to_json(document), indent=1, ensure_ascii=False) + "\n"


def _check(document: Document) -> None:
    """What types alone do not say."""
    _refuse(not document.node, "node", "empty")
    for name, value in (("started", document.started), ("finished", document.finished)):
        _time(value, name)
    _refuse(
        not _FINGERPRINT.fullmatch(document.stack.fingerprint),
        "stack.fingerprint",
        f"is {document.stack.fingerprint!r}, not 12 hexadecimal digits",
    )
    _refuse(document.stack.gpu_count < 0, "stack.gpu_count", "is negative")
    settings = _unique("settings", (one.id for one in document.settings))
    points = _unique("points", (one.id for one in document.points))
    for index, setting in enumerate(document.settings):
        _check_setting(setting, f"settings[{index}]")
    for index, point in enumerate(document.points):
        for name in ("concurrency", "input_tokens", "output_tokens", "requests"):
            value = getattr(point, name)
            _refuse(value < 1, f"points[{index}].{name}", f"is {value}, not at least 1")
    _refuse(
        document.configured is not None and document.configured not in settings,
        "configured",
        f"{document.configured!r} is no listed setting",
    )
    seen: set[tuple[str, str, int]] = set()
    for index, run in enumerate(document.runs):
        where = f"runs[{index}]"
        _refuse(run.setting not in settings, f"{where}.setting", f"{run.setting!r} is not listed")
        _refuse(run.point not in points, f"{where}.point", f"{run.point!r} is not listed")
        key = (run.setting, run.point, run.repeat)
        _refuse(key in seen, f"{where}.repeat", f"{run.repeat} is there twice")
        seen.add(key)
        _check_run(run, where)


def _check_setting(setting: Setting, where: str) -> None:
    _refuse(
        setting.speculation != (setting.draft is not None),
        f"{where}.draft",
        "is given with speculation and null without",
    )
    _refuse(
        setting.speculation == (setting.id == OFF), f"{where}.id", f"{OFF!r} is without speculation"
    )
    if setting.draft is not None:
        for name in ("num_steps", "eagle_topk", "num_draft_tokens"):
            value = getattr(setting.draft, name)
            _refuse(value < 1, f"{where}.draft.{name}", f"is {value}, not at least 1")


def _check_run(run: Run, where: str) -> None:
    _refuse(run.repeat < 1 or run.order < 1, f"{where}.repeat", "repeat and order start at 1")
    _refuse(run.completed < 0 or run.failed < 0, f"{where}.completed", "is negative")
    if run.started is not None:
        _time(run.started, f"{where}.started")
    if run.state == "ok":
        for name in ("duration_s", "output_tok_s", "request_tok_s", "ttft_ms"):
            _refuse(getattr(run, name) is None, f"{where}.{name}", "missing in a run that is ok")
    else:
        _refuse(not run.reason, f"{where}.reason", f"missing in a run that is {run.state}")
    for name in ("duration_s", "output_tok_s", "request_tok_s"):
        value = getattr(run, name)
        _refuse(value is not None and value <= 0, f"{where}.{name}", f"is {value}, not above 0")
    for name in ("ttft_ms", "itl_ms"):
        latency = getattr(run, name)
        _refuse(
            latency is not None and min(asdict(latency).values()) < 0,
            f"{where}.{name}",
            "is negative",
        )
    if run.accept is not None:
        _refuse(run.accept.length < 1, f"{where}.accept.length", "is below 1")
    if run.kv_use is not None:
        _refuse(not 0 <= run.kv_use <= 1, f"{where}.kv_use", f"is {run.kv_use}, not 0 to 1")


def _unique(path: str, ids: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    for index, one in enumerate(ids):
        _refuse(not _ID.fullmatch(one), f"{path}[{index}].id", f"{one!r} is no file name")
        _refuse(one in seen, f"{path}[{index}].id", f"{one!r} is there twice")
        seen.add(one)
    return seen


def _time(value: str, path: str) -> None:
    _refuse(not _TIME.fullmatch(value), path, f"is {value!r}, not like 2026-11-30T23:59:59Z")


def _refuse(wrong: bool, path: str, what: str) -> None:
    if wrong:
        raise SchemaError(f"{path}: {what}")
