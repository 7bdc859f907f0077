# SPDX-License-Identifier: Apache-2.0
"""Parse PCI configuration space: what lspci would say, where there is no lspci.

Layouts: PCI Express Base Specification, chapters on the PCI Express capability structure and on
the Access Control Services extended capability; offsets as in Linux's `pci_regs.h`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._host.tools import read_int, read_text

NVIDIA = 0x10DE
_CAPABILITY_EXPRESS = 0x10
_EXTENDED_ACS = 0x000D
_KINDS = {
    0: "endpoint",
    1: "legacy endpoint",
    4: "root port",
    5: "switch upstream port",
    6: "switch downstream port",
    7: "PCI bridge",
    8: "PCI bridge",
    9: "root complex endpoint",
}
ACS_BITS = {
    0: "SourceValidation",
    1: "TranslationBlocking",
    2: "RequestRedirect",
    3: "CompletionRedirect",
    4: "UpstreamForwarding",
    5: "EgressControl",
    6: "DirectTranslated",
}
# Classes of devices: display controllers of any kind, and bridges to another PCI bus.
_DISPLAY, _BRIDGE = 0x03, 0x0604
# These send traffic between two GPUs up to the root complex and its IOMMU; the others do not.
REDIRECTS = {"RequestRedirect", "CompletionRedirect", "UpstreamForwarding"}


def _word(config: bytes, offset: int, size: int) -> int:
    return int.from_bytes(config[offset : offset + size], "little")


def _capability(config: bytes, wanted: int) -> int | None:
    """Offset of a capability in the list of the first 256 bytes."""
    if len(config) < 0x40 or not _word(config, 0x06, 2) & 0x10:
        return None
    offset = config[0x34] & 0xFC
    for _ in range(48):  # no more fit; a broken device may list them in a circle
        if offset < 0x40 or offset + 2 > len(config):
            return None
        if config[offset] == wanted:
            return offset
        offset = config[offset + 1] & 0xFC
    return None


def _extended(config: bytes, wanted: int) -> int | None:
    """Offset of an extended capability."""
    offset = 0x100
    for _ in range((4096 - 256) // 8):
        if offset < 0x100 or offset + 4 > len(config):
            return None
        header = _word(config, offset, 4)
        if header in (0, 0xFFFFFFFF):
            return None
        if header & 0xFFFF == wanted:
            return offset
        offset = header >> 20 & 0xFFC
    return None


def parse_config(config: bytes) -> dict[str, Any]:
    """Parse one device's configuration space.

    Args:
        config: 4096 bytes for root on a PCI Express host; 256 without extended space, 64 for
            anybody else.

    Returns:
        `vendor`, `device`; `kind`, None without PCI Express; `link`, None without one, else
        `generation`, `width`, their `_max`, and `aspm`, whether the link may save power; `acs`,
        the names of the control bits that are set, None when the device has no ACS; `complete`,
        whether extended space could be read at all.
    """
    express = _capability(config, _CAPABILITY_EXPRESS)
    kind, link = None, None
    if express is not None and express + 0x14 <= len(config):
        kind = _KINDS.get(_word(config, express + 2, 2) >> 4 & 0xF, "other")
        able, now = _word(config, express + 0x0C, 4), _word(config, express + 0x12, 2)
        if able >> 4 & 0x3F:
            link = {
                "aspm": bool(_word(config, express + 0x10, 2) & 0b11),
                "generation": now & 0xF,
                "width": now >> 4 & 0x3F,
                "generation_max": able & 0xF,
                "width_max": able >> 4 & 0x3F,
            }
    access, acs = _extended(config, _EXTENDED_ACS), None
    if access is not None and access + 8 <= len(config):
        control = _word(config, access + 6, 2)
        acs = [name for bit, name in ACS_BITS.items() if control >> bit & 1]
    return {
        "vendor": _word(config, 0, 2),
        "device": _word(config, 2, 2),
        "kind": kind,
        "link": link,
        "acs": acs,
        "complete": len(config) > 256,
    }


def read_pci(root: Path) -> dict[str, Any]:
    """Read the GPUs on the bus and every bridge.

    Args:
        root: Root of the file system.

    Returns:
        `gpus` (`address`, `device`, `numa`, `group` (IOMMU domain type or None), `errors`
        (uncorrected AER errors), `link`, `driver`), and `bridges` (`address`, `kind`, `link`,
        `acs`, `complete`, `errors`, `gpus`: addresses of the GPUs behind it).
    """
    folder = root / "sys/bus/pci/devices"
    gpus, bridges, paths = [], [], {}
    try:
        places = sorted(folder.iterdir())
    except OSError:
        places = []
    for place in places:
        kind = read_int(place / "class") or 0
        if kind >> 16 != _DISPLAY and kind >> 8 != _BRIDGE:
            continue
        try:
            config = (place / "config").read_bytes()
        except OSError:
            config = b""
        parsed = parse_config(config)
        vendor = read_int(place / "vendor") or parsed["vendor"]
        entry = {
            "address": place.name,
            "device": read_int(place / "device") or parsed["device"],
            "link": parsed["link"],
            "errors": _errors(place),
        }
        if vendor == NVIDIA and kind >> 16 == _DISPLAY:
            paths[place.name] = place.resolve().parts
            gpus.append({**entry, **_gpu(place)})
        elif kind >> 8 == _BRIDGE:
            wanted = ("kind", "acs", "complete")
            bridges.append({**entry, **{key: parsed[key] for key in wanted}})
    for bridge in bridges:
        bridge["gpus"] = [gpu for gpu, parts in paths.items() if bridge["address"] in parts]
    return {"gpus": gpus, "bridges": bridges}


def _gpu(place: Path) -> dict[str, Any]:
    numa = read_int(place / "numa_node")
    driver = place / "driver"
    return {
        "numa": None if numa is None or numa < 0 else numa,
        "group": read_text(place / "iommu_group/type") or None,
        "driver": driver.resolve().name if driver.is_symlink() else "",
    }


def _errors(place: Path) -> int:
    """Uncorrected errors that the kernel counted for a device since it was found."""
    total = 0
    for name in ("aer_dev_fatal", "aer_dev_nonfatal"):
        for line in read_text(place / name).splitlines():
            label, _, count = line.rpartition(" ")
            if label.startswith("TOTAL") and count.isdigit():
                total += int(count)
    return total
