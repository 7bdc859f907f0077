# SPDX-License-Identifier: Apache-2.0
"""Configuration, unit, caches and records, changed under an engine that goes on serving."""

from __future__ import annotations

from .kind import (
    CACHE,
    DROP_IN,
    ENVIRONMENT,
    LAUNCH,
    SECRETS,
    UNIT,
    Kind,
    add_drop_in,
    stat,
)

CONFIGURATION = {
    "environment-mode": Kind(
        "engine",
        f"chmod 0644 {ENVIRONMENT}",
        (f"{ENVIRONMENT}: mode is 0644, not 0640",),
        stat(ENVIRONMENT, "640"),
    ),
    "environment-owner": Kind(
        "engine",
        f"chown nobody {ENVIRONMENT}",
        (f"{ENVIRONMENT}: owner is nobody, not root",),
        stat(ENVIRONMENT, "root:sglang", "%U:%G"),
    ),
    "environment-group": Kind(
        "engine",
        f"chgrp root {ENVIRONMENT}",
        (f"{ENVIRONMENT}: group is root, not sglang",),
        stat(ENVIRONMENT, "root:sglang", "%U:%G"),
    ),
    "environment-content": Kind(
        "engine",
        f"echo SGLANG_X=1 >> {ENVIRONMENT}",
        (f"{ENVIRONMENT}: content differs", "SGLANG_X"),
        f"! grep SGLANG_X {ENVIRONMENT}",
    ),
    "environment-removed": Kind(
        "engine", f"rm {ENVIRONMENT}", (f"{ENVIRONMENT}: missing",), f"test -s {ENVIRONMENT}"
    ),
    "secrets-mode": Kind(
        "engine",
        f"chmod 0644 {SECRETS}",
        (f"{SECRETS}: mode is 0644, not 0600",),
        stat(SECRETS, "600"),
    ),
    "secrets-owner": Kind(
        "engine",
        f"chown sglang {SECRETS}",
        (f"{SECRETS}: owner is sglang, not root",),
        stat(SECRETS, "root:root", "%U:%G"),
    ),
    "secrets-content": Kind(
        "engine",
        f'sed -i \'s/api-key: ".*"/api-key: "other"/\' {SECRETS}',
        (f"{SECRETS}: content differs", "the API key changed (secret)"),
        f"! grep -q other {SECRETS}",
    ),
    "secrets-removed": Kind(
        "engine", f"rm {SECRETS}", (f"{SECRETS}: missing",), f"test -s {SECRETS}"
    ),
    "secrets-link": Kind(
        "engine",
        f"mv {SECRETS} /run/kept.yaml; ln -s /run/kept.yaml {SECRETS}",
        (f"{SECRETS}: content differs",),
        f"test ! -L {SECRETS}",
    ),
    "configuration-folder-mode": Kind(
        "engine",
        "chmod 0755 /etc/sglang",
        ("/etc/sglang: mode is 0755, not 0750",),
        stat("/etc/sglang", "750"),
    ),
    "configuration-folder-group": Kind(
        "engine",
        "chgrp root /etc/sglang",
        ("/etc/sglang: group is root, not sglang",),
        stat("/etc/sglang", "root:sglang", "%U:%G"),
    ),
    "unit-mode": Kind(
        "engine",
        f"chmod 0600 {UNIT}",
        (f"{UNIT}: mode is 0600, not 0644",),
        stat(UNIT, "644"),
    ),
    "unit-owner": Kind(
        "engine",
        f"chown sglang {UNIT}",
        (f"{UNIT}: owner is sglang, not root",),
        stat(UNIT, "root:root", "%U:%G"),
    ),
    "unit-link": Kind(
        "engine",
        f"cp -p {UNIT} /run/copy; ln -sf /run/copy {UNIT}; systemctl daemon-reload",
        (f"{UNIT}: content differs",),
        f"test ! -L {UNIT}",
    ),
    "unit-content": Kind(
        "engine",
        f"sed -i s/LimitNOFILE=.*/LimitNOFILE=1024/ {UNIT}; systemctl daemon-reload",
        (f"{UNIT}: content differs",),
        f"grep -q LimitNOFILE=1048576 {UNIT}",
    ),
    "unit-unread": Kind(
        "engine",
        f"sed -i s/RestartSec=.*/RestartSec=1/ {UNIT}",
        (f"{UNIT}: content differs", "unit: changed on disk since systemd read it"),
        "systemctl show sglang --property=NeedDaemonReload | grep -q =no "
        f"&& grep -q RestartSec=15 {UNIT}",
    ),
    "unit-touched": Kind(
        "engine",
        f"touch {UNIT}",
        ("unit: changed on disk since systemd read it",),
        "systemctl show sglang --property=NeedDaemonReload | grep -q =no",
    ),
    "unit-disabled": Kind(
        "engine",
        "systemctl disable --quiet sglang",
        ("unit: is disabled, not enabled",),
        "systemctl is-enabled sglang",
    ),
    "drop-in": Kind(
        "engine",
        f"{add_drop_in('LimitNOFILE=1024')}; systemctl daemon-reload",
        (f"{DROP_IN}: overrides the unit and is not in engine_drop_ins",),
        f"test -e {DROP_IN}.disabled && test ! -e {DROP_IN} && "
        "systemctl show sglang --property=LimitNOFILE | grep -q =1048576",
    ),
    "drop-in-unread": Kind(
        "engine",
        add_drop_in("Nice=5"),
        (f"{DROP_IN}: overrides the unit",),
        f"test ! -e {DROP_IN} && systemctl show sglang --property=NeedDaemonReload | grep -q =no",
    ),
    "drop-in-until-boot": Kind(
        "engine",
        f"{add_drop_in('Nice=5', '/run/systemd/system/sglang.service.d/x.conf')}; "
        "systemctl daemon-reload",
        ("/run/systemd/system/sglang.service.d/x.conf: overrides the unit",),
        "test ! -e /run/systemd/system/sglang.service.d/x.conf",
    ),
    "property-set": Kind(
        "engine",
        "systemctl set-property sglang CPUWeight=10",
        ("/etc/systemd/system.control/sglang.service.d/50-CPUWeight.conf: overrides the unit",),
        "! ls /etc/systemd/system.control/sglang.service.d/*.conf",
    ),
    "unit-elsewhere": Kind(
        "engine",
        f"mkdir -p /run/systemd/system.control; cp {UNIT} /run/systemd/system.control/; "
        "systemctl daemon-reload",
        ("/run/systemd/system.control/sglang.service: overrides the unit",),
        f"systemctl show sglang --property=FragmentPath | grep -q ={UNIT}$",
    ),
    "cache-removed": Kind(
        "engine", f"rm -r {CACHE}", ("/opt/sglang/cache/", "missing"), f"test -d {CACHE}"
    ),
    "cache-mode": Kind(
        "engine",
        f"chmod 0755 {CACHE}",
        ("/opt/sglang/cache/", "mode is 0755, not 0750"),
        stat(CACHE, "750"),
    ),
    "cache-owner": Kind(
        "engine",
        f"chown root:root {CACHE}",
        ("/opt/sglang/cache/", "owner is root, not sglang, group is root, not sglang"),
        stat(CACHE, "sglang:sglang", "%U:%G"),
    ),
    "guard-left": Kind(
        "engine",
        "touch /etc/systemd/system/sglang-benchmark-guard.service",
        ("benchmark: its guard's unit is left",),
        "test ! -e /etc/systemd/system/sglang-benchmark-guard.service",
    ),
    "previous-dangling": Kind(
        "engine",
        "ln -sfn releases/by-hand /opt/sglang/previous",
        ("previous release: is by-hand, which is not there",),
        "test ! -L /opt/sglang/previous || test -e /opt/sglang/previous/COMPLETE",
    ),
    "records-mode": Kind(
        "engine",
        "chmod 0755 /etc/sglang/launches",
        ("/etc/sglang/launches: mode is 0755, not 0700",),
        stat("/etc/sglang/launches", "700"),
    ),
    "failures-mode": Kind(
        "engine",
        "mkdir -p /var/lib/sglang/failures; chmod 0755 /var/lib/sglang/failures",
        ("/var/lib/sglang/failures: mode is 0755, not 0700",),
        stat("/var/lib/sglang/failures", "700"),
    ),
}

# The gate asks all its questions for these, and the engine goes on.
GATED = {
    "serving-removed": Kind(
        "health_gate",
        "rm /etc/sglang/launches/serving",
        ("started, but it never passed its gate",),
        "test -e /etc/sglang/launches/serving/record.json",
    ),
    "record-damaged": Kind(
        "health_gate",
        f"echo '# by hand' >> {LAUNCH}/engine.env",
        ("started, but it never passed its gate",),
        f"! grep -q 'by hand' {LAUNCH}/engine.env",
    ),
}
