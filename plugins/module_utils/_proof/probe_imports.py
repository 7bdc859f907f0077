# SPDX-License-Identifier: Apache-2.0
"""Import a release's compiled packages and use every GPU once, all at the same time.

A program of its own: runs as the engine's user with the release's Python, from a file. Its one
argument is a JSON job: `modules` (names to import), `gpu` (whether to use GPUs). Each line of
output behind the marker is one JSON answer; the last line of a crash tells the step it died in.
"""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import json
import sys
import threading
import time
from typing import Any

MARKER = "sm120-proof:"
ELEMENTS = 1 << 20


def say(answer: dict[str, Any]) -> None:
    """Print one answer."""
    print(MARKER + json.dumps(answer), flush=True)


def import_one(name: str) -> dict[str, Any]:
    """Import a module; the answer has `error` and the exception's `type` when that fails."""
    say({"step": "import", "module": name})
    began = time.monotonic()
    try:
        module = importlib.import_module(name)
    except BaseException as error:
        return {"module": name, "type": type(error).__name__, "error": str(error)[:4000]}
    return {
        "module": name,
        "version": str(getattr(module, "__version__", "")),
        "seconds": round(time.monotonic() - began, 2),
    }


def use_gpu(torch: Any, index: int, answers: list[dict[str, Any]]) -> None:
    """Compute something on one GPU and compare with the known result."""
    answer: dict[str, Any] = {"gpu": index}
    answers.append(answer)
    try:
        device = torch.device("cuda", index)
        answer["name"] = torch.cuda.get_device_name(device)
        answer["capability"] = list(torch.cuda.get_device_capability(device))
        numbers = torch.arange(ELEMENTS, dtype=torch.float64, device=device)
        total = float((numbers * 2 + 1).sum().item())
        square = torch.ones((256, 256), dtype=torch.bfloat16, device=device)
        product = float((square @ square).float().sum().item())
        answer["right"] = total == float(ELEMENTS) ** 2 and product == 256.0**3
    except BaseException as error:
        answer["error"] = f"{type(error).__name__}: {error}"[:2000]


def use_gpus(torch: Any) -> dict[str, Any]:
    """Use all GPUs at once: a power or bus problem shows only then."""
    say({"step": "gpus"})
    began = time.monotonic()
    answers: list[dict[str, Any]] = []
    threads = [
        threading.Thread(target=use_gpu, args=(torch, index, answers), daemon=True)
        for index in range(torch.cuda.device_count())
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {
        "gpus": sorted(answers, key=lambda answer: int(answer["gpu"])),
        "architectures": torch.cuda.get_arch_list(),
        "cuda": torch.version.cuda,
        "seconds": round(time.monotonic() - began, 2),
    }


def use_triton(torch: Any) -> dict[str, Any]:
    """Compile a kernel with Triton and run it; a crash here has hit capability 12 before."""
    say({"step": "triton"})
    triton = importlib.import_module("triton")
    tl = importlib.import_module("triton.language")

    # Triton reads the annotations too, and takes none but its own.
    def double(source, target, size: tl.constexpr):  # type: ignore[no-untyped-def,name-defined]
        index = tl.arange(0, size)
        tl.store(target + index, tl.load(source + index) * 2)

    # Triton finds the module's names among the function's globals.
    double.__globals__["tl"] = tl
    source = torch.arange(128, dtype=torch.float32, device="cuda:0")
    target = torch.zeros_like(source)
    triton.jit(double)[(1,)](source, target, size=128)
    return {"triton": {"version": triton.__version__, "right": bool((target == source * 2).all())}}


def main(job: dict[str, Any]) -> None:
    """Answer a job."""
    say({"step": "metadata"})
    found = {
        distribution.metadata["Name"]: distribution.version
        for distribution in importlib.metadata.distributions()
    }
    say({"installed": found, "python": sys.version.split()[0]})
    # Imports leave little garbage and make very many objects: looking for it is a quarter of the
    # time (2.8 s, not 3.6 s, of a processor for an engine without GPUs).
    gc.disable()
    imported = [import_one(name) for name in job["modules"]]
    gc.enable()
    for answer in imported:
        say(answer)
    if job["gpu"] and "error" not in imported[0]:
        torch = sys.modules["torch"]
        say(use_gpus(torch))
        say(use_triton(torch))
    say({"step": "end"})


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
