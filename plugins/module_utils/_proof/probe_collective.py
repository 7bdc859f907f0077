# SPDX-License-Identifier: Apache-2.0
"""Time an all-reduce over some ranks of this machine, each a process of its own.

A program of its own: runs as the engine's user with the release's Python, from a file. Its one
argument is a JSON job: `backend` (nccl or gloo), `sets` (numbers of ranks, one set after the
other), `bytes` (large message), `small_bytes`, `iterations`, `deadline` (seconds for one set).
Lines behind the marker are JSON; a rank says each phase when it enters it, so that a hang tells
where.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
import tempfile
import time
from typing import Any

MARKER = "sm120-collective:"
_PATTERN = 251  # a prime: a piece that lands in the wrong place shows


def say(answer: dict[str, Any]) -> None:
    """Print one answer in one write, since all ranks share the pipe."""
    os.write(1, (MARKER + json.dumps(answer) + "\n").encode())


def synchronise(torch: Any, backend: str) -> None:
    """Wait for the GPU; on the CPU an all-reduce has ended when it returns."""
    if backend == "nccl":
        torch.cuda.synchronize()


def measure(torch: Any, job: dict[str, Any], rank: int, size: int, device: Any) -> dict[str, Any]:
    """Reduce one message often; seconds for one, and whether the sum was right."""
    ranks = int(job["ranks"])
    count = max(size // 4, 1)
    base = torch.arange(count, device=device).remainder(_PATTERN).to(torch.float32)
    expected = base * ranks + ranks * (ranks - 1) / 2
    tensor = base + rank
    torch.distributed.all_reduce(tensor)
    synchronise(torch, job["backend"])
    right = bool(torch.equal(tensor, expected))
    for _ in range(2):
        torch.distributed.all_reduce(tensor.fill_(1.0))
    torch.distributed.barrier()
    synchronise(torch, job["backend"])
    began = time.perf_counter()
    for _ in range(int(job["iterations"])):
        torch.distributed.all_reduce(tensor)
    synchronise(torch, job["backend"])
    seconds = (time.perf_counter() - began) / int(job["iterations"])
    return {"bytes": count * 4, "seconds": seconds, "right": right}


def run_rank(torch: Any, job: dict[str, Any], rank: int, store: str) -> None:
    """The life of one rank."""
    # The kernel ends a rank whose parent was killed.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    say({"ranks": job["ranks"], "rank": rank, "phase": "device"})
    device = torch.device("cpu")
    if job["backend"] == "nccl":
        device = torch.device("cuda", rank)
        torch.cuda.set_device(device)
        torch.zeros(1, device=device)
    say({"ranks": job["ranks"], "rank": rank, "phase": "connect"})
    options = {"device_id": device} if job["backend"] == "nccl" else {}
    torch.distributed.init_process_group(
        job["backend"],
        init_method=f"file://{store}",
        world_size=int(job["ranks"]),
        rank=rank,
        **options,
    )
    say({"ranks": job["ranks"], "rank": rank, "phase": "small"})
    small = measure(torch, job, rank, int(job["small_bytes"]), device)
    say({"ranks": job["ranks"], "rank": rank, "phase": "large"})
    large = measure(torch, job, rank, int(job["bytes"]), device)
    say({"ranks": job["ranks"], "rank": rank, "phase": "done", "small": small, "large": large})
    torch.distributed.destroy_process_group()


def child(torch: Any, job: dict[str, Any], rank: int, store: str) -> None:
    """Run one rank and end the process, whatever happens."""
    try:
        run_rank(torch, job, rank, store)
    except BaseException as error:
        say(
            {
                "ranks": job["ranks"],
                "rank": rank,
                "error": f"{type(error).__name__}: {error}"[:2000],
            }
        )
        os._exit(1)
    os._exit(0)


def run_set(torch: Any, job: dict[str, Any]) -> bool:
    """Start a set of ranks, wait for them, end what is left; whether all came to their end."""
    well = True
    with tempfile.TemporaryDirectory() as folder:
        ranks: dict[int, int] = {}
        for rank in range(int(job["ranks"])):
            process = os.fork()
            if process == 0:
                child(torch, job, rank, f"{folder}/store")
            ranks[process] = rank
        end = time.monotonic() + float(job["deadline"])
        while ranks and time.monotonic() < end:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                time.sleep(0.02)
                continue
            rank = ranks.pop(process)
            code = os.waitstatus_to_exitcode(status)
            if code != 0:
                well = False
                say({"ranks": job["ranks"], "rank": rank, "died": code})
                # The others wait for it for ever.
                end = min(end, time.monotonic() + 1.0)
        for process, rank in ranks.items():
            well = False
            os.kill(process, signal.SIGKILL)
            say({"ranks": job["ranks"], "rank": rank, "stopped": process})
    return well


def main(job: dict[str, Any]) -> None:
    """Run the sets one after the other, the next only when one ended well."""
    torch = importlib.import_module("torch")
    importlib.import_module("torch.distributed")
    if job["backend"] == "gloo":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    for ranks in job["sets"]:
        say({"ranks": ranks, "phase": "start"})
        if not run_set(torch, {**job, "ranks": ranks}):
            break
        say({"ranks": ranks, "phase": "end"})


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
