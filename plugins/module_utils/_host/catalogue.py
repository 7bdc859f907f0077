# SPDX-License-Identifier: Apache-2.0
"""Every check of a node: why it is made, where that is known from, and what to do.

One home for these texts: the verdicts, the table of `playbooks/preflight.yml` and
`docs/preflight.md` take them from here. A source `repo#number` is a public issue or pull request;
"rtx6kpro" is the community's collection of notes on RTX PRO 6000 nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

KERNEL = "cuda_stack_kernel_arguments"
MODULES = "cuda_stack_module_options"


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        why: What happens on a node that does not pass.
        source: Where that is known from; empty where it follows from the product itself.
        remedy: What to do, where the check itself has nothing more exact to say.
    """

    why: str
    source: str
    remedy: str


DEPLOYMENT = {
    "system": Check(
        "packages, C library and kernel are those of the systems that were tested",
        "",
        "install a supported system",
    ),
    "python": Check(
        "the stack's wheels exist for certain Python versions only",
        "",
        "install one of them, or set engine_release_python",
    ),
    "glibc": Check(
        "SGLang's wheels since 0.5.11 are manylinux_2_34; an older C library cannot load them",
        "wheel metadata of sglang 0.5.11",
        "choose a stack for this system, or a newer system",
    ),
    "memory": Check(
        "weights pass through host memory while they are loaded",
        "",
        "lower preflight_memory_gib only if you know that the models fit",
    ),
    "disk": Check(
        "a file system that fills up half-way leaves a release or weights unfinished",
        "",
        "free space there, or move the folder to a larger file system",
    ),
    "port": Check(
        "the engine could not bind its port after it had read all weights",
        "",
        "stop who holds it, or choose another engine_port",
    ),
    "unit_masked": Check(
        "systemd refuses to start a masked unit",
        "",
        "systemctl unmask, if nobody masked it on purpose",
    ),
}

DRIVER = {
    "driver": Check(
        "without a working driver there is no CUDA",
        "",
        "install driver branch 580 or newer with its open kernel modules",
    ),
    "driver_mismatch": Check(
        "an upgrade in the background replaced the library while the old kernel module runs; "
        "every new CUDA process fails until the two agree",
        "pando85/homelab#4110",
        "reboot the node; keep the driver's packages from unattended upgrades",
    ),
    "driver_version": Check(
        "CUDA of the stack refuses a driver older than it was built for",
        "",
        "upgrade the driver (cuda_stack), or choose a stack for this one",
    ),
    "driver_module": Check(
        "Blackwell cards work with the open kernel modules only; the proprietary ones find no "
        "devices",
        "NVIDIA driver guide, kernel modules",
        "install the open flavour (nvidia-open, nvidia-driver-580-open) and reboot",
    ),
    "nouveau": Check(
        "nouveau holds the cards, and the NVIDIA module cannot take them",
        "NVIDIA driver guide",
        "block nouveau, rebuild the initramfs and reboot",
    ),
    "persistence": Check(
        "without persistence the driver shuts the cards down when nothing uses them, and each "
        "start of a process initialises all of them anew",
        "NVIDIA driver persistence documentation",
        "systemctl enable --now nvidia-persistenced",
    ),
}

GPUS = {
    "gpu_count": Check(
        "the engine spans a fixed number of cards and does not start with fewer",
        "",
        "compare with `lspci -d 10de:`; a card missing on the bus is a matter of slot, riser or "
        "power, one missing in nvidia-smi alone of the driver's log (`journalctl -k`)",
    ),
    "gpu_names": Check(
        "tensor parallelism goes at the pace and with the memory of the weakest card; tuned "
        "kernels are chosen by the card's name",
        "",
        "remove the odd card, or set preflight_gpu_names",
    ),
    "gpu_capability": Check(
        "stack and patches are made for these capabilities; elsewhere kernels may be missing",
        "sglang#12178",
        "choose a stack for this card, or set preflight_gpu_capabilities",
    ),
    "mig": Check(
        "a card cut into MIG instances has no peer access, and one process sees one instance",
        "NVIDIA MIG user guide",
        "nvidia-smi -mig 0, then reset the card or reboot",
    ),
    "gpu_processes": Check(
        "72 GB of weights a card leave no room for anybody else; the engine would run out of "
        "memory after the whole load",
        "sglang#23627",
        "stop what is named here; it is never stopped for you",
    ),
    "gpu_recovery": Check(
        "a card that asks for a reset, or computes at 100 % for nobody after a killed process, "
        "hangs the next engine too",
        "local-inference-lab/rtx6kpro#15",
        "stop the engine, then reboot; where cards stay away, switch the node's power off",
    ),
    "gpu_slowdown": Check(
        "hardware slows the card down: too hot, or too little power",
        "",
        "look at cooling, power cables and power supplies",
    ),
    "row_remap_failure": Check(
        "the card has broken memory that it cannot replace",
        "NVIDIA GPU memory error management",
        "replace the card",
    ),
    "row_remap_pending": Check(
        "broken memory rows are replaced at the next reset; until then errors go on",
        "NVIDIA GPU memory error management",
        "reboot the node while no engine serves",
    ),
    "ecc_errors": Check(
        "uncorrected memory errors kill the processes that meet them",
        "NVIDIA Xid documentation (48, 63, 64, 94, 95)",
        "reboot; a card that shows them again has to be replaced",
    ),
    "xid_fatal": Check(
        "after these errors a card is off the bus or its firmware is dead; the next start hangs "
        "or fails",
        "open-gpu-kernel-modules#1151, #1104, #1353",
        "collect the log (nvidia-bug-report.sh), reboot; where cards stay away, switch the "
        "node's power off",
    ),
    "xid": Check(
        "a process met an error of the card or its own; it names what died before",
        "NVIDIA Xid documentation",
        "look the code up; nothing to do where the cause is known",
    ),
}

PCIE = {
    "bar1": Check(
        "a card whose memory is not mapped as a whole cannot be written by its peers; with peer "
        "access asked for, NCCL hangs or falls back to host memory",
        "club-3090#874",
        "enable Above 4G Decoding and Resizable BAR in the firmware; on workstation cards set "
        "displaymodeselector to physical_display_disabled",
    ),
    "pcie_link": Check(
        "all-reduce over PCIe goes at the pace of the narrowest link",
        "",
        "reseat card, riser and cable; look for a slot with fewer lanes and for its firmware "
        "setting",
    ),
    "p2p": Check(
        "cards that cannot reach each other directly exchange everything through host memory; "
        "that `OK` stands here does not prove that the traffic arrives",
        "club-3090#873",
        "look at acs, iommu and bar1 first; to serve without peer access set NCCL_P2P_DISABLE=1",
    ),
    "topology": Check(
        "cards of several sockets talk through the processors' interconnect",
        "rtx6kpro, NCCL tuning",
        "name the level instead of numbers: NCCL_P2P_LEVEL=SYS, or PHB",
    ),
    "numa": Check(
        "memory of the wrong node makes loading and host traffic slow",
        "sglang#19452",
        "enable NUMA and ACPI SRAT in the firmware",
    ),
    "acs": Check(
        "redirect bits send traffic between cards up to the root complex: with an IOMMU it hangs "
        "there, without it is slow. The bits come back at each boot",
        "nccl#2079, nccl#1999",
        "disable ACS in the firmware, or clear the bits at each boot "
        "(setpci -s ADDRESS ECAP_ACS+6.w=0000)",
    ),
    "iommu": Check(
        "an IOMMU that translates the cards' addresses blocks their traffic with each other: "
        "the first all-reduce hangs with the weights loaded",
        "nccl#1999, vllm#33041",
        f'{KERNEL}: ["iommu=pt"] (or iommu=off), then reboot',
    ),
    "hmm": Check(
        "with heterogeneous memory management peer traffic locked nodes up",
        "rtx6kpro, NCCL tuning",
        f"{MODULES}: {{nvidia_uvm: uvm_disable_hmm=1}}, then reboot",
    ),
    "aspm": Check(
        "links that save power drop out under load (Surprise Link Down)",
        "rtx6kpro, PCIe errors",
        f'{KERNEL}: ["pcie_aspm=off", "pcie_port_pm=off"], then reboot',
    ),
    "aer": Check(
        "uncorrected PCIe errors come before a card falls off the bus",
        "rtx6kpro, PCIe errors",
        "reseat card, riser and cable; a lower PCIe generation in the firmware often helps",
    ),
    "kernel_arguments": Check(
        "these arguments are known to break or slow down nodes with many cards",
        "rtx6kpro",
        "take the argument out of GRUB_CMDLINE_LINUX, then reboot",
    ),
    "nccl_model": Check(
        "NCCL's bandwidth model is wrong for this processor and picks a slow ring: 876 instead "
        "of 7478 tokens per second in prefill were seen",
        "nccl#2127",
        "measure with a topology of your own (NCCL_GRAPH_FILE)",
    ),
}

HOST = {
    "shm": Check(
        "NCCL and the engine's processes share memory there; too little of it stops them",
        "nccl#342, nccl#290",
        "mount /dev/shm with size=N in /etc/fstab, then mount -o remount /dev/shm",
    ),
    "memlock": Check(
        "CUDA and NCCL pin memory; limits of limits.conf do not reach a unit",
        "ai4d-iasc/trixie#81",
        "remove the drop-in that lowers LimitMEMLOCK of the engine's unit",
    ),
    "nofile": Check(
        "sockets, shared memory and shards of weights all take file descriptors",
        "ai4d-iasc/trixie#81",
        "raise fs.nr_open; remove the drop-in that lowers LimitNOFILE of the engine's unit",
    ),
    "stack_limit": Check(
        "the loaders and kernel compilers of the engine run deep; NVIDIA's own containers ask for "
        "64 MiB of stack",
        "NVIDIA container documentation, --ulimit stack=67108864",
        "remove the drop-in that lowers LimitSTACK of the engine's unit",
    ),
    "swap": Check(
        "swapped memory of the scheduler stalls every token",
        "",
        "find what filled the memory; swapoff -a when it is free again",
    ),
    "time_sync": Check(
        "certificates, tokens and logs of several nodes need one time",
        "",
        "enable systemd-timesyncd or chrony",
    ),
    "hugepages": Check(
        "reported only: results for other engines go both ways, and nothing is known for SGLang",
        "llama.cpp#21821",
        "",
    ),
    "zfs": Check(
        "the ARC takes half of the memory while 600 GB are read, and nodes with GPUs froze",
        "rtx6kpro",
        "put weights on ext4 or xfs, or cap zfs_arc_max",
    ),
    "numa_balancing": Check(
        "the kernel moves pages between nodes while weights are loaded: hours instead of minutes",
        "ollama#6425",
        "sysctl kernel.numa_balancing=0",
    ),
    "cuda_compat": Check(
        "a compatibility libcuda on the loader's path replaces the driver's, and CUDA does not "
        "initialise where the two do not fit",
        "rtx6kpro, common issues",
        "take the folder out of /etc/ld.so.conf.d and run ldconfig, or remove cuda-compat-*",
    ),
    "preload": Check(
        "a preloaded library sits between engine and CUDA; one was seen to hang NCCL's start",
        "HAMi#2641",
        "take it out of the place that is named",
    ),
    "library_path": Check(
        "LD_LIBRARY_PATH puts other CUDA libraries before those of the release",
        "sglang#8131",
        "take it out of the place that is named; the release finds its own libraries",
    ),
    "privileges": Check(
        "without root, capabilities of bridges, the kernel's log and other users' processes "
        "cannot be read",
        "",
        "run as root, or with become",
    ),
}

REACHABLE = {
    "reachable": Check(
        "a node that cannot be read cannot be judged",
        "",
        "see the message; `ansible -m ping` repeats the attempt",
    )
}

GROUP = {
    "group_address": Check(
        "the nodes of one engine find each other by these addresses",
        "",
        "set engine_group_address to the node's address in the network that joins the GPUs",
    ),
    "group_loopback": Check(
        "a loopback address means another node on each of them: all wait for ever",
        "",
        "set engine_group_address",
    ),
    "group_reach": Check(
        "behind a firewall the nodes wait for each other until torch gives up, 10 minutes with "
        "NCCL, 30 with gloo",
        "torch.distributed.init_process_group",
        "let all TCP ports through between these nodes",
    ),
    "group_route": Check(
        "NCCL and gloo are bound to the interface of the node's own address",
        "",
        "set engine_group_address on all nodes to addresses of one network",
    ),
    "group_port": Check(
        "the head could not offer the rendezvous, and the other nodes would wait for it",
        "",
        "stop who holds it, or choose another engine_group_port",
    ),
}

CHECKS: dict[str, Check] = {**REACHABLE, **DEPLOYMENT, **GROUP, **DRIVER, **GPUS, **PCIE, **HOST}
# What no consent helps over: there is nothing to go on with.
NEVER_ACCEPTED = frozenset({"reachable", "python"})
