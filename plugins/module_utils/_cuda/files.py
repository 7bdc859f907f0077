# SPDX-License-Identifier: Apache-2.0
"""Configuration files of the host that belong to the driver: what is in them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ansible_collections.sm120.sglang.plugins.module_utils._cuda.names import (
    FAMILY,
    CudaError,
    upstream,
)

PREFERENCES = "/etc/apt/preferences.d/00-sglang-nvidia"
SOURCE = "/etc/apt/sources.list.d/sglang-nvidia.sources"
KEYRING = "/etc/apt/keyrings/sglang-nvidia.asc"
UNATTENDED = "/etc/apt/apt.conf.d/52sglang-nvidia"
NOUVEAU = "/etc/modprobe.d/sglang-nouveau.conf"
OPTIONS = "/etc/modprobe.d/sglang-nvidia.conf"
GRUB = "/etc/default/grub.d/60-sglang.cfg"

_HEAD = "Written by the role sm120.sglang.cuda_stack; changes are overwritten."
# Read when the initial file system is made, which therefore has to be made anew after a change.
IN_INITRAMFS = (NOUVEAU, OPTIONS)


def preferences(version: str) -> str:
    """APT preferences that let one driver version in and no other.

    The first record that fits a version decides (apt_preferences(5)), so the order is: the exact
    version, the same driver in another packaging (fabric manager and the like), every other
    driver. Priorities above 1000 win against NVIDIA's pinning packages and allow a downgrade.

    Args:
        version: The full package version.

    Returns:
        The file's content.
    """
    own, family = upstream(version), " ".join(FAMILY)
    pattern = own.replace(".", r"\.")
    records = [
        (version, 1001),
        (rf"/^{pattern}-[0-9]+$/", 1001),
        (r"/^([0-9]+:)?[0-9]{3}\.[0-9]{2,3}(\.[0-9]{2})?-/", -1),
    ]
    body = "\n".join(
        f"Package: {family}\nPin: version {match}\nPin-Priority: {priority}\n"
        for match, priority in records
    )
    return (
        f"# {_HEAD}\n# To move the driver, change cuda_stack_driver_version or _branch.\n\n{body}"
    )


def unattended() -> str:
    """Settings that keep unattended-upgrades away from driver and toolkit."""
    names = ["^nvidia-", "^libnvidia-", "^libcuda1$", "^cuda-", "^firmware-nvidia-"]
    names += ["^xserver-xorg-video-nvidia", "^lib(cu|np|nv)[a-z]+-(dev-)?13-[0-9]+$"]
    lines = "".join(f'  "{name}";\n' for name in names)
    return f"// {_HEAD}\nUnattended-Upgrade::Package-Blacklist {{\n{lines}}};\n"


def nouveau() -> str:
    """Module settings that leave the cards to NVIDIA's driver."""
    return (
        f"# {_HEAD}\nblacklist nouveau\nblacklist nova_core\nblacklist nova_drm\n"
        "options nouveau modeset=0\n"
    )


def module_options(options: Mapping[str, str]) -> str:
    """Kernel module options, one line a module; empty without any.

    Args:
        options: Module to options, as in modprobe.d(5).

    Raises:
        CudaError: A module name or an option cannot stand in such a file.
    """
    lines = []
    for module, text in sorted(options.items()):
        if not re.fullmatch(r"[A-Za-z0-9_-]+", module) or not re.fullmatch(r"[^\n\\]+", str(text)):
            raise CudaError(f"cuda_stack_module_options: {module!r}: {text!r} is no module option")
        lines.append(f"options {module} {text}\n")
    return f"# {_HEAD}\n{''.join(lines)}" if lines else ""


def grub(arguments: Sequence[str]) -> str:
    """Kernel arguments for GRUB; empty without any.

    Args:
        arguments: One word each, like `iommu=pt`.

    Raises:
        CudaError: An argument has a character that the shell or GRUB would read.
    """
    for word in arguments:
        if not re.fullmatch(r"[A-Za-z0-9_.,:=/+@-]+", word):
            raise CudaError(f"cuda_stack_kernel_arguments: {word!r} is no kernel argument")
    if not arguments:
        return ""
    return (
        f'# {_HEAD}\nGRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT '
        f'{" ".join(arguments)}"\n'
    )
