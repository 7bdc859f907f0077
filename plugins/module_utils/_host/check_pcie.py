# SPDX-License-Identifier: Apache-2.0
"""Check PCIe: links, peer access, and what hangs it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._host.finding import (
    FOUND,
    OK,
    UNKNOWN,
    Finding,
    found,
    group,
)
from ansible_collections.sm120.sglang.plugins.module_utils._host.pci import REDIRECTS

# EPYC 9xx5 ("Turin"): nccl#2127.
_TURIN = re.compile(r"EPYC 9\d{2}5")
# Arguments that were put there once and do harm here, to what they do.
_HARMFUL = {
    ("pci", "nommconf"): "hides extended PCI configuration space",
    ("pci", "nomsi"): "takes the cards' interrupts away",
    ("pcie_aspm", "force"): "makes links save power",
    ("amd_iommu", "force_isolation"): "makes the IOMMU translate every device",
    ("iommu", "force"): "makes the IOMMU translate every device",
    ("iommu", "nopt"): "makes the IOMMU translate every device",
    ("iommu.passthrough", "0"): "makes the IOMMU translate every device",
    ("nvidia.NVreg_OpenRmEnableUnsupportedGpus", "0"): "keeps the open module off the cards",
}
_STATES = {
    "CNS": "chipset not supported",
    "GNS": "GPU not supported",
    "TNS": "topology not supported",
    "NS": "not supported",
    "DR": "disabled by a registry key",
    "U": "unknown",
}


def check_pcie(host: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[Finding]:
    """Judge how the cards are connected.

    Args:
        host: The reading.
        wanted: `gpus`.

    Yields:
        Findings. What concerns traffic between cards is judged from two cards on.
    """
    gpus = host["smi"]["gpus"]
    if gpus:
        yield _bar1(gpus)
        yield found("pcie_link", [*group(_links(gpus)), *_bridge_links(host["pci"])], _rest(gpus))
    yield _errors(host["pci"])
    yield _aspm(host)
    yield found("kernel_arguments", _arguments(host["kernel"]["arguments"]), "none of the harmful")
    if wanted["gpus"] > 1:
        if gpus:
            yield _peers(host["smi"])
            yield _topology(host["smi"])
        yield _numa(host)
        yield _acs(host)
        yield _iommu(host)
        yield _hmm(host)
        turin = _TURIN.search(host["kernel"]["cpu"])
        yield Finding("nccl_model", FOUND if turin else OK, host["kernel"]["cpu"] or "unknown")


def _bar1(gpus: list[dict[str, Any]]) -> Finding:
    if any(gpu["bar1_mib"] is None or gpu["memory_mib"] is None for gpu in gpus):
        return Finding("bar1", UNKNOWN, "nvidia-smi does not say")
    small = [
        (f"GPU {gpu['index']}", f"BAR1 {gpu['bar1_mib']} MiB for {gpu['memory_mib']} MiB of memory")
        for gpu in gpus
        if gpu["bar1_mib"] < gpu["memory_mib"]
    ]
    return found("bar1", group(small), f"{min(gpu['bar1_mib'] for gpu in gpus)} MiB and more")


def _links(gpus: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for gpu in gpus:
        link, name = gpu["link"], f"GPU {gpu['index']}"
        if link["width"] and link["width_max"] and link["width"] < link["width_max"]:
            yield name, f"x{link['width']} of x{link['width_max']}"
        able, host = link["generation_device"], link["generation_host"]
        if able and host and host < able:
            yield name, f"the slot allows generation {host} of {able}"
        elif able and link["generation_max"] and link["generation_max"] < able:
            yield name, f"the system allows generation {link['generation_max']} of {able}"
        # A card at rest lowers its link: only a busy one shows what it has.
        busy = (gpu["utilization"] or 0) > 0 and gpu["state"] in ("P0", "P1", "P2")
        now, most = link["generation"], link["generation_max"]
        if busy and now and most and now < most:
            yield name, f"generation {now} of {most} under load"


def _rest(gpus: list[dict[str, Any]]) -> str:
    links = sorted(
        {f"x{g['link']['width']} generation {g['link']['generation_max']}" for g in gpus}
    )
    resting = sum(
        1
        for gpu in gpus
        if gpu["link"]["generation"]
        and gpu["link"]["generation_max"]
        and gpu["link"]["generation"] < gpu["link"]["generation_max"]
    )
    return ", ".join(links) + (f"; {resting} at rest with a lower one" if resting else "")


def _bridge_links(pci: Mapping[str, Any]) -> list[str]:
    """Bridges above a card whose link is narrower than both of its ends could be.

    The generation is left out: it falls at rest. So are ports above a switch with one card only,
    whose link is the card's own and stands there already.
    """
    return [
        f"{bridge['kind'] or 'bridge'} {bridge['address']} above {len(bridge['gpus'])} cards: "
        f"x{bridge['link']['width']} of x{bridge['link']['width_max']}"
        for bridge in pci["bridges"]
        if bridge["link"]
        and len(bridge["gpus"]) > 1
        and 0 < bridge["link"]["width"] < bridge["link"]["width_max"]
    ]


def _errors(pci: Mapping[str, Any]) -> Finding:
    above = [bridge for bridge in pci["bridges"] if bridge["gpus"]]
    wrong = [
        f"{entry['address']}: {entry['errors']} uncorrected"
        for entry in [*pci["gpus"], *above]
        if entry["errors"]
    ]
    return found("aer", wrong, "no uncorrected errors on the cards' paths")


def _aspm(host: Mapping[str, Any]) -> Finding:
    pci, policy = host["pci"], host["kernel"]["aspm"]
    path = [*pci["gpus"], *(bridge for bridge in pci["bridges"] if bridge["gpus"])]
    links = [entry for entry in path if entry["link"]]
    if not links:
        # Not root, or no PCI Express: the policy alone says what may be.
        if policy in ("default", ""):
            return Finding("aspm", UNKNOWN, f"links cannot be read, policy {policy or 'unknown'}")
        return Finding("aspm", OK if policy == "performance" else FOUND, f"policy {policy}")
    saving = [entry["address"] for entry in links if entry["link"]["aspm"]]
    return found(
        "aspm",
        [f"on for {len(saving)} of {len(links)} links on the cards' paths: {', '.join(saving[:8])}"]
        if saving
        else [],
        f"off on {len(links)} links",
    )


def _arguments(arguments: Mapping[str, str]) -> list[str]:
    return [
        f"{key}={value} {does}"
        for (key, value), does in _HARMFUL.items()
        if value in arguments.get(key, "").split(",")
    ]


def _peers(smi: Mapping[str, Any]) -> Finding:
    wrong, unread = [], []
    for name, words in (("r", "reads"), ("w", "writes")):
        matrix = smi["p2p"][name]
        count = len(smi["gpus"])
        if len(matrix["cells"]) != count * (count - 1):
            unread.append(f"{words}: {matrix['state']}")
            continue
        states: dict[str, list[str]] = {}
        for pair, state in matrix["cells"].items():
            if state != "OK":
                states.setdefault(state, []).append(pair)
        wrong += [
            f"{words}: {_STATES.get(state, state)} for {len(pairs)} of {count * (count - 1)} pairs "
            f"({', '.join(pairs[:4])}{', ...' if len(pairs) > 4 else ''})"
            for state, pairs in states.items()
        ]
    if unread and not wrong:
        return Finding("p2p", UNKNOWN, f"the matrix could not be read; {'; '.join(unread)}")
    return found("p2p", wrong, f"every pair of {len(smi['gpus'])} cards")


def _topology(smi: Mapping[str, Any]) -> Finding:
    cells = smi["topology"]["cells"]
    if not cells:
        return Finding("topology", UNKNOWN, f"cannot be read: {smi['topology']['state']}")
    counts: dict[str, int] = {}
    for cell in cells.values():
        counts[cell] = counts.get(cell, 0) + 1
    pairs = ", ".join(f"{kind} for {count // 2}" for kind, count in sorted(counts.items()))
    return Finding("topology", OK, f"{pairs} pair(s)")


def _numa(host: Mapping[str, Any]) -> Finding:
    nodes, gpus = host["kernel"]["numa_nodes"], host["pci"]["gpus"]
    places: dict[str, int] = {}
    for gpu in gpus:
        place = "no node" if gpu["numa"] is None else f"node {gpu['numa']}"
        places[place] = places.get(place, 0) + 1
    read = ", ".join(f"{count} cards on {place}" for place, count in sorted(places.items()))
    lost = nodes > 1 and "no node" in places
    return Finding("numa", FOUND if lost else OK, f"{nodes} node(s); {read or 'no card'}")


def _acs(host: Mapping[str, Any]) -> Finding:
    bridges = host["pci"]["bridges"]
    above = [bridge for bridge in bridges if bridge["gpus"]]
    if not above:
        return Finding(
            "acs",
            UNKNOWN,
            "no bridge above a card can be seen",
            "in a virtual machine, ask its host: lspci -vvv shows ACSCtl of each bridge",
        )
    if not all(bridge["complete"] for bridge in above):
        return Finding("acs", UNKNOWN, "extended configuration space cannot be read", "run as root")
    on = [bridge for bridge in above if REDIRECTS & set(bridge["acs"] or ())]
    elsewhere = sum(
        1 for bridge in bridges if not bridge["gpus"] and REDIRECTS & set(bridge["acs"] or ())
    )
    rest = f" ({elsewhere} elsewhere have them on)" if elsewhere else ""
    if not on:
        return Finding("acs", OK, f"redirects off on {len(above)} bridges above cards{rest}")
    names = [f"{bridge['kind'] or 'bridge'} {bridge['address']}" for bridge in on]
    bits = sorted({bit for bridge in on for bit in bridge["acs"] if bit in REDIRECTS})
    return Finding(
        "acs",
        FOUND,
        f"{', '.join(bits)} on {len(on)} of {len(above)} bridges above cards: "
        f"{', '.join(names[:16])}{', ...' if len(names) > 16 else ''}",
    )


def _iommu(host: Mapping[str, Any]) -> Finding:
    units = host["kernel"]["iommus"]
    if not units:
        return Finding("iommu", OK, "off")
    groups = {gpu["address"]: gpu["group"] for gpu in host["pci"]["gpus"]}
    translating = {address: kind for address, kind in groups.items() if kind and kind != "identity"}
    if translating:
        kinds = ", ".join(sorted(set(translating.values())))
        return Finding(
            "iommu",
            FOUND,
            f"on ({', '.join(units)}) and translating for {len(translating)} card(s): {kinds}",
        )
    if all(groups.values()):
        return Finding("iommu", OK, f"on ({', '.join(units)}), cards pass through")
    if host["kernel"]["arguments"].get("iommu") == "pt":
        return Finding("iommu", OK, "on, iommu=pt")
    return Finding(
        "iommu",
        UNKNOWN,
        f"on ({', '.join(units)}); the cards' domains cannot be read",
        "look for `iommu=pt` in /proc/cmdline, and for the default domain in `journalctl -k`",
    )


def _hmm(host: Mapping[str, Any]) -> Finding:
    allowed = host["module"]["hmm"]
    if allowed is None:
        return Finding("hmm", OK, "nvidia_uvm is not loaded, or has no such option")
    modes = sorted({gpu["addressing"] for gpu in host["smi"]["gpus"]} - {"", "N/A"})
    # Allowed is not in use: a kernel built without it leaves the cards' addressing mode at None.
    used = "HMM" in modes if modes else allowed
    read = f"{'not ' if allowed else ''}disabled in nvidia_uvm, addressing mode "
    return Finding("hmm", FOUND if allowed and used else OK, read + (", ".join(modes) or "unknown"))
