# SPDX-License-Identifier: Apache-2.0
"""Looks at one engine from every side at once, within a few seconds, and changes nothing."""

from __future__ import annotations

import json
import shlex
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ansible_collections.sm120.sglang.plugins.module_utils._engine.advice import advised
from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import PhaseTracker
from ansible_collections.sm120.sglang.plugins.module_utils._engine.readiness import Answer, Ask
from ansible_collections.sm120.sglang.plugins.module_utils._engine.states import (
    ALONE,
    BROKEN,
    HUNG,
    READY,
    Asked,
    Load,
    Place,
    State,
    decide,
    place_of,
    read_load,
    release_of,
    was_served,
    was_told_to_end,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._node import NodeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.sm120.sglang.plugins.module_utils._engine.gate import KnownAnswer
    from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import Line
    from ansible_collections.sm120.sglang.plugins.module_utils._engine.signatures import Signature
    from ansible_collections.sm120.sglang.plugins.module_utils._engine.unit import UnitState
    from ansible_collections.sm120.sglang.plugins.plugin_utils._engine_http import EngineHTTP
    from ansible_collections.sm120.sglang.plugins.plugin_utils._node import Node
    from ansible_collections.sm120.sglang.plugins.plugin_utils._unit_reader import UnitReader

_COMMAND_TIMEOUT = 15.0
_NOT_FOUND, _UNAUTHORIZED = 404, 401
_SHORT = 8
_PROMPT = "The capital of France is"
_MARK = "--part--"
_PARTS = 7
# Everything else about the node in one command: its clock, the release, the cards.
_SCRIPT = """
date +%s
echo {mark}
readlink {root}/current
echo {mark}
ls -d {root}/current/venv/lib/python3.*/site-packages/sglang-*.dist-info 2>/dev/null
echo {mark}
cat {root}/current/patches.json 2>/dev/null
echo {mark}
ps -eo args= | grep '^sglang::'
echo {mark}
command -v nvidia-smi >/dev/null && timeout 4 nvidia-smi \
  --query-gpu=index,memory.used,memory.total,utilization.gpu,temperature.gpu,power.draw \
  --format=csv,noheader,nounits
echo {mark}
tr '\\0' '\\n' </proc/"$(systemctl show --property=MainPID --value {unit})"/cmdline 2>/dev/null
"""


@dataclass(frozen=True)
class Around:
    """What stands around the engine; `now` is the node's clock in seconds.

    `titles` are those of the engine's processes, `place` says which of its engine's nodes this is.
    """

    now: float = 0.0
    release: str = ""
    version: str = ""
    patches: tuple[str, ...] = ()
    gpus: tuple[dict[str, float | None], ...] = ()
    titles: tuple[str, ...] = ()
    place: Place = ALONE


@dataclass
class Found:
    """The outcome of a probe."""

    state: State
    unit: UnitState
    around: Around
    load: Load
    seconds: float
    version: str = ""
    problems: list[str] = field(default_factory=list)


def parse_around(text: str) -> Around:
    """Read the output of the script; a part that is missing or odd is left empty."""
    parts = [part.strip() for part in text.split(_MARK)]
    parts += [""] * (_PARTS - len(parts))
    packages = [name.rsplit("/", 1)[-1] for name in parts[2].split()]
    versions = [name.removeprefix("sglang-").removesuffix(".dist-info") for name in packages]
    return Around(
        now=float(parts[0]) if parts[0].isdigit() else 0.0,
        release=parts[1].rsplit("/", 1)[-1],
        version=versions[0] if versions else "",
        patches=_patches(parts[3]),
        gpus=tuple(_gpu(line) for line in parts[5].splitlines() if line.count(",") == 5),
        titles=tuple(line.split()[0] for line in parts[4].splitlines() if line.strip()),
        place=place_of(parts[6].splitlines()),
    )


def _patches(text: str) -> tuple[str, ...]:
    """Names of the patches that a release's record holds, wherever in it they stand."""
    names: set[str] = set()

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            name = value.get("patch")
            if isinstance(name, str):
                names.add(name)
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    try:
        walk(json.loads(text))
    except ValueError:
        return ()
    return tuple(sorted(names))


def _gpu(line: str) -> dict[str, float | None]:
    keys = ("index", "used_mib", "memory_mib", "busy_percent", "celsius", "watts")
    return dict(zip(keys, map(_number, line.split(",")), strict=True))


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None  # "[N/A]": this card does not say


def _with(state: State, phrase: str) -> State:
    return replace(state, why=f"{state.why}; {phrase}") if phrase else state


class ProbeRun:
    """One look at one engine."""

    def __init__(
        self,
        node: Node,
        http: EngineHTTP,
        reader: UnitReader,
        *,
        root: str,
        timeout: float,
        wanted: KnownAnswer | None = None,
        remedies: Sequence[Signature] = (),
    ) -> None:
        self._node = node
        self._http = http
        self._reader = reader
        self._root = root
        self._timeout = timeout
        self._wanted = wanted
        self._remedies = remedies

    def run(self) -> Found:
        """Look.

        Raises:
            NodeError: the node cannot be asked.
        """
        begun = time.monotonic()
        with ThreadPoolExecutor(max_workers=6) as pool:
            around = pool.submit(self._around)
            info = pool.submit(self._http.get, Ask.MODEL_INFO.value, self._timeout)
            unit = self._reader.state()
            problems: list[str] = []
            asked = Asked(model_info=info.result())
            up = asked.model_info is not None and asked.model_info.status != 0
            sent = self._send(pool, asked, around) if unit.running and up else {}
            lines, cause = self._told(unit, up=up, problems=problems)
            asked = replace(asked, **{name: one.result() for name, one in sent.items()})
        tracker = PhaseTracker()
        for line in lines:
            tracker.feed(line)
        # What a dead engine logged last is not what it does now.
        load = read_load(asked, lines) if unit.running else Load()
        beside = around.result()
        state = decide(
            unit,
            asked,
            load,
            served=was_served(lines),
            ending=was_told_to_end(lines),
            progress=str(tracker.current) if lines else "",
            cause=cause,
            wanted=self._wanted,
            titles=beside.titles,
            place=beside.place,
        )
        if unit.running and state.name != READY:
            now, before = self._history(state, unit, lines, problems)
            # The remedy of a death before this start is no advice about what this one does.
            state = _with(advised(_with(state, now)), before)
        if asked.completion is not None and asked.completion.unauthorized:
            problems.append(
                "the API key given here is not the engine's: nothing could be asked. Remedy: give "
                "the engine's own, or run the deployment, which restarts it with this one"
            )
        return Found(
            state,
            unit,
            beside,
            load,
            round(time.monotonic() - begun, 2),
            version=release_of(asked.server_info) or beside.version,
            problems=problems,
        )

    def _around(self) -> Around:
        script = _SCRIPT.format(
            mark=_MARK, root=shlex.quote(self._root), unit=shlex.quote(self._reader.unit)
        )
        return parse_around(
            self._node.run(["sh", "-c", script], timeout=_COMMAND_TIMEOUT, root=True).out
        )

    def _send(
        self, pool: ThreadPoolExecutor, asked: Asked, around: Future[Around]
    ) -> dict[str, Future[Answer]]:
        """The requests that an open port makes sense of, all at once."""
        info = asked.model_info
        # No engine lacks it, but the nodes of one that serve through its first node.
        if info is not None and info.status == _NOT_FOUND and around.result().place.rank:
            return {"confirm": pool.submit(self._http.get, Ask.HEALTH.value, self._timeout)}
        return {
            "confirm": pool.submit(self._confirm),
            "server_info": pool.submit(self._http.get, "/server_info", self._timeout),
            "metrics": pool.submit(self._http.get, "/metrics", self._timeout),
            "completion": pool.submit(self._complete, asked),
        }

    def _confirm(self) -> Answer:
        """`/ready` generates nothing; a release without it is asked `/health`."""
        answer = self._http.get(Ask.READY.value, self._timeout)
        if answer.status in (_NOT_FOUND, _UNAUTHORIZED):
            return self._http.get(Ask.HEALTH.value, self._timeout)
        return answer

    def _complete(self, asked: Asked) -> Answer:
        wanted = self._wanted
        if wanted is not None and wanted.messages:
            info = asked.model_info.body if asked.model_info else {}
            info = info if isinstance(info, dict) else {}
            body = {
                "model": info.get("served_model_name") or info.get("model_path") or "default",
                "messages": list(wanted.messages),
                "max_tokens": wanted.max_tokens,
                "temperature": 0,
            }
            return self._http.post("/v1/chat/completions", body, self._timeout)
        length = wanted.max_tokens if wanted else _SHORT
        sampling = {"temperature": 0, "max_new_tokens": length}
        text = wanted.prompt if wanted else _PROMPT
        return self._http.post(
            "/generate", {"text": text, "sampling_params": sampling}, self._timeout
        )

    def _told(self, unit: UnitState, *, up: bool, problems: list[str]) -> tuple[list[Line], str]:
        """The journal's part: all of a start or a death, the end of a serving engine's."""
        if not unit.invocation_id:
            return [], ""
        try:
            if unit.running:
                return self._reader.journal(unit.invocation_id, short=up), ""
            cause, lines = self._reader.explain(unit.invocation_id, unit, self._remedies)
        except NodeError as error:
            problems.append(f"the journal cannot be read: {error}")
            return [], ""
        return lines, cause.with_remedy

    def _history(
        self, state: State, unit: UnitState, lines: Sequence[Line], problems: list[str]
    ) -> tuple[str, str]:
        """What the logs tell of an engine that runs and does not serve: phrases for its line.

        Returns:
            Of this start, and of the death before it; empty where there is nothing to tell.
        """
        now = before = ""
        try:
            if state.name in (HUNG, BROKEN) and (one := self._reader.suspect(lines, unit)):
                now = f"its log tells a known fault: {one.with_remedy}"
            if unit.restarts:
                cause = self._reader.explain_before(unit, self._remedies)
                why = cause.with_remedy if cause else "not in the journal any more"
                times = "once" if unit.restarts == 1 else f"{unit.restarts} times"
                before = f"systemd has restarted it {times}, the death before this start: {why}"
        except NodeError as error:
            problems.append(f"the journal cannot be read: {error}")
        return now, before
