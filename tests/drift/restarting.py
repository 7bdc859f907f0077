# SPDX-License-Identifier: Apache-2.0
"""What the engine has to restart for."""

from __future__ import annotations

from .kind import (
    DROP_IN,
    ENVIRONMENT,
    MODEL,
    PACKAGES,
    RELEASE,
    UNIT,
    WEIGHTS,
    Kind,
    add_drop_in,
)

RESTARTS = {
    "engine-stopped": Kind(
        "engine",
        "systemctl stop sglang",
        # It ends itself by SIGKILL when it has drained.
        ("engine: is failed (failed)",),
        "systemctl is-active sglang",
    ),
    "engine-other-environment": Kind(
        "engine",
        f"cp -p {ENVIRONMENT} /run/kept; sed -i s/^HF_HUB_OFFLINE=.*/HF_HUB_OFFLINE=2/ "
        f"{ENVIRONMENT}; systemctl restart sglang; mv /run/kept {ENVIRONMENT}",
        ("engine: was started with another HF_HUB_OFFLINE",),
        "tr '\\0' '\\n' < /proc/$(systemctl show sglang --property=MainPID --value)/environ "
        "| grep -x HF_HUB_OFFLINE=1",
    ),
    "engine-other-arguments": Kind(
        "engine",
        f"cp -p {UNIT} /run/kept; "
        f"sed -i 's/max-total-tokens [0-9]*/max-total-tokens 2048/' {UNIT}; "
        f"systemctl daemon-reload; systemctl restart sglang; mv /run/kept {UNIT}; "
        "systemctl daemon-reload",
        ("engine: was started with other arguments than its unit has",),
        "tr '\\0' ' ' < /proc/$(systemctl show sglang --property=MainPID --value)/cmdline "
        "| grep 'max-total-tokens 4096'",
    ),
    "drop-in-in-use": Kind(
        "engine",
        f"{add_drop_in('Environment=SGLANG_X=1')}; systemctl daemon-reload; "
        "systemctl restart sglang",
        (f"{DROP_IN}: overrides the unit",),
        "! tr '\\0' '\\n' < /proc/$(systemctl show sglang --property=MainPID --value)/environ "
        "| grep SGLANG_X",
    ),
    "file-added-and-loaded": Kind(
        "engine_release",
        f"echo 'import os' > {PACKAGES}/by_hand.pth; systemctl restart sglang",
        ("by_hand.pth: added by hand",),
        f"test ! -e {PACKAGES}/by_hand.pth",
    ),
    "current-elsewhere": Kind(
        "engine",
        f"cp -a {RELEASE} /opt/sglang/copy; ln -sfn /opt/sglang/copy /opt/sglang/current",
        ("current release: is /opt/sglang/copy",),
        "rm -rf /opt/sglang/copy; readlink /opt/sglang/current | grep ^releases/",
    ),
    "model-record-removed": Kind(
        "model_store",
        "rm /var/lib/sglang/models/kimi-lab/.1.verified.json",
        ("model kimi-lab 1: changed since verified",),
        "test -s /var/lib/sglang/models/kimi-lab/.1.verified.json",
    ),
    "model-file-content": Kind(
        "model_store",
        f"printf x | dd of={WEIGHTS} bs=1 seek=4096 conv=notrunc status=none",
        ("model kimi-lab 1: changed since verified",),
        f"test -s {WEIGHTS}",
    ),
    "model-file-size": Kind(
        "model_store",
        f"echo >> {MODEL}/config.json",
        ("missing or of another size: config.json",),
        f"test -s {MODEL}/config.json",
    ),
    "model-file-removed": Kind(
        "model_store",
        f"rm {MODEL}/config.json",
        ("missing or of another size: config.json",),
        f"test -s {MODEL}/config.json",
    ),
    "model-file-link": Kind(
        "model_store",
        f"mv {MODEL}/config.json /run/config.json; ln -s /run/config.json {MODEL}/config.json",
        ("missing or of another size: config.json",),
        f"test ! -L {MODEL}/config.json",
    ),
    "release-file-content": Kind(
        "engine_release",
        f"echo '# by hand' >> {PACKAGES}/sglang/srt/server_args.py",
        ("sglang/srt/server_args.py: changed by hand",),
        f"! grep -q '# by hand' {PACKAGES}/sglang/srt/server_args.py",
    ),
    "library-content": Kind(
        "engine_release",
        f"echo '# by hand' >> {PACKAGES}/transformers/__init__.py",
        ("transformers/__init__.py: changed by hand",),
        f"! grep -q '# by hand' {PACKAGES}/transformers/__init__.py",
    ),
    "library-content-hidden": Kind(
        "engine_release",
        f"f={PACKAGES}/transformers/__init__.py; touch -r $f /run/time; "
        "sed 's/import/imporT/' $f > /run/new; cat /run/new > $f; touch -r /run/time $f",
        ("transformers/__init__.py: changed by hand",),
        f"! grep -q imporT {PACKAGES}/transformers/__init__.py",
        extra={"verify": "full"},
    ),
    "release-file-removed": Kind(
        "engine_release",
        f"rm {PACKAGES}/sglang/srt/server_args.py",
        ("sglang/srt/server_args.py: missing",),
        f"test -s {PACKAGES}/sglang/srt/server_args.py",
    ),
    "release-link": Kind(
        "engine_release",
        f"ln -sfn /bin/sh {RELEASE}/venv/bin/python",
        ("venv/bin/python: points to /bin/sh, not",),
        f"{RELEASE}/venv/bin/python -c pass",
    ),
    "release-mark-removed": Kind(
        "engine_release",
        f"rm {RELEASE}/COMPLETE",
        ("not on this node",),
        f"test -s {RELEASE}/COMPLETE",
    ),
    "release-listing": Kind(
        "engine_release",
        f"sed -i 1d {RELEASE}/files.list",
        ("files.list: does not belong to COMPLETE",),
        f"cd {RELEASE} && sha256sum --check --quiet COMPLETE",
    ),
    # What a build needs is held against its digest, or made anew, when it is used.
    "wheel-and-uv-damaged": Kind(
        "engine_release",
        "cd /opt/sglang; uv=tools/$(basename wheels/uv-*.whl .whl); "
        "for f in wheels/sglang-*.whl $uv; do echo x > $f; done; chmod 0600 $uv; "
        f"rm {PACKAGES}/sglang/version.py",
        ("sglang/version.py: missing",),
        "python3 -m zipfile -t /opt/sglang/wheels/sglang-*.whl && /opt/sglang/tools/uv* --version",
    ),
}
RESTARTS = {name: Kind(**{**vars(kind), "restarts": True}) for name, kind in RESTARTS.items()}
