# SPDX-License-Identifier: Apache-2.0
"""Faults of the host: systemd, files, ports, limits."""

from __future__ import annotations

from ansible_collections.sm120.sglang.plugins.module_utils._engine.signatures import (
    CLASS,
    Signature,
)

SIGNATURES = (
    Signature(
        "service-program",
        r"at step EXEC spawning (?P<program>\S+):",
        r"\g<program> is missing or may not be executed: the release is incomplete; deploy again, "
        "which rebuilds it",
        cause="the release that the unit points to is not whole",
        source="systemd.exec(5), process exit codes",
    ),
    Signature(
        "service-credential",
        r"at step CREDENTIALS\b|/CREDENTIALS:",
        "a credential file named by the unit is missing or unreadable for systemd: deploy again",
        cause="the unit's secrets are missing",
        source="systemd.exec(5), LoadCredential",
    ),
    Signature(
        "service-sandbox",
        r"at step (?:NAMESPACE|CHDIR)\b|/(?:NAMESPACE|CHDIR):",
        "a folder named by the unit is missing on the node: deploy again, which creates it",
        cause="a folder of the unit's sandbox is missing",
        source="systemd.exec(5), process exit codes",
    ),
    Signature(
        "service-user",
        r"at step USER\b|/USER:|Failed to determine user credentials",
        "the service user is missing on the node: deploy again, which creates it",
        cause="the unit's user does not exist",
        source="systemd.exec(5), process exit codes",
    ),
    Signature(
        "service-environment",
        r"Failed to load environment files",
        "/etc/sglang/engine.env is missing: deploy again, which writes it",
        cause="the unit's environment file is missing",
        source="systemd.exec(5), EnvironmentFile",
    ),
    Signature(
        "service-limit",
        r"Start request repeated too quickly|started too often in a short time",
        "the first failed start, if one failed, has the cause: `journalctl -u sglang` further up; "
        "then `systemctl reset-failed sglang && systemctl start sglang`",
        cause="it died, or was started by hand, several times in a row and systemd gave up",
        source="systemd.unit(5), StartLimitBurst",
        says=CLASS,
    ),
    Signature(
        "port-in-use",
        r"[Aa]ddress already in use|[Ee]rrno 98\b|\bat (?P<port>\d+) is not available in",
        "another process listens on the engine's port: `ss -ltnp` on the node names it; end it or "
        "choose another port",
        cause="the port is taken",
        source="recorded with SGLang 0.5.9",
    ),
    Signature(
        "host-memory",
        r"out-of-memory killer|std::bad_alloc|Cannot allocate memory|DefaultCPUAllocator",
        "host memory ran out: free some, or raise the unit's MemoryMax",
        cause="host memory ran out",
        source="sgl-project/sglang#4730",
        says=CLASS,
    ),
    Signature(
        "killed-from-outside",
        # Said by `find_cause` itself, where no other word explains it.
        r"was killed from outside \(signal 9\)",
        "ask who did it: `journalctl -k | grep -i kill` (memory ran out: free some, or raise the "
        "unit's MemoryMax), an agent on the node, or a person; then deploy again",
        cause="no process sends itself signal 9",
        source="signal(7)",
        says=CLASS,
    ),
    Signature(
        "bus-error",
        r"\bBus error\b|SIGBUS|unable to (?:allocate|mmap) shared memory|unable to open shared "
        r"memory object",
        "make /dev/shm larger and remove what dead engines left there",
        cause="shared memory (/dev/shm) is too small",
        source="NVIDIA/nccl#525, llm-d/llm-d#352",
    ),
    Signature(
        "memlock",
        r"RLIMIT_MEMLOCK|ibv_reg_mr.*Cannot allocate memory|cudaHostRegister.*failed",
        "the unit's LimitMEMLOCK is not infinity: deploy again; limits.conf does not reach a unit",
        cause="memory cannot be pinned",
        source="ai4d-iasc/trixie#81",
    ),
    Signature(
        "open-files",
        r"Too many open files",
        "raise the unit's LimitNOFILE (the role sets 1048576; a drop-in may lower it)",
        cause="the limit on open files is reached",
        source="ai4d-iasc/trixie#81",
    ),
    Signature(
        "threads",
        r"can't start new thread|pthread_create failed|libgomp: Thread creation failed",
        "raise the unit's TasksMax and the service user's process limit; OMP_NUM_THREADS: 8 to 16 "
        "per rank",
        cause="no further thread may be started",
        source="systemd.resource-control(5), TasksMax",
    ),
    Signature(
        "disk-full",
        r"No space left on device|[Ee]rrno 28\b",
        "a file system of the node is full: `df -h` names it; free space and start again",
        cause="a disk is full",
        source="errno(3), ENOSPC",
        says=CLASS,
    ),
    Signature(
        "read-only",
        r"Read-only file system|[Ee]rrno 30\b",
        "the unit may write to its kernel cache only: point the library's cache there "
        "(engine_environment), or look in `journalctl -k` for a file system gone read-only",
        cause="a process writes outside of the unit's sandbox, or a file system failed",
        source="errno(3), EROFS; systemd.exec(5), ProtectSystem",
    ),
    Signature(
        "permission",
        r"Permission denied|PermissionError",
        "the service user may not read or write that path: correct its owner or mode, or the "
        "unit's sandbox directives",
        cause="the service user may not do that",
        source="errno(3), EACCES",
        says=CLASS,
    ),
    Signature(
        "missing-file",
        # safetensors reports an unreadable file as missing, so the two share a remedy.
        r"FileNotFoundError|No such file or directory|does not appear to have a file named",
        "that file is missing on the node, or the service user may not read it: verify the model "
        "store and the file's mode",
        cause="a file is missing or unreadable",
        source="recorded with SGLang 0.5.9",
        says=CLASS,
    ),
)
