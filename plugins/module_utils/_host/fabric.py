# SPDX-License-Identifier: Apache-2.0
"""What joins the GPUs: multicast as the driver reports it, NVLink or PCIe.

nvidia-smi does not tell whether a GPU supports multicast. The driver does, through an attribute of
each device; reading it needs no toolkit, no context and no memory on a GPU.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

# CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR/MINOR and _MULTICAST_SUPPORTED of cuda.h (CUDA 12.1).
_PROBE = """
import ctypes, json, sys
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    sys.exit("no libcuda.so.1: %s" % error)

def call(name, *words):
    status = getattr(cuda, name)(*words)
    if status:
        text = ctypes.c_char_p()
        cuda.cuGetErrorName(status, ctypes.byref(text))
        sys.exit("%s: %s" % (name, (text.value or b"error %d" % status).decode()))

def number(name, *words):
    found = ctypes.c_int()
    call(name, ctypes.byref(found), *words)
    return found.value

call("cuInit", 0)
devices = []
for index in range(number("cuDeviceGetCount")):
    device = number("cuDeviceGet", index)
    bus = ctypes.create_string_buffer(32)
    call("cuDeviceGetPCIBusId", bus, 32, device)
    devices.append({
        "pci": bus.value.decode().lower(),
        "capability": "%d.%d" % (number("cuDeviceGetAttribute", 75, device),
                                 number("cuDeviceGetAttribute", 76, device)),
        "multicast": bool(number("cuDeviceGetAttribute", 132, device)),
    })
print(json.dumps(devices))
"""
SECONDS = 60.0  # without persistence mode the driver initialises every GPU first


def read_multicast(
    command: Sequence[str] = (sys.executable, "-I", "-c", _PROBE), seconds: float = SECONDS
) -> dict[str, Any]:
    """Ask the driver which GPUs support multicast.

    The driver is asked by a process of its own: a broken one may make it wait in the kernel,
    where not even a signal ends it. It is then left behind, and the answer is that nobody knows.

    Args:
        command: The program that asks.
        seconds: How long it may take.

    Returns:
        `state` (`ok`, or why it is not known) and `devices` (`pci`, `capability`, `multicast`).
    """
    clean = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(  # `with` would wait for it without end
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=clean,
                start_new_session=True,
            )
        except OSError as error:
            return {"state": str(error), "devices": []}
        try:
            status = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return {"state": f"the driver gave no answer within {seconds:.0f} s", "devices": []}
        out.seek(0)
        err.seek(0)
        return parse_multicast(status, out.read().decode(), err.read().decode())


def parse_multicast(status: int, text: str, error: str) -> dict[str, Any]:
    """Read what the asking process said; see `read_multicast`."""
    try:
        devices = json.loads(text) if status == 0 else None
    except ValueError:
        devices = None
    if not isinstance(devices, list):
        said = " ".join((error or text).split())[:300]
        return {"state": said or f"exit status {status}", "devices": []}
    return {"state": "ok", "devices": devices}


def has_multicast(multicast: Mapping[str, Any]) -> bool | None:
    """Whether every GPU supports multicast; None where that is not known."""
    devices = multicast.get("devices", [])
    if multicast.get("state") != "ok" or not devices:
        return None
    return all(device["multicast"] for device in devices)


def has_nvlink(topology: Mapping[str, Any]) -> bool | None:
    """Whether NVLink joins any two GPUs; None where that is not known.

    Args:
        topology: `state` and `cells` as `_host.smi.parse_matrix` gives them.

    Returns:
        False where every pair goes over PCIe.
    """
    cells: Mapping[str, str] = topology.get("cells", {})
    if topology.get("state") != "ok" or not cells:
        return None
    return any(_is_link(cell) for cell in cells.values())


def _is_link(cell: str) -> bool:
    return cell.startswith("NV") and cell[2:].isdigit()
