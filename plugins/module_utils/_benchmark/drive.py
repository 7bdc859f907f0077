# SPDX-License-Identifier: Apache-2.0
"""Run the release's own load generator, and see what its requests say of speculation.

A program of its own: runs as the engine's user with the release's Python, from a file. Its one
argument is a JSON list, the load generator's arguments. The last line of output, behind the marker,
is one JSON answer: `module` (which was run), `status`, `raw` (the line of its own output file, but
for what is private), `requests` (of each request its last figures of speculation), and `window`
(when the first and the last answer was read, seconds since 1970, null without one).

The load generator reads `meta_info` of every answer and drops it, and the accept length that it
reports is the server's average since its start (0.5.9 bench_serving.py:2546, 0.5.23
benchmark/serving.py:1654). So the JSON readers that it uses are listened to; it is not edited.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import json
import runpy
import sys
import time
import traceback
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MARKER = "sm120-benchmark:"
# Since 0.5.23 the second is deprecated; before, the first is not there.
MODULES = ("sglang.benchmark.serving", "sglang.bench_serving")
_READERS = ("json", "orjson")
# The server's arguments hold its keys (0.5.9 http_server.py:605); answers may be an operator's own.
PRIVATE = ("server_info", "generated_texts")
_SPARED = ("datasets",)
# As `_engine.gate` names them; this program runs where that module is not.
VERIFIED = "spec_verify_ct"
ACCEPTED = ("spec_accept_token_num", "spec_num_correct_drafts", "spec_accepted_drafts")


def module_name() -> str:
    """The load generator that this release has."""
    for name in MODULES:
        package = name.rpartition(".")[0]
        if importlib.util.find_spec(package) and importlib.util.find_spec(name):
            return name
    raise ModuleNotFoundError(f"this release has none of {', '.join(MODULES)}")


@dataclass
class Heard:
    """What the answers said: by request its last figures, and when the first and last came."""

    requests: dict[str, dict[str, int]] = field(default_factory=dict)
    window: tuple[float, float] | None = None


def note(data: Any, heard: Heard) -> None:
    """Keep the figures of one answer, which replace those of the same request before."""
    meta = data.get("meta_info") if isinstance(data, dict) else None
    if isinstance(meta, dict) and "id" in meta:
        found = {
            name: int(meta[name]) for name in (VERIFIED, *ACCEPTED) if meta.get(name) is not None
        }
        heard.requests[str(meta["id"])] = found
        now = time.time()
        heard.window = (heard.window[0] if heard.window else now, now)


def listen(heard: Heard) -> None:
    """Have every JSON text that is read from now on noted as well."""
    for name in _READERS:
        if importlib.util.find_spec(name):
            reader = importlib.import_module(name)
            reader.loads = _noting(reader.loads, heard)  # type: ignore[attr-defined]


def _noting(loads: Callable[..., Any], heard: Heard) -> Callable[..., Any]:
    def noted(*words: Any, **named: Any) -> Any:
        data = loads(*words, **named)
        note(data, heard)
        return data

    return noted


def spare_imports() -> None:
    """Let the load generator be imported without what other data sets than ours are read with.

    0.5.9 imports `datasets` at its top (bench_serving.py:42); a small stack has no such package.
    """
    for name in _SPARED:
        if importlib.util.find_spec(name) is None:
            empty = types.ModuleType(name)
            # transformers asks for the specification, and finds no version to it.
            empty.__spec__ = importlib.machinery.ModuleSpec(name, None)
            empty.load_dataset = None  # type: ignore[attr-defined]
            sys.modules[name] = empty


def public(line: str) -> dict[str, Any]:
    """A line of the output file without what must not leave the node."""
    found: dict[str, Any] = json.loads(line)
    return {key: value for key, value in found.items() if key not in PRIVATE}


def run(arguments: list[str]) -> dict[str, Any]:
    """Run it to its end."""
    place = Path.home() / "raw.jsonl"
    heard = Heard()
    answer: dict[str, Any] = {"module": "", "status": 1, "raw": {}}
    warnings.simplefilter("ignore")
    try:
        answer["module"] = module_name()
        sys.argv = [answer["module"], *arguments, "--output-file", str(place), "--output-details"]
        spare_imports()
        listen(heard)
        runpy.run_module(answer["module"], run_name="__main__", alter_sys=True)
        answer["status"] = 0
    except SystemExit as end:
        answer["status"] = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException as error:
        traceback.print_exc()
        answer["error"] = f"{type(error).__name__}: {error}"[:2000]
    answer["requests"], answer["window"] = list(heard.requests.values()), heard.window
    lines = place.read_text(encoding="utf-8").splitlines() if place.is_file() else []
    if lines:
        answer["raw"] = public(lines[-1])
    return answer


if __name__ == "__main__":
    print("\n" + MARKER + json.dumps(run(json.loads(sys.argv[1]))), flush=True)
