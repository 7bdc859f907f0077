# SPDX-License-Identifier: Apache-2.0
"""Import the release's real wrapper class and see its methods reach the inner object.

Runs in a process of its own, with the release's Python: reads one JSON job from standard input,
writes one JSON answer behind a marker line (the engine itself may print as well).
"""

from __future__ import annotations

import importlib
import importlib.machinery
import json
import os
import sys
from collections.abc import Mapping
from types import CodeType
from typing import Any


class Inner:
    """An inner object that remembers calls and answers each with a value of its own."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[object, ...], dict[str, object]]] = []
        self.answer = object()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def method(*args: object, **kwargs: object) -> object:
            self.calls.append((name, args, kwargs))
            return self.answer

        return method


def forwards(wrapper: Any, inner: Inner, method: Mapping[str, Any]) -> str:
    """Call one method; say how it fails to reach the inner object, ``""`` where it does not fail.

    Args:
        wrapper: the object.
        inner: the inner object that it holds.
        method: ``name``, ``positional`` count, ``keywords`` names.
    """
    args = tuple(object() for _ in range(method["positional"]))
    kwargs = {name: object() for name in method["keywords"]}
    inner.calls.clear()
    answer = getattr(wrapper, method["name"])(*args, **kwargs)
    if inner.calls != [(method["name"], args, kwargs)]:
        return f"{method['name']} does not hand its arguments on"
    if answer is not inner.answer:
        return f"{method['name']} does not hand the answer back"
    return ""


def overlay(sources: Mapping[str, str]) -> None:
    """Load modules from other files than their own: the planned bytes instead of those on disk."""
    original = importlib.machinery.SourceFileLoader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, fullname: str) -> CodeType | None:
        planned = sources.get(self.path)
        if planned is None:
            return original(self, fullname)
        with open(planned, "rb") as stream:  # noqa: PTH123 - keeps the probe's own imports few
            return compile(stream.read(), self.path, "exec", dont_inherit=True)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[assignment,method-assign]


def check(job: Mapping[str, Any]) -> dict[str, Any]:
    """Import the class and call its methods.

    Returns:
        ``ran``: the import succeeded; ``why``: what is wrong, ``""`` for nothing; ``inner``: the
        inner classes by name, each with the methods that it has.
    """
    overlay(job["overlay"])
    sys.path.insert(0, job["site"])
    try:
        module = importlib.import_module(job["module"])
    except Exception as error:
        return {"ran": False, "why": f"{type(error).__name__}: {error}"[:400], "inner": {}}
    if os.path.realpath(str(module.__file__)) != job["file"]:
        return {"ran": False, "why": f"it imports {module.__file__} instead", "inner": {}}
    wrapper_class = getattr(module, job["class"])
    names = [method["name"] for method in job["methods"]]
    inner = {
        name: [method for method in names if hasattr(getattr(module, name, None), method)]
        for name in job["inner"]
    }
    lacking = [name for name in names if not callable(getattr(wrapper_class, name, None))]
    if lacking:
        return {"ran": True, "why": f"{job['class']} lacks {', '.join(lacking)}", "inner": inner}
    wrapper, probe = wrapper_class.__new__(wrapper_class), Inner()
    wrapper.__dict__[job["target"]] = probe
    failures = [forwards(wrapper, probe, method) for method in job["methods"]]
    return {"ran": True, "why": "; ".join(filter(None, failures)), "inner": inner}


def main() -> int:
    """Answer one job."""
    answer = check(json.load(sys.stdin))
    sys.stdout.write(f"\n{sys.argv[1]}\n{json.dumps(answer)}\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
