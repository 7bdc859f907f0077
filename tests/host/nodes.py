# SPDX-License-Identifier: Apache-2.0
"""Recorded nodes: trees of /proc, /sys and small programs that print recordings.

A tree is read by `node_facts` with `host_root`. The good node has 8 RTX PRO 6000 behind two
processors, each card below a root port and a switch; every other case is that node with one thing
wrong. All are derived, see `tests/recordings/host/README.md`.

    python -m tests.host.nodes FOLDER [CASE...]     writes trees, of every case or of some
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

RECORDINGS = Path(__file__).parents[1] / "recordings/host"
CARDS = 8
GIB_KIB = 1 << 20

_PROGRAM = """#!/bin/sh
folder=${{0%/*}}/../share/{tool}
case "$*" in
{cases}
*) echo "{tool}: no recording of $*" >&2; exit 9 ;;
esac
"""
_CASE = """'{words}') /bin/cat "$folder/{name}"; exit {status} ;;"""
QUERY = "-q -x"
CAPABILITY = "--query-gpu=uuid,compute_cap --format=csv,noheader"
JOURNAL = "--dmesg --boot --no-pager --quiet --lines=50000"
UNIT = (
    "show sglang.service "
    "--property=LoadState,MainPID,Environment,LimitMEMLOCK,LimitNOFILE,LimitSTACK"
)
CLOCK = "show --property=NTPSynchronized"


def bus(card: int) -> str:
    """Address of a card, as sysfs writes it."""
    return f"0000:{0x41 + card * 0x10 if card < 4 else 0xC1 + (card - 4) * 0x10:02x}:00.0"


@dataclass
class Node:
    """A recorded node.

    Attributes:
        programs: Tool to command line (without the tool) to what it prints and its exit status.
        files: Path below the root to content.
        links: Path below the root to where it points.
    """

    programs: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict)
    files: dict[str, str | bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    def prints(self, tool: str, words: str, text: str, status: int = 0) -> None:
        """Set what a tool prints."""
        self.programs.setdefault(tool, {})[words] = (text, status)

    def smi(self, text: str, status: int) -> None:
        """Let nvidia-smi fail alike for whatever it is asked."""
        for words in list(self.programs["nvidia-smi"]):
            self.prints("nvidia-smi", words, text, status)

    def edit(self, old: str, new: str, card: int | None = None) -> None:
        """Change the query's XML, of one card or of all.

        Args:
            old: A regular expression that has to be there.
            new: Its replacement.
            card: The card; None for the whole text.
        """
        text, status = self.programs["nvidia-smi"][QUERY]
        parts = re.split(r"(?=\t<gpu id)", text)
        chosen = range(len(parts)) if card is None else [card + 1]
        changed = [
            re.sub(old, new, part) if number in chosen else part
            for number, part in enumerate(parts)
        ]
        assert changed != parts, old
        self.prints("nvidia-smi", QUERY, "".join(changed), status)

    def log(self, *lines: str) -> None:
        """Add lines to the kernel's log."""
        text, _ = self.programs["journalctl"][JOURNAL]
        stamped = [f"Nov 29 03:14:15 node kernel: {line}\n" for line in lines]
        self.prints("journalctl", JOURNAL, text + "".join(stamped))

    def write(self, root: Path) -> None:
        """Write the tree."""
        for tool, answers in self.programs.items():
            folder = root / "usr/share" / tool
            folder.mkdir(parents=True, exist_ok=True)
            cases = []
            for number, (words, (text, status)) in enumerate(answers.items()):
                (folder / str(number)).write_text(text)
                cases.append(_CASE.format(words=words, name=number, status=status))
            program = root / "usr/bin" / tool
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(_PROGRAM.format(tool=tool, cases="\n".join(cases)))
            program.chmod(0o755)
        for name, content in self.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        for name, target in self.links.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)


def config_space(
    identity: int, kind: int, generation: int, width: int, *, acs: int | None = 0, aspm: int = 0
) -> bytes:
    """Configuration space of a PCI Express device with AER and, unless None, ACS control bits."""
    space = bytearray(4096)

    def put(offset: int, size: int, value: int) -> None:
        space[offset : offset + size] = value.to_bytes(size, "little")

    put(0x00, 4, identity)
    put(0x06, 2, 0x0010)  # has capabilities
    put(0x0E, 1, 0 if kind == 0 else 1)
    put(0x34, 1, 0x60)
    put(0x60, 2, 0x7801)  # power management, next at 0x78
    put(0x78, 2, 0x0010)  # PCI Express, the last
    put(0x7A, 2, 2 | kind << 4)
    put(0x84, 4, 5 | 16 << 4)
    put(0x88, 2, aspm)
    put(0x8A, 2, generation | width << 4)
    put(0x100, 4, 0x1480_0001 | 1 << 16)  # AER, next at 0x148
    if acs is not None:
        put(0x148, 4, 0x0001_000D)
        put(0x14C, 2, 0x005F)
        put(0x14E, 2, acs)
    return bytes(space)


def _device(node: Node, path: str, kind: str, content: bytes) -> None:
    """Add a device below /sys/devices, and its link on the bus."""
    place = f"sys/devices/{path}"
    node.files[f"{place}/config"] = content
    node.files[f"{place}/class"] = f"{kind}\n"
    node.files[f"{place}/vendor"] = f"0x{content[1]:02x}{content[0]:02x}\n"
    node.files[f"{place}/device"] = f"0x{content[3]:02x}{content[2]:02x}\n"
    for name in ("aer_dev_fatal", "aer_dev_nonfatal"):
        node.files[f"{place}/{name}"] = "Undefined 0\nDLP 0\nTOTAL_ERR_X 0\n".replace(
            "TOTAL_ERR_X", f"TOTAL_ERR_{name[8:].upper()}"
        )
    address = path.rpartition("/")[2]
    node.links[f"sys/bus/pci/devices/{address}"] = f"../../../devices/{path}"


def bridges(card: int) -> list[str]:
    """Path of the bridges above a card: root port, switch upstream and downstream port."""
    socket, number = divmod(card, 4)
    upper = int(bus(card)[5:7], 16)
    root = f"pci0000:{0x40 + socket * 0x80:02x}/0000:{0x40 + socket * 0x80:02x}:{number + 1:02x}.1"
    return [
        root,
        f"{root}/0000:{upper - 2:02x}:00.0",
        f"{root}/0000:{upper - 2:02x}:00.0/0000:{upper - 1:02x}:00.0",
    ]


def place(card: int) -> str:
    """Folder of a card below /sys/devices."""
    return f"{bridges(card)[-1]}/{bus(card)}"


def _cards(node: Node) -> None:
    text = (RECORDINGS / "derived/query-blackwell.xml").read_text()
    start, end = text.index("\t<gpu id"), text.index("\n</nvidia_smi_log>")
    blocks = [
        text[start:end]
        .replace("00000000:03:00.0", f"0000{bus(card)}".upper())
        .replace("GPU-00000000-0000-0000-0000-000000000000", uuid(card))
        for card in range(CARDS)
    ]
    query = text[:start].replace("<attached_gpus>1", f"<attached_gpus>{CARDS}") + "".join(blocks)
    node.prints("nvidia-smi", QUERY, query + text[end:])
    lines = [f"{uuid(card)}, 12.0\n" for card in range(CARDS)]
    node.prints("nvidia-smi", CAPABILITY, "".join(lines))
    node.prints("nvidia-smi", "topo -m", (RECORDINGS / "derived/topo-8.txt").read_text())
    for way in "rw":
        node.prints("nvidia-smi", f"topo -p2p {way}", matrix("OK"))
    for card in range(CARDS):
        for number, path in enumerate(bridges(card)):
            kind, identity = ((4, 0x14AB1022), (5, 0xC0301000), (6, 0xC0301000))[number]
            _device(node, path, "0x060400", config_space(identity, kind, 5, 16))
        _device(node, place(card), "0x030200", config_space(0x2BB510DE, 0, 1, 16))
        folder = f"sys/devices/{place(card)}"
        node.files[f"{folder}/numa_node"] = f"{card // 4}\n"
    # A bridge with no card below may redirect as it likes.
    _device(
        node, "pci0000:00/0000:00:01.1", "0x060400", config_space(0x14AB1022, 4, 4, 4, acs=0x1D)
    )


def uuid(card: int) -> str:
    """A card's UUID."""
    return f"GPU-00000000-0000-0000-0000-0000000000{card:02d}"


def matrix(state: str) -> str:
    """What `nvidia-smi topo -p2p` prints when all pairs have one state."""
    names = [f"GPU{card}" for card in range(CARDS)]
    lines = [" \t\x1b[4m" + "\t".join(names) + "\t\x1b[0m"]
    for row in names:
        cells = ["X" if row == column else state for column in names]
        lines.append(f" {row}\t" + "\t".join(cells) + "\t")
    return "\n".join([*lines, "", "Legend:", "", "  X    = Self", "  OK   = Status Ok", ""])


def good() -> Node:
    """A node without a fault."""
    node = Node()
    _cards(node)
    node.prints("journalctl", JOURNAL, (RECORDINGS / "h200/kernel.log").read_text())
    node.prints(
        "systemctl",
        UNIT,
        "LoadState=loaded\nMainPID=0\nEnvironment=\nLimitMEMLOCK=infinity\n"
        "LimitNOFILE=1048576\nLimitSTACK=67108864\n",
    )
    node.prints("timedatectl", CLOCK, "NTPSynchronized=yes\n")
    version = (RECORDINGS / "h200/version.txt").read_text().replace("580.159.04", "580.95.05")
    node.files |= {
        "proc/driver/nvidia/version": version,
        "sys/module/nvidia_uvm/parameters/uvm_disable_hmm": "Y\n",
        "sys/module/pcie_aspm/parameters/policy": "[default] performance powersave\n",
        "usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05": "",
        "proc/cmdline": "BOOT_IMAGE=/vmlinuz root=UUID=x ro iommu=pt pcie_aspm=off\n",
        "proc/cpuinfo": "model name\t: AMD EPYC 9354 32-Core Processor\n",
        "proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
        "proc/self/mounts": (
            "/dev/nvme0n1p2 / ext4 rw,relatime 0 0\n"
            "tmpfs /dev/shm tmpfs rw,nosuid,nodev,size=395000000k,inode64 0 0\n"
        ),
        "proc/sys/kernel/numa_balancing": "0\n",
        "proc/sys/fs/nr_open": "1048576\n",
        "proc/sys/vm/nr_hugepages": "0\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "sys/devices/system/node/node0/meminfo": "",
        "sys/devices/system/node/node1/meminfo": "",
        "sys/class/iommu/ivhd0/uevent": "",
        "etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n",
        "etc/ld.so.conf.d/libc.conf": "# libc default configuration\n/usr/local/lib\n",
    }
    for card in range(CARDS):
        node.files[f"sys/devices/{place(card)}/iommu_group/type"] = "identity\n"
    return node


def main(folder: Path, names: list[str]) -> None:
    """Write the cases' trees."""
    from tests.host.cases import CASES

    for name in names or CASES:
        CASES[name].build().write(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
