# SPDX-License-Identifier: Apache-2.0
"""Name what shapes an engine's speed, but for speculation: results compare under one such name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._bundle.redact import sensitive

# Where it listens and what it is called do not make it faster.
_NO_MATTER = {"host", "port", "served-model-name", "api-key", "admin-api-key", "config"}
_SPECULATIVE = "speculative-"
_SHAPES = (
    *("CUDA_", "FLASHINFER_", "NCCL_", "OMP_", "PYTORCH_", "SGLANG_", "SGL_", "TORCH", "TRITON_"),
    *("UCX_", "GLOO_", "MKL_"),
)
# Places of caches, the launch's own name, and what the pair of models decides.
_PLACES = ("_DIR", "_HOME", "_BASE", "_PATH")
_OWN = {"SGLANG_DEPLOY_LAUNCH", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"}


def arguments_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The launch arguments that shape speed, without speculation's, by name."""
    return {
        name: value
        for name, value in sorted(arguments.items())
        if name not in _NO_MATTER
        and not name.startswith(_SPECULATIVE)
        and not sensitive(name)
        and value is not None
        and value is not False
    }


def environment_of(environment: Mapping[str, Any]) -> dict[str, str]:
    """The environment variables that shape speed; none with a secret's name, no paths of caches."""
    return {
        name: str(int(value) if isinstance(value, bool) else value)
        for name, value in sorted(environment.items())
        if name.startswith(_SHAPES)
        and not name.endswith(_PLACES)
        and name not in _OWN
        and not sensitive(name)
    }


def fingerprint(speed: Mapping[str, Any]) -> str:
    """Name a stack on its hardware.

    Args:
        speed: `release` (its id, which covers packages, patches and SGLang), `driver`, `gpus`
            (names), `models` (digests), `arguments` and `environment` as they are configured; the
            share of memory as the inventory has it, since `auto` gives another with a draft.

    Returns:
        12 hexadecimal digits.
    """
    named = {
        **{name: speed[name] for name in ("release", "driver", "gpus", "models")},
        "arguments": arguments_of(speed["arguments"]),
        "environment": environment_of(speed["environment"]),
    }
    text = json.dumps(named, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
