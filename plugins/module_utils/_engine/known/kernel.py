# SPDX-License-Identifier: Apache-2.0
"""Faults that only the kernel's log names."""

from __future__ import annotations

from ansible_collections.sm120.sglang.plugins.module_utils._engine.signatures import (
    CLASS,
    ROOT,
    Signature,
)

_XID = r"NVRM: Xid \(PCI:(?P<bus>[\w:.]+)\): (?:%s),"
_POWER = (
    r"the card at \g<bus> needs a power cycle of the node (a reboot may not be enough); do not "
    "restart the engine before. If it returns: seating, power supply, PCIe link, firmware"
)

SIGNATURES = (
    Signature(
        "xid-bus",
        _XID % "79" + r"|NVRM: GPU (?:at PCI:)?(?P<other>[\w:.]+).*fallen off the bus"
        r"|fallen off the bus and is not responding",
        "that card needs a power cycle of the node (a reboot may not be enough); do not restart "
        "the engine before. If it returns: seating, power supply, PCIe link, "
        "pcie_aspm=off pcie_port_pm=off",
        cause="a GPU fell off the PCIe bus (Xid 79)",
        source="NVIDIA/open-gpu-kernel-modules#1151, NVIDIA/NVSentinel#155",
        says=ROOT,
    ),
    Signature(
        "xid-firmware",
        _XID % "62|119|120",
        _POWER,
        cause="a GPU's own controller stopped answering (Xid 62, 119 or 120)",
        source="NVIDIA/open-gpu-kernel-modules#829, NVIDIA/open-gpu-kernel-modules#1080",
        says=ROOT,
    ),
    Signature(
        "xid-memory",
        _XID % "48|63|64|94|95",
        r"the memory of the card at \g<bus> is failing: `nvidia-smi -q -d ECC,ROW_REMAPPER` on the "
        "node; reset the card, replace it if it returns",
        cause="a GPU's memory has uncorrectable errors",
        source="NVIDIA, Xid errors (data center GPU documentation)",
        says=ROOT,
    ),
    Signature(
        "xid-recovery",
        _XID % "154",
        r"the driver wants the card at \g<bus> reset or the node rebooted: its line names which",
        cause="the driver asks for a recovery action (Xid 154)",
        source="NVIDIA/open-gpu-kernel-modules#1151",
    ),
    Signature(
        "xid-timeout",
        _XID % "109",
        r"the card at \g<bus> hung in a context switch: reset it; try another driver branch if it "
        "returns",
        cause="a GPU hung (Xid 109)",
        source="NVIDIA/open-gpu-kernel-modules#1080",
        says=ROOT,
    ),
    Signature(
        "xid-program",
        _XID % "13|31|43|45",
        "a kernel of the engine faulted on the GPU: serve without a draft to see whether "
        "speculation is at fault; it is a fault of software, the card is well",
        cause="the driver stopped a faulty kernel (Xid 13, 31, 43 or 45)",
        source="sgl-project/sglang#37936, sgl-project/sglang#3762",
        says=CLASS,
    ),
    Signature(
        "driver-mismatch",
        r"NVRM: API mismatch|Driver/library version mismatch",
        "the driver was updated without a reboot: reboot the node, then hold the packages",
        cause="the loaded kernel module and the driver's libraries are of two versions",
        source="pando85/homelab#4110, stackhpc/ansible-slurm-appliance#287",
        says=ROOT,
    ),
    Signature(
        "driver-init",
        r"NVRM: .*(?:RmInitAdapter failed|rm_init_adapter failed)",
        "the driver cannot start this card: power-cycle the node; compare driver and firmware",
        cause="a GPU does not come up",
        source="NVIDIA/open-gpu-kernel-modules#326",
        says=ROOT,
    ),
    Signature(
        "driver-flavour",
        r"requires use of the NVIDIA open kernel modules",
        "install the open flavour of the driver (Blackwell has no other)",
        cause="the proprietary kernel module does not drive Blackwell",
        source="NVIDIA driver installation guide, kernel modules",
        says=ROOT,
    ),
    Signature(
        "module-key",
        r"Loading of (?:unsigned )?module with unavailable key is rejected"
        r"|Key was rejected by service|Required key not available",
        "Secure Boot refuses the driver: enrol the key (mokutil, at the console), take the "
        "distribution's signed modules, or switch Secure Boot off",
        cause="the kernel does not load an unsigned driver",
        source="unix.stackexchange.com question 535434",
        says=ROOT,
    ),
    Signature(
        "link-down",
        r"AER: .*Surprise Link Down|\[ *5\] SDES\b",
        "boot with pcie_aspm=off pcie_port_pm=off; reseat card or riser",
        cause="a PCIe link went down by itself",
        source="rtx6kpro wiki, common issues",
        says=ROOT,
    ),
    Signature(
        "iommu-fault",
        r"AMD-Vi: Event logged \[IO_PAGE_FAULT|DMAR: \[DMA (?:Read|Write)",
        "boot with iommu=pt (or off) and switch ACS off on the bridges: P2P between the cards is "
        "blocked",
        cause="the IOMMU blocks the GPUs' traffic",
        source="NVIDIA/nccl#1999, NVIDIA/nccl#2079",
        says=ROOT,
    ),
    Signature(
        "oom-kill",
        r"Out of memory: Killed process \d+ \((?P<name>[^)]+)\)",
        r"host memory ran out and the kernel killed \g<name>: free some, or give the node more; "
        "`journalctl -k` lists who held it",
        cause="the kernel's out-of-memory killer ended a process",
        source="sgl-project/sglang#4730",
        says=ROOT,
    ),
    Signature(
        "oom-kill-unit",
        r"Memory cgroup out of memory: Killed process \d+ \((?P<name>[^)]+)\)",
        r"the unit's MemoryMax killed \g<name>: raise it, or leave it out",
        cause="the unit's memory limit ended a process",
        source="systemd.resource-control(5), MemoryMax",
        says=ROOT,
    ),
    Signature(
        "triton-segfault",
        r"segfault at \S+ .* in libtriton",
        "clear the release's kernel cache and start again; it returns: take a newer stack",
        cause="Triton's compiler crashed",
        source="pytorch/pytorch#176426",
        says=ROOT,
    ),
    Signature(
        "segfault",
        r"(?P<name>\S+)\[\d+\]: segfault at \S+ .* in (?P<library>[\w.+-]+)\[",
        r"\g<name> crashed in \g<library>: rebuild the release from its lock; packages changed by "
        "hand are the usual reason",
        cause="a process crashed in compiled code",
        source="proc(5), show_signal_msg",
    ),
    Signature(
        "disk-error",
        r"(?:critical medium|I/O) error, dev (?P<device>\w+)",
        r"the disk \g<device> is failing: read its health (smartctl -a), move the models",
        cause="a disk cannot be read",
        source="Linux block layer, blk_status",
        says=ROOT,
    ),
    Signature(
        "hung-task",
        r"task (?P<name>\S+) blocked for more than \d+ seconds",
        r"\g<name> waits for the disk or the driver: look at the lines around it; ZFS under GPU "
        "load is known for it",
        cause="a process hangs inside the kernel",
        source="rtx6kpro wiki, ZFS",
        says=CLASS,
    ),
)
