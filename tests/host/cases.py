# SPDX-License-Identifier: Apache-2.0
"""Recorded nodes by name, and the verdicts that each has to get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.host.nodes import (
    CAPABILITY,
    CARDS,
    CLOCK,
    GIB_KIB,
    QUERY,
    RECORDINGS,
    UNIT,
    Node,
    bridges,
    bus,
    config_space,
    good,
    matrix,
    place,
    uuid,
)


@dataclass(frozen=True)
class Case:
    """One recorded node.

    Attributes:
        break_it: What is changed on the good node.
        expected: Every verdict that is not `ok`.
        says: Words that the named check's `read` has to hold.
    """

    break_it: Callable[[Node], None]
    expected: dict[str, str]
    says: dict[str, str] = field(default_factory=dict)

    def build(self) -> Node:
        """The node."""
        node = good()
        self.break_it(node)
        return node


def no_change(_node: Node) -> None:
    """Leave the good node as it is."""


def no_driver(node: Node) -> None:
    """Take the driver away, as on a host that was just installed; nouveau has the cards."""
    del node.programs["nvidia-smi"]
    for name in [name for name in node.files if "nvidia" in name or "libcuda" in name]:
        del node.files[name]
    node.files["sys/module/nouveau/refcnt"] = "8\n"


def mismatch(node: Node) -> None:
    """Upgrade the library below a running kernel module."""
    node.smi(
        "Failed to initialize NVML: Driver/library version mismatch\n"
        "NVML library version: 580.105\n",
        18,
    )
    del node.files["usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05"]
    node.files["usr/lib/x86_64-linux-gnu/libcuda.so.580.105.08"] = ""


def quiet_mismatch(node: Node) -> None:
    """The same seen from the files, while nvidia-smi still has the old library open."""
    del node.files["usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05"]
    node.files["usr/lib/x86_64-linux-gnu/libcuda.so.580.105.08"] = ""


def fallen_card(node: Node) -> None:
    """Let card 3 fall off the bus."""
    text, _ = node.programs["nvidia-smi"][QUERY]
    start, end = text.index(f'\t<gpu id="0000{bus(3)}'.upper().replace("\t<GPU ID", "\t<gpu id")), 0
    end = text.index("</gpu>\n", start) + len("</gpu>\n")
    node.prints("nvidia-smi", QUERY, text[:start] + text[end:])
    seven = [f"{uuid(card)}, 12.0\n" for card in range(CARDS) if card != 3]
    node.prints("nvidia-smi", CAPABILITY, "".join(seven))
    for words in ("topo -m", "topo -p2p r", "topo -p2p w"):
        lines = node.programs["nvidia-smi"][words][0].splitlines(True)
        node.prints(
            "nvidia-smi",
            words,
            "".join(
                "\t".join(cell for number, cell in enumerate(line.split("\t")) if number != 8)
                for line in lines
                if "GPU7\t" not in line[:6]
            ),
        )
    node.log(
        f"NVRM: GPU at PCI:{bus(3)[:-2]}: {uuid(3)}",
        f"NVRM: Xid (PCI:{bus(3)[:-2]}): 79, GPU has fallen off the bus.",
        f"NVRM: Xid (PCI:{bus(3)[:-2]}): 154, GPU recovery action changed from 0x0 (None) to 0x2 "
        "(Node Reboot Required)",
    )


def lost_card(node: Node) -> None:
    """A card that answers nobody makes nvidia-smi fail as a whole."""
    node.smi(f"Unable to determine the device handle for GPU3: {bus(3)}: Unknown Error\n", 255)


def mig(node: Node) -> None:
    """Cut card 2 into instances."""
    node.edit("<current_mig>Disabled", "<current_mig>Enabled", card=2)


def acs(node: Node) -> None:
    """Turn ACS redirects on at root ports and switch ports, as most firmware does."""
    for card in range(CARDS):
        for number, path in enumerate(bridges(card)):
            kind, identity = ((4, 0x14AB1022), (5, 0xC0301000), (6, 0xC0301000))[number]
            bits = {4: 0x1D, 5: None, 6: 0x1D}[kind]
            content = config_space(identity, kind, 5, 16, acs=bits)
            node.files[f"sys/devices/{path}/config"] = content


def iommu(node: Node) -> None:
    """Let the IOMMU translate."""
    node.files["proc/cmdline"] = "BOOT_IMAGE=/vmlinuz root=UUID=x ro pcie_aspm=off\n"
    for card in range(CARDS):
        node.files[f"sys/devices/{place(card)}/iommu_group/type"] = "DMA-FQ\n"


def old_driver(node: Node) -> None:
    """Branch 570 below a stack that needs 580."""
    node.edit("580.95.05", "570.133.20")
    node.edit("<cuda_version>13.0", "<cuda_version>12.8")
    version = str(node.files["proc/driver/nvidia/version"]).replace("580.95.05", "570.133.20")
    node.files["proc/driver/nvidia/version"] = version
    del node.files["usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05"]
    node.files["usr/lib/x86_64-linux-gnu/libcuda.so.570.133.20"] = ""


def proprietary(node: Node) -> None:
    """The proprietary kernel module, which finds no Blackwell card."""
    node.smi("No devices were found\n", 6)
    node.files["proc/driver/nvidia/version"] = (
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025\n"
        "GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n"
    )


def other_process(node: Node) -> None:
    """Somebody's training run on card 5, and memory that a container holds on card 6."""
    process = (
        "<process_info>\n<gpu_instance_id>N/A</gpu_instance_id>\n<pid>4242</pid>\n<type>C</type>\n"
        "<process_name>python & train</process_name>\n<used_memory>40960 MiB</used_memory>\n"
        "</process_info>\n"
    )
    node.edit(r"<processes>\s*</processes>", f"<processes>{process}</processes>", card=5)
    node.edit(
        "<used>0 MiB</used>\n\t\t\t<free>97251", "<used>30000 MiB</used>\n\t\t\t<free>67251", 6
    )
    node.files["proc/4242/cgroup"] = "0::/user.slice/user-1000.slice/session-7.scope\n"


def our_engine(node: Node) -> None:
    """The engine serves on every card: nothing is wrong with that."""
    process = (
        "<process_info>\n<pid>777</pid>\n<type>C</type>\n"
        "<process_name>sglang::scheduler_TP0</process_name>\n<used_memory>90000 MiB</used_memory>\n"
        "</process_info>\n"
    )
    node.edit(r"<processes>\s*</processes>", f"<processes>{process}</processes>")
    node.edit("<gpu_util>0 %", "<gpu_util>100 %")
    node.edit("<performance_state>P8", "<performance_state>P1")
    node.edit("<current_link_gen>1", "<current_link_gen>5")
    node.edit("<used>0 MiB</used>\n\t\t\t<free>97251", "<used>90637 MiB</used>\n\t\t\t<free>6614")
    node.files["proc/777/cgroup"] = "0::/system.slice/sglang.service\n"
    node.files["proc/777/limits"] = (
        (RECORDINGS / "h200/limits.txt").read_text().replace("20000 ", "1048576 ")
    )
    text, _ = node.programs["systemctl"][UNIT]
    node.prints("systemctl", UNIT, text.replace("MainPID=0", "MainPID=777"))


def small_bar1(node: Node) -> None:
    """Cards in the mode with displays: 256 MiB of BAR1."""
    node.edit("<total>131072 MiB", "<total>256 MiB")


def slow_links(node: Node) -> None:
    """One card in a slot with 8 lanes, one in a slot of generation 4, one slow under load."""
    node.edit("<current_link_width>16x", "<current_link_width>8x", card=0)
    node.edit("<max_host_link_gen>5", "<max_host_link_gen>4", card=1)
    node.edit("<performance_state>P8", "<performance_state>P0", card=2)
    node.edit("<gpu_util>0 %", "<gpu_util>3 %", card=2)


def no_peers(node: Node) -> None:
    """A chipset that keeps the cards from each other."""
    for kind in "rw":
        node.prints("nvidia-smi", f"topo -p2p {kind}", matrix("CNS"))


def tunable(node: Node) -> None:
    """What kernel arguments and module options would cure: HMM, ASPM."""
    node.files["sys/module/nvidia_uvm/parameters/uvm_disable_hmm"] = "N\n"
    node.edit("<addressing_mode>None", "<addressing_mode>HMM")
    for card in range(CARDS):
        content = config_space(0x2BB510DE, 0, 1, 16, aspm=2)
        node.files[f"sys/devices/{place(card)}/config"] = content
    node.files["proc/cmdline"] = "BOOT_IMAGE=/vmlinuz root=UUID=x ro pci=nommconf,noaer iommu=pt\n"


def broken_memory(node: Node) -> None:
    """Memory errors in three stages."""
    node.edit("<remapped_row_failure>No", "<remapped_row_failure>Yes", card=1)
    node.edit("<remapped_row_pending>No", "<remapped_row_pending>Yes", card=4)
    node.edit(r"(<volatile>(?:.|\n)*?)<dram_uncorrectable>0", r"\g<1><dram_uncorrectable>3", card=4)
    node.log(f"NVRM: Xid (PCI:{bus(4)[:-2]}): 63, Row Remapper: New row marked for remapping")


def tight_limits(node: Node) -> None:
    """A container's /dev/shm, and a drop-in that lowers the unit's limits."""
    mounts = str(node.files["proc/self/mounts"])
    node.files["proc/self/mounts"] = mounts.replace("size=395000000k", "size=65536k")
    node.prints(
        "systemctl",
        UNIT,
        "LoadState=loaded\nMainPID=0\nEnvironment=\nLimitMEMLOCK=8388608\n"
        "LimitNOFILE=4096\nLimitSTACK=8388608\n",
    )


def tired_host(node: Node) -> None:
    """Weights on ZFS, memory in swap, a clock on its own, pages that wander."""
    node.files["proc/self/mounts"] = (
        "rpool/ROOT / zfs rw,xattr 0 0\ntmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n"
    )
    used = 5 * GIB_KIB
    node.files["proc/swaps"] = (
        "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
        f"/dev/zd0                                partition\t8388604\t\t{used}\t\t-2\n"
    )
    node.prints("timedatectl", CLOCK, "NTPSynchronized=no\n")
    node.files["proc/sys/kernel/numa_balancing"] = "1\n"


def foreign_libraries(node: Node) -> None:
    """A compatibility package on the loader's path, something preloaded, a path in the unit."""
    node.files["etc/ld.so.conf.d/000_cuda.conf"] = "/usr/local/cuda-13.0/compat\n"
    node.files["usr/local/cuda-13.0/compat/libcuda.so.580.65.06"] = ""
    node.files["etc/ld.so.preload"] = "/usr/local/vgpu/libvgpu.so\n"
    text, status = node.programs["systemctl"][UNIT]
    text = text.replace("Environment=", "Environment=LD_LIBRARY_PATH=/usr/local/cuda/lib64")
    node.prints("systemctl", UNIT, text, status)


def stuck(node: Node) -> None:
    """A card that computes for nobody after its process was killed, and one that wants a reset."""
    node.edit("<gpu_util>0 %", "<gpu_util>100 %", card=7)
    node.edit("<gpu_recovery_action>None", "<gpu_recovery_action>Reset", card=0)
    node.edit("hw_power_brake_slowdown>Not Active", "hw_power_brake_slowdown>Active", card=0)
    node.log(f"NVRM: Xid (PCI:{bus(7)[:-2]}): 43, pid=4242, name=python, channel 0x00000008")


def no_tools(node: Node) -> None:
    """A host without nvidia-smi, systemd's tools and a readable log."""
    node.programs.clear()


def odd_output(node: Node) -> None:
    """An nvidia-smi that prints half of its XML."""
    text, _ = node.programs["nvidia-smi"][QUERY]
    node.prints("nvidia-smi", QUERY, text[: len(text) // 2])


def mixed_cards(node: Node) -> None:
    """Another kind of card in one slot, with an older capability, persistence off."""
    node.edit("NVIDIA RTX PRO 6000 Blackwell Server Edition", "NVIDIA L40S", card=6)
    node.edit("<persistence_mode>Enabled", "<persistence_mode>Disabled")
    lines = [f"{uuid(card)}, {'8.9' if card == 6 else '12.0'}\n" for card in range(CARDS)]
    node.prints("nvidia-smi", CAPABILITY, "".join(lines))


def worn_bus(node: Node) -> None:
    """Uncorrected errors on a card's path, cards without a NUMA node, a Turin processor."""
    total = "Undefined 0\nTOTAL_ERR_FATAL 2\n"
    node.files[f"sys/devices/{bridges(2)[0]}/aer_dev_fatal"] = total
    for card in range(CARDS):
        node.files[f"sys/devices/{place(card)}/numa_node"] = "-1\n"
    node.files["proc/cpuinfo"] = "model name\t: AMD EPYC 9575F 64-Core Processor\n"


CASES: dict[str, Case] = {
    "good": Case(no_change, {}),
    "serving": Case(our_engine, {}),
    "no-driver": Case(
        no_driver,
        {"driver": "fail", "nouveau": "fail"},
        {"driver": "not installed", "gpu_count": "8 on the bus"},
    ),
    "mismatch": Case(
        mismatch,
        {"driver": "fail", "driver_mismatch": "fail"},
        {"driver_mismatch": "kernel module 580.95.05, library 580.105.08"},
    ),
    "quiet-mismatch": Case(quiet_mismatch, {"driver_mismatch": "fail"}),
    "fallen-card": Case(
        fallen_card,
        {"gpu_count": "fail", "xid_fatal": "fail"},
        {"gpu_count": "7 in nvidia-smi, 8 on the bus", "xid_fatal": "Xid 79 at 0000:71:00"},
    ),
    "lost-card": Case(lost_card, {"driver": "fail"}, {"driver": "a GPU is lost"}),
    "mig": Case(mig, {"mig": "fail"}, {"mig": "GPU 2: MIG is on"}),
    "acs": Case(acs, {"acs": "fail"}, {"acs": "on 16 of 24 bridges"}),
    "iommu": Case(iommu, {"iommu": "fail"}, {"iommu": "translating for 8 card(s): DMA-FQ"}),
    "old-driver": Case(
        old_driver, {"driver_version": "fail"}, {"driver_version": "driver 570.133.20"}
    ),
    "proprietary": Case(
        proprietary,
        {"driver": "fail", "driver_module": "fail"},
        {"driver": "No devices were found", "driver_module": "proprietary"},
    ),
    "other-process": Case(
        other_process,
        {"gpu_processes": "fail"},
        {"gpu_processes": "GPU 5: pid 4242 (python & train, session-7.scope) holds 40960 MiB"},
    ),
    "small-bar1": Case(small_bar1, {"bar1": "fail"}, {"bar1": "BAR1 256 MiB for 97887 MiB"}),
    "slow-links": Case(
        slow_links,
        {"pcie_link": "warn"},
        {"pcie_link": "GPU 0: x8 of x16; GPU 1: the slot allows generation 4 of 5; GPU 2: "},
    ),
    "no-peers": Case(no_peers, {"p2p": "warn"}, {"p2p": "chipset not supported for 56 of 56"}),
    "tunable": Case(
        tunable,
        {"hmm": "warn", "aspm": "warn", "kernel_arguments": "warn"},
        {"kernel_arguments": "pci=nommconf", "hmm": "addressing mode HMM"},
    ),
    "broken-memory": Case(
        broken_memory,
        {
            "row_remap_failure": "fail",
            "row_remap_pending": "warn",
            "ecc_errors": "warn",
            "xid": "warn",
        },
        {"ecc_errors": "GPU 4: 3 uncorrected"},
    ),
    "tight-limits": Case(
        tight_limits,
        {"shm": "fail", "memlock": "warn", "nofile": "warn", "stack_limit": "warn"},
        {"shm": "0.1 GiB, 16.0 GiB wanted"},
    ),
    "tired-host": Case(
        tired_host,
        {"zfs": "warn", "swap": "warn", "time_sync": "warn", "numa_balancing": "warn"},
        {"swap": "5.0 of 8.0 GiB in use"},
    ),
    "foreign-libraries": Case(
        foreign_libraries,
        {"cuda_compat": "fail", "preload": "warn", "library_path": "warn"},
        {"cuda_compat": "/usr/local/cuda-13.0/compat"},
    ),
    "stuck": Case(
        stuck,
        {"gpu_recovery": "fail", "gpu_slowdown": "warn", "xid": "warn"},
        {"gpu_recovery": "GPU 7: 100 % busy without a process"},
    ),
    "no-tools": Case(
        no_tools,
        {
            "driver": "fail",
            "xid_fatal": "warn",
            "memlock": "warn",
            "nofile": "warn",
            "stack_limit": "warn",
            "time_sync": "warn",
        },
        {"xid_fatal": "cannot be read: missing"},
    ),
    "odd-output": Case(odd_output, {"driver": "fail"}, {"driver": "no <nvidia_smi_log>"}),
    "mixed-cards": Case(
        mixed_cards,
        {"gpu_names": "warn", "gpu_capability": "warn", "persistence": "warn"},
        {"gpu_names": "GPU 6: is NVIDIA L40S"},
    ),
    "worn-bus": Case(
        worn_bus,
        {"aer": "warn", "numa": "warn", "nccl_model": "warn"},
        {"aer": "2 uncorrected"},
    ),
}
