# SPDX-License-Identifier: Apache-2.0
"""Parse what nvidia-smi prints, over driver generations.

The XML (`-q -x`) is the main source: its tags changed less between driver 430 and 595 than the
columns that `--query-gpu` takes, and an unknown column fails the whole query. What an older
driver does not say is None, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape, unescape

from ansible_collections.sm120.sglang.plugins.module_utils._host.tools import Output

# 16 GPUs with every supported clock are about 450 KB.
XML_LIMIT = 8 << 20
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_PROCESS_NAME = re.compile(r"(<process_name>)(.*?)(</process_name>)", re.DOTALL)
_DOCTYPE = re.compile(r"<!DOCTYPE[^>\[]*>")

# What a failed nvidia-smi says, to what is wrong; the first that fits.
_PROBLEMS = (
    ("mismatch", "driver/library version mismatch"),
    ("no_driver", "couldn't communicate with the nvidia driver"),
    ("no_driver", "driver not loaded"),
    ("no_library", "couldn't find libnvidia-ml.so"),
    ("no_devices", "no devices were found"),
    ("lost", "gpu is lost"),
    ("lost", "unable to determine the device handle"),
    ("denied", "insufficient permissions"),
)


class SmiError(ValueError):
    """The text is not what nvidia-smi prints."""


def problem_of(output: Output) -> str:
    """Name what is wrong when nvidia-smi gives no GPUs.

    Args:
        output: What it said. Older drivers exit with 0 after "No devices were found".

    Returns:
        `mismatch`, `no_driver`, `no_library`, `no_devices`, `lost`, `denied`, `missing`,
        `timeout`, or `unknown`.
    """
    if output.state in ("missing", "timeout"):
        return output.state
    said = f"{output.text}\n{output.error}".lower()
    return next((name for name, text in _PROBLEMS if text in said), "unknown")


def _number(text: str | None) -> float | None:
    found = _NUMBER.search(text or "")
    return float(found[0]) if found else None


def _whole(text: str | None) -> int | None:
    number = _number(text)
    return None if number is None else int(number)


def _switch(text: str | None) -> bool | None:
    return {"enabled": True, "yes": True, "active": True}.get(
        (text or "").lower(), False if (text or "").lower() in _OFF else None
    )


_OFF = {"disabled", "no", "not active"}


def address_of(text: str) -> str:
    """A PCI address as sysfs writes it: `0000:c1:00.0` of `00000000:C1:00.0`."""
    domain, _, rest = text.strip().lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def parse_query(text: str) -> dict[str, Any]:
    """Parse `nvidia-smi -q -x`.

    Args:
        text: Its output. Lines before the XML (warnings of the driver) are skipped.

    Returns:
        `driver` and `cuda` (versions), and `gpus`, each with `index`, `name`, `uuid`, `address`,
        `memory_mib`, `used_mib`, `bar1_mib`, `persistence`, `mig`, `addressing`, `recovery`,
        `link` (`generation`, `generation_max`, `generation_device`, `generation_host`, `width`,
        `width_max`), `state` (P0...), `utilization` (percent), `slowdown` (reasons that are
        active), `rows` (`pending`, `failure`), `uncorrected` (volatile ECC errors), and
        `processes` (`pid`, `type`, `name`, `mib`). None where the driver does not say.

    Raises:
        SmiError: No such XML, or more of it than any machine has reason to print.
    """
    if len(text) > XML_LIMIT:
        raise SmiError(f"{len(text)} characters; that is not one machine's GPUs")
    start, end = text.find("<nvidia_smi_log"), text.rfind("</nvidia_smi_log>")
    if start < 0 or end < 0:
        raise SmiError("no <nvidia_smi_log> in the output")
    # A process may have any name, and some drivers print it as it is.
    body = _PROCESS_NAME.sub(
        lambda name: f"{name[1]}{escape(unescape(name[2]))}{name[3]}",
        text[start : end + len("</nvidia_smi_log>")],
    )
    if "<!" in body or "<!" in _DOCTYPE.sub("", text[:start]):
        # A document type of its own could define entities that grow without end.
        raise SmiError("a document type definition inside the output")
    try:
        # The document has no entities: the check above leaves no way to declare one.
        tree = ElementTree.fromstring(body)  # noqa: S314
    except ElementTree.ParseError as error:
        raise SmiError(f"broken XML: {error}") from error
    return {
        "driver": tree.findtext("driver_version", "").strip(),
        "cuda": tree.findtext("cuda_version", "").strip(),
        "gpus": [_gpu(index, gpu) for index, gpu in enumerate(tree.iterfind("gpu"))],
    }


def _gpu(index: int, gpu: ElementTree.Element) -> dict[str, Any]:
    def text(path: str) -> str:
        return (gpu.findtext(path) or "").strip()

    # "clocks_throttle_reasons" until driver 530, "clocks_event_reasons" since.
    reasons = gpu.find("clocks_event_reasons")
    if reasons is None:
        reasons = gpu.find("clocks_throttle_reasons")
    link = "pci/pci_gpu_link_info"
    return {
        "index": index,
        "name": text("product_name"),
        "uuid": text("uuid"),
        "address": address_of(gpu.get("id", "")),
        "capability": "",
        "memory_mib": _whole(text("fb_memory_usage/total")),
        "used_mib": _whole(text("fb_memory_usage/used")),
        "bar1_mib": _whole(text("bar1_memory_usage/total")),
        "persistence": _switch(text("persistence_mode")),
        "mig": _switch(text("mig_mode/current_mig")),
        "addressing": text("addressing_mode"),
        "recovery": text("gpu_recovery_action"),
        "state": text("performance_state"),
        "utilization": _whole(text("utilization/gpu_util")),
        "link": {
            "generation": _whole(text(f"{link}/pcie_gen/current_link_gen")),
            "generation_max": _whole(text(f"{link}/pcie_gen/max_link_gen")),
            "generation_device": _whole(text(f"{link}/pcie_gen/max_device_link_gen")),
            "generation_host": _whole(text(f"{link}/pcie_gen/max_host_link_gen")),
            "width": _whole(text(f"{link}/link_widths/current_link_width")),
            "width_max": _whole(text(f"{link}/link_widths/max_link_width")),
        },
        "slowdown": _slowdown(reasons),
        "rows": {
            "pending": _switch(text("remapped_rows/remapped_row_pending")),
            "failure": _switch(text("remapped_rows/remapped_row_failure")),
        },
        "uncorrected": _uncorrected(gpu),
        "processes": [
            {
                "pid": _whole(process.findtext("pid")),
                "type": (process.findtext("type") or "").strip(),
                "name": (process.findtext("process_name") or "").strip(),
                "mib": _whole(process.findtext("used_memory")),
            }
            for process in gpu.iterfind("processes/process_info")
        ],
    }


def _slowdown(reasons: ElementTree.Element | None) -> list[str]:
    """The reasons for slow clocks that mean trouble, as far as they are active."""
    if reasons is None:
        return []
    names = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
    prefixes = ("clocks_event_reason_", "clocks_throttle_reason_")
    return [
        name
        for name in names
        if any(_switch((reasons.findtext(prefix + name) or "").strip()) for prefix in prefixes)
    ]


def _uncorrected(gpu: ElementTree.Element) -> int | None:
    """Uncorrected ECC errors since the driver was loaded, under the names of each generation."""
    volatile = gpu.find("ecc_errors/volatile")
    if volatile is None:
        return None
    numbers = [_whole(entry.text) for entry in volatile if "uncorrectable" in entry.tag]
    # Up to driver 450 double bit errors had a total of their own.
    numbers.append(_whole(volatile.findtext("double_bit/total")))
    counted = [number for number in numbers if number is not None]
    return sum(counted) if counted else None


def parse_capabilities(text: str) -> dict[str, str]:
    """Parse `nvidia-smi --query-gpu=uuid,compute_cap --format=csv,noheader`.

    Args:
        text: Its output; drivers before 470 have no such column and print an error instead.

    Returns:
        UUID to capability ("12.0").
    """
    found = {}
    for line in text.splitlines():
        uuid, _, capability = line.partition(",")
        if re.fullmatch(r"\d+\.\d+", capability.strip()):
            found[uuid.strip()] = capability.strip()
    return found


def parse_matrix(text: str) -> dict[str, str]:
    """Parse the GPU part of `nvidia-smi topo -m` or `topo -p2p X`.

    Args:
        text: Its output; the head line is underlined with escape sequences even in a pipe.

    Returns:
        "0-1" to what stands at row GPU0, column GPU1 (`PIX`, `SYS`, `NV18`; `OK`, `CNS`, ...).
    """
    lines = [_ESCAPE.sub("", line).split() for line in text.splitlines()]
    head = next((line for line in lines if line[:1] == ["GPU0"] and "X" not in line), None)
    if head is None:
        return {}
    columns = [int(name[3:]) for name in head if re.fullmatch(r"GPU\d+", name)]
    cells = {}
    for line in lines:
        if line and line is not head and re.fullmatch(r"GPU\d+", line[0]):
            row = int(line[0][3:])
            for column, cell in zip(columns, line[1:], strict=False):
                if column != row:
                    cells[f"{row}-{column}"] = cell
    return cells


def with_capabilities(query: Mapping[str, Any], capabilities: Mapping[str, str]) -> dict[str, Any]:
    """The query with each GPU's `capability` filled in where it is known."""
    gpus = [{**gpu, "capability": capabilities.get(gpu["uuid"], "")} for gpu in query["gpus"]]
    return {**query, "gpus": gpus}
