# SPDX-License-Identifier: Apache-2.0
"""Releases, the engine's user, models and settings of the host, changed under a serving engine."""

from __future__ import annotations

from typing import Any

from .kind import (
    GRUB,
    MODEL,
    OPTIONS,
    PACKAGES,
    RELEASE,
    WEIGHTS,
    Kind,
    stat,
)

RELEASES = {
    "release-file-mode": Kind(
        "engine_release",
        f"chmod 0600 {PACKAGES}/sglang/srt/server_args.py",
        ("sglang/srt/server_args.py: mode is 600, not 644",),
        stat(f"{PACKAGES}/sglang/srt/server_args.py", "644"),
    ),
    "release-file-owner": Kind(
        "engine_release",
        f"chown sglang:sglang {PACKAGES}/torch/__init__.py",
        ("torch/__init__.py: owner is", "not 0:0"),
        stat(f"{PACKAGES}/torch/__init__.py", "root:root", "%U:%G"),
    ),
    "release-folder-mode": Kind(
        "engine_release",
        f"chmod 0777 {PACKAGES}/transformers",
        ("transformers: mode is 777, not 755",),
        stat(f"{PACKAGES}/transformers", "755"),
    ),
    "release-mode": Kind(
        "engine_release",
        f"chmod 0700 {RELEASE}",
        (".: mode is 700, not 755",),
        stat(RELEASE, "755"),
    ),
    "release-file-added": Kind(
        "engine_release",
        f"echo 'import os' > {PACKAGES}/by_hand.pth",
        ("by_hand.pth: added by hand",),
        f"test ! -e {PACKAGES}/by_hand.pth",
    ),
    "release-module-added": Kind(
        "engine_release",
        f"cp {PACKAGES}/sglang/version.py {PACKAGES}/sglang/srt/by_hand.py",
        ("sglang/srt/by_hand.py: added by hand",),
        f"test ! -e {PACKAGES}/sglang/srt/by_hand.py",
    ),
    "release-folder-added": Kind(
        "engine_release",
        f"mkdir -p {PACKAGES}/sitecustomize/inner; touch {PACKAGES}/sitecustomize/__init__.py",
        ("site-packages/sitecustomize: added by hand",),
        f"test ! -e {PACKAGES}/sitecustomize",
    ),
    "release-bytecode": Kind(
        "engine_release",
        f"cd {PACKAGES}/sglang/srt/__pycache__; f=$(ls server_args.*.pyc); "
        "head -c 100 /dev/zero > new; mv new $f",
        ("bytecode that does not belong to its source",),
        f"! ls {PACKAGES}/sglang/srt/__pycache__/server_args.*.pyc",
    ),
    "release-leftover": Kind(
        "engine_release",
        "mkdir /opt/sglang/releases/.building-by-hand",
        ("leftovers .building-by-hand: an earlier run was interrupted",),
        "test ! -e /opt/sglang/releases/.building-by-hand",
    ),
    "proof-removed": Kind(
        "engine_release_proof",
        "rm -r /opt/sglang/proofs",
        ("proof of imports: not made yet",),
        "ls /opt/sglang/proofs/*.json",
    ),
    "product-folder-mode": Kind(
        "engine_release_host",
        "chmod 0700 /opt/sglang",
        ("/opt/sglang: mode is 0700, not 0755",),
        stat("/opt/sglang", "755"),
    ),
    "product-folder-owner": Kind(
        "engine_release_host",
        "chown sglang:sglang /opt/sglang/releases",
        ("/opt/sglang/releases: owner is sglang, not root, group is sglang, not root",),
        stat("/opt/sglang/releases", "root:root", "%U:%G"),
    ),
    "product-folder-removed": Kind(
        "engine_release_host",
        "rm -r /opt/sglang/tools",
        ("/opt/sglang/tools: missing",),
        "test -d /opt/sglang/tools",
    ),
}

USER = {
    "user-shell": Kind(
        "engine_release_host",
        "sed -i '/^sglang:/s|:[^:]*$|:/bin/bash|' /etc/passwd",
        ("user sglang: shell is /bin/bash, not /usr/sbin/nologin",),
        "getent passwd sglang | grep -q :/usr/sbin/nologin$",
    ),
    "user-home": Kind(
        "engine_release_host",
        "sed -i '/^sglang:/s|:/var/lib/sglang:|:/run:|' /etc/passwd",
        ("user sglang: home is /run, not /var/lib/sglang",),
        "getent passwd sglang | grep -q :/var/lib/sglang:",
    ),
    "user-group": Kind(
        "engine_release_host",
        "sed -i -E '/^sglang:/s|^(sglang:x:[0-9]+:)[0-9]+|\\165534|' /etc/passwd",
        ("user sglang: group is nogroup, not sglang",),
        'test "$(id -gn sglang)" = sglang',
    ),
    "user-removed": Kind(
        "engine_release_host",
        "sed -i '/^sglang:/d' /etc/passwd /etc/shadow",
        ("user sglang: missing",),
        "id sglang",
    ),
}

MODELS = {
    "model-file-mode": Kind(
        "model_store",
        f"chmod 0666 {MODEL}/config.json",
        ("model kimi-lab 1: another mode or owner: config.json",),
        stat(f"{MODEL}/config.json", "644"),
    ),
    "model-file-owner": Kind(
        "model_store",
        f"chown sglang {WEIGHTS}",
        ("model kimi-lab 1: another mode or owner",),
        stat(WEIGHTS, "root:root", "%U:%G"),
    ),
    "model-folder-mode": Kind(
        "model_store",
        f"chmod 0700 {MODEL}",
        (f"{MODEL}: mode is 0700, not 0755",),
        stat(MODEL, "755"),
    ),
    "model-folder-owner": Kind(
        "model_store",
        "chown sglang /var/lib/sglang/models",
        ("/var/lib/sglang/models: owner is sglang, not root",),
        stat("/var/lib/sglang/models", "root:root", "%U:%G"),
    ),
}

HOST: dict[str, Any] = {
    "cuda_stack_module_options": {"nvidia_uvm": "uvm_disable_hmm=1"},
    "cuda_stack_kernel_arguments": ["iommu=pt"],
}


HOST_FILES = {
    "module-options-content": Kind(
        "cuda_stack",
        f"echo '# by hand' >> {OPTIONS}",
        (f"{OPTIONS}: content differs",),
        f"! grep -q 'by hand' {OPTIONS}",
    ),
    "module-options-removed": Kind(
        "cuda_stack", f"rm {OPTIONS}", (f"{OPTIONS}: missing",), f"test -s {OPTIONS}"
    ),
    "module-options-mode": Kind(
        "cuda_stack",
        f"chmod 0600 {OPTIONS}",
        (f"{OPTIONS}: mode is 0600, not 0644",),
        stat(OPTIONS, "644"),
    ),
    "module-options-owner": Kind(
        "cuda_stack",
        f"chown sglang {OPTIONS}",
        (f"{OPTIONS}: owner is sglang, not root",),
        stat(OPTIONS, "root:root", "%U:%G"),
    ),
    "kernel-arguments-content": Kind(
        "cuda_stack",
        f"sed -i s/iommu=pt/iommu=off/ {GRUB}",
        (f"{GRUB}: content differs",),
        f"grep -q iommu=pt {GRUB}",
    ),
    "kernel-arguments-link": Kind(
        "cuda_stack",
        f"mv {GRUB} /run/grub; ln -s /run/grub {GRUB}",
        (f"{GRUB}: content differs",),
        f"test ! -L {GRUB}",
    ),
}
HOST_FILES = {name: Kind(**{**vars(kind), "extra": HOST}) for name, kind in HOST_FILES.items()}
