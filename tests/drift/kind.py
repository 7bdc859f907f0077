# SPDX-License-Identifier: Apache-2.0
"""How a change by hand is written down, and where on a node the product's things are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

UNIT = "/etc/systemd/system/sglang.service"
ENVIRONMENT, SECRETS = "/etc/sglang/engine.env", "/etc/sglang/secrets.yaml"
RELEASE = "$(readlink -f /opt/sglang/current)"
PACKAGES = f"$(echo {RELEASE}/venv/lib/python3*/site-packages)"
CACHE = "/opt/sglang/cache/$(basename $(readlink /opt/sglang/current))"
MODEL = "/var/lib/sglang/models/kimi-lab/1"
WEIGHTS = f"$(ls {MODEL}/*.safetensors | head -1)"
OPTIONS = "/etc/modprobe.d/sglang-nvidia.conf"
GRUB = "/etc/default/grub.d/60-sglang.cfg"
LAUNCH = "/etc/sglang/launches/$(readlink /etc/sglang/launches/serving)"
DROP_IN = "/etc/systemd/system/sglang.service.d/by-hand.conf"


@dataclass(frozen=True)
class Kind:
    """One change by hand.

    Attributes:
        role: Under which role the plan tells it.
        change: Shell, run as root on the node.
        says: What the plan says, in this order; how long it gets is its own matter.
        mended: A shell condition that holds after the next run.
        restarts: Whether the engine restarts for it.
        extra: Variables of the run that mends it.
    """

    role: str
    change: str
    says: tuple[str, ...]
    mended: str
    restarts: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)


def stat(path: str, wanted: str, form: str = "%a") -> str:
    """A condition on a file's mode (`%a`) or owner (`%U:%G`)."""
    return f'test "$(stat -c {form} {path})" = {wanted}'


def add_drop_in(text: str, path: str = DROP_IN) -> str:
    """Shell that writes a drop-in."""
    return f"mkdir -p $(dirname {path}); printf '[Service]\\n{text}\\n' > {path}"
