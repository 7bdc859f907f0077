# SPDX-License-Identifier: Apache-2.0
"""A bundle of a node full of secrets holds none, and of a bare node names what is missing."""

from __future__ import annotations

import base64
import gzip
import json
import tarfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._bundle.archive import bounded, write
from ansible_collections.sm120.sglang.plugins.module_utils._bundle.collect import (
    Bundle,
    Wanted,
    collect,
)
from ansible_collections.sm120.sglang.plugins.module_utils._bundle.redact import (
    clean,
    secrets_of,
    sensitive,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plugins.module_utils._engine.recordings import FOLDER, journal, raw_journal
from tests.unit.plugins.plugin_utils.web import running_web

RECORDINGS = FOLDER.parent
# Not one of them looks like another, so that each proves its own way out.
KEY = 'k"ey$with%odd\\chars'
HF = "hf_" + "QwErTyUiOpAsDfGhJkLz"
PROXY = "pr0xy-passw0rd"
BEARER = "bearer.value-123456"
ENVIRON = "only-in-the-process-1"
LINES = "only-in-a-log-line-77"
GIVEN = "vaulted-value-of-site"
OLD = "key-of-an-older-launch"
PLANTED = (KEY, HF, PROXY, BEARER, ENVIRON, LINES, GIVEN, OLD)


def message(text: str, pid: int = 7) -> str:
    return json.dumps(
        {"MESSAGE": text, "_PID": str(pid), "__REALTIME_TIMESTAMP": "1795971283891969"}
    )


def node(root: Path) -> Path:
    """A node with secrets everywhere."""
    process = root / "proc/4242"
    process.mkdir(parents=True)
    (process / "environ").write_bytes(
        f"HF_TOKEN={HF}\0MY_SECRET={ENVIRON}\0HTTPS_PROXY=http://me:{PROXY}@proxy:3128".encode()
    )
    (process / "cmdline").write_bytes(f"python\0--api-key\0{KEY}\0--port\0003000".encode())
    config = root / "etc/sglang"
    config.mkdir(parents=True)
    (config / "secrets.yaml").write_text(f"# ours\napi-key: {json.dumps(KEY)}\n")
    older = config / "launches/0123456789abcdef"
    older.mkdir(parents=True)
    (older / "secrets.yaml").write_text(f"api-key: {json.dumps(OLD)}\n")
    (config / "engine.env").write_text(f'HF_TOKEN="{HF}"\nNCCL_DEBUG="INFO"\n')
    (root / "etc/os-release").write_text("ID=debian\n")
    group = root / "sys/fs/cgroup/system.slice/sglang.service"
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text("4242\n")
    release = root / "opt/sglang/releases/r1"
    packages = release / "venv/lib/python3.12/site-packages"
    (packages / "torch-2.13.0.dist-info").mkdir(parents=True)
    (packages / "requests-1.0.dist-info").mkdir()
    (release / "patches.json").write_text('{"patch": "one"}')
    (release / "COMPLETE").write_text("abc\n")
    (release / "launch.json").write_text(json.dumps({"argv": ["--api-key", KEY], "port": 30000}))
    (root / "opt/sglang/current").symlink_to("releases/r1")
    return root


JOURNAL = [
    message(f"server_args=ServerArgs(api_key={KEY!r}, tokenizer_path='/m/kimi', tp_size=8)"),
    message(f"GET /v1 Authorization: Bearer {BEARER}"),
    message(f"cloning https://user:{PROXY}@git.example.org/x"),
    message(f"login with token={LINES} failed"),
    message(f"Invalid header {OLD}"),
    message(json.dumps({"api_key": KEY, "max_total_num_tokens": 4096})),
    message(base64.b64encode(KEY.encode()).decode()),
]


def runner(command: Sequence[str], _seconds: float) -> tuple[int, str]:
    """Commands of a node whose engine died."""
    words = " ".join(command)
    answers = {
        "systemctl show --timestamp": (
            "LoadState=loaded\nActiveState=failed\nSubState=failed\nInvocationID=aa\n"
        ),
        "systemctl show sglang": (
            "MainPID=4242\nControlGroup=/system.slice/sglang.service\n"
            f"Environment=API_KEY={KEY} HF_TOKEN={HF}\n"
        ),
        "systemctl cat": f"[Service]\nExecStart=python --api-key {KEY} --port 30000\n",
        " -k": message("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."),
        "journalctl": "\n".join([*JOURNAL, *raw_journal("unpatched")]),
    }
    if command[0] == "nvidia-smi":
        return 127, "nvidia-smi: not installed"
    return 0, next((text for part, text in answers.items() if part in words), f"{words}: fine\n")


def server_info(_path: str, _body: Any, headers: dict[str, str]) -> tuple[int, Any]:
    assert headers["Authorization"] == f"Bearer {BEARER}"
    return 200, {"api_key": BEARER, "internal_states": [{"admin_api_key": LINES}], "tp_size": 8}


def everything(root: Path, **more: Any) -> Bundle:
    with running_web(server_info) as web:
        wanted = Wanted(
            root="/opt/sglang",
            unit="sglang.service",
            system=node(root),
            given={"plan.json": json.dumps({"engine_api_key": KEY, "vault": GIVEN, "ok": 1})},
            url=f"http://{web.address}:{web.port}",
            api_key=BEARER,
            **more,
        )
        return collect(wanted, [GIVEN], runner)


def test_a_node_full_of_secrets_gives_a_bundle_without_one(tmp_path: Path) -> None:
    bundle = everything(tmp_path / "node")
    archive = tmp_path / "support.tar.gz"
    write(bundle.parts, archive, "support", 32 << 20, time.time())
    content = gzip.decompress(archive.read_bytes())
    for secret in PLANTED:
        forms = {secret, json.dumps(secret)[1:-1], base64.b64encode(secret.encode()).decode()}
        for form in forms:
            assert form.encode() not in content, form
    assert archive.stat().st_mode & 0o777 == 0o600


def test_what_is_no_secret_is_kept(tmp_path: Path) -> None:
    parts = everything(tmp_path / "node").parts
    assert "tokenizer_path='/m/kimi', tp_size=8" in parts["journal/unit.txt"]
    assert '"max_total_num_tokens": 4096' in parts["journal/unit.txt"]
    assert "--port 30000" in parts["unit/unit.txt"]
    assert "NCCL_DEBUG" in parts["unit/engine.env"]
    assert '"tp_size": 8' in parts["engine/server_info.json"]
    assert parts["release/current/patches.json"] == '{"patch": "one"}'
    assert parts["release/current/packages.txt"] == "torch-2.13.0\n"
    assert not any("secrets.yaml" in name for name in parts)


def test_the_bundle_says_why_the_engine_died(tmp_path: Path) -> None:
    diagnosis = everything(tmp_path / "node").parts["diagnosis.txt"]
    assert "set_eagle3_layers_to_capture" in diagnosis
    assert "known fault: xid-bus" in diagnosis
    assert "remedy: " in diagnosis


def nothing(command: Sequence[str], _seconds: float) -> tuple[int, str]:
    return (1, "No journal files were found.") if command[0] == "journalctl" else (127, "none")


def test_a_bare_node_without_journal_or_tools_is_no_error(tmp_path: Path) -> None:
    bundle = collect(
        Wanted("/opt/sglang", "x.service", tmp_path, url="http://127.0.0.1:1"), runner=nothing
    )
    problems = bundle.parts["problems.txt"]
    for text in (
        "the unit's journal: exit status 1 No journal files were found.",
        "the kernel's log",
        "/opt/sglang/current: no such release",
        "nvidia-smi -q: none",
        "http://127.0.0.1:1/server_info: ",
    ):
        assert text in problems
    assert bundle.parts["journal/unit.txt"] == "nothing\n"


def test_long_parts_keep_their_end_and_the_whole_is_bounded(tmp_path: Path) -> None:
    bundle = Bundle()
    bundle.add("a", "".join(f"line {number}\n" for number in range(1000)), 200)
    assert bundle.parts["a"].endswith("line 999\n")
    assert bundle.parts["a"].startswith("[")
    parts = {"a": "x" * 100_000 + "end", "b": "y" * 50_000, "c": "small"}
    kept = bounded(parts, 30_000)
    assert sum(len(text) for text in kept.values()) <= 30_000
    assert kept["a"].endswith("end")
    assert kept["c"] == "small"
    size = write(parts, tmp_path / "x.tar.gz", "x", 30_000, 0.0)
    with tarfile.open(tmp_path / "x.tar.gz") as archive:
        assert archive.getnames() == ["x/a", "x/b", "x/c"]
    assert size == (tmp_path / "x.tar.gz").stat().st_size


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True),
        ("OPENAI_API_KEY", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("DB_PASSWORD", True),
        ("SGLANG_ADMIN_API_KEY", True),
        ("LICENSE_KEY", True),
        ("TOKENIZERS_PARALLELISM", False),
        ("CREDENTIALS_DIRECTORY", False),
        ("max_total_num_tokens", False),
        ("NCCL_DEBUG", False),
        ("PATH", False),
    ],
)
def test_names_of_secrets(name: str, secret: bool) -> None:
    assert sensitive(name) is secret


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Basic dXNlcjpwYXNzd29yZA==",
        "{'Authorization': 'Bearer abcdef123456'}",
        "X-Api-Key: abcdef123456",
        "https://abcdef123456:abcdef123456@host/x",
        "token sk-abcdef123456abcdef123456",
        "ghp_abcdef123456abcdef123456",
        "eyJhbGciOiJIUzI1NiJ9.abcdef123456.abcdef123456",
        "-----BEGIN RSA PRIVATE KEY-----\nabcdef123456\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nabcdef123456",
        '"hf_token": "abcdef123456"',
        "--admin-api-key abcdef123456",
        "--api-key=abcdef123456",
        "password = 'abcdef123456'",
    ],
)
def test_secrets_by_their_place_and_shape(text: str) -> None:
    assert "abcdef123456" not in clean(text)
    assert "dXNlcjpwYXNzd29yZA" not in clean(text)


def recorded_lines() -> Iterator[str]:
    for path in sorted((RECORDINGS / "engine").glob("*.jsonl")):
        yield from (line.text for line in journal(path.stem))
    for path in sorted((RECORDINGS / "sglang-0.5.9-cpu").glob("*.log")):
        yield from path.read_text().splitlines()
    yield from (RECORDINGS / "signatures.txt").read_text().splitlines()


def test_what_the_engine_wrote_survives_but_for_its_key() -> None:
    lines = list(recorded_lines())
    assert len(lines) > 1500
    changed = {line: clean(line) for line in lines if clean(line) != line}
    # The recordings' makers put a word in the keys' place.
    assert {line.replace("api_key='REDACTED'", "api_key=<hidden>") for line in changed} == set(
        changed.values()
    )
    assert changed


@pytest.mark.parametrize(
    "text",
    [
        # Lines of SGLang 0.5.9 and 0.5.23 as tracebacks show them, and of its log.
        "self.token_to_kv_pool = MHATokenToKVPool(",
        "self.token_to_kv_pool = model_runner.token_to_kv_pool",
        "self.token_to_kv_pool: DeepSeekV4TokenToKVPool = model_runner.token_to_kv_pool",
        "self.token_to_kv_pool = pool",
        "token_to_kv_pool_allocator=self.token_to_kv_pool_allocator,",
        "self.req_to_token = model_runner.req_to_token_pool.req_to_token",
        "per_token_group_quant_fp8 = _per_token_group_quant_8bit_raw",
        "elif token == image_token_id and video_check_flg:",
        "req_to_token: torch.Tensor,",
        "api_key=server_args.api_key,",
        "api_key: Optional[str] = None",
        "max_total_tokens=4096, tokenizer_path='/m/kimi', token_usage: 0.5",
        "Decode batch, #running-req: 1, #token: 12, token usage: 0.01, accept len: 2.7",
        "speculative_token_map='thunlp/LLaMA3-Instruct-8B-FR-Spec', eos_token='<|im_end|>'",
    ],
)
def test_what_only_looks_like_a_secret_survives(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "token={}",
        "HF_TOKEN_OF_SITE={}",
        "self.hf_token = '{}'",
        "self.token_of_site = '{}'",
        "api_key = 'self.{}'",
        "my_token: {}",
        "admin_api_key={}",
    ],
)
@pytest.mark.parametrize("secret", ["abcdef123456abcdef", "AbCdEf7890-_123456"])
def test_a_secret_under_any_such_name_is_hidden(text: str, secret: str) -> None:
    assert secret not in clean(text.format(secret))


@given(
    st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=6, max_size=40),
    st.sampled_from(["{}", "x={}", '{{"k": {}}}', "GET /?k={} HTTP/1.1", "{}{}"]),
)
def test_a_known_secret_is_gone_wherever_it_stands(secret: str, place: str) -> None:
    hidden = clean(place.replace("{}", secret), [secret])
    assert secret not in hidden.replace("<hidden>", "")


def test_secrets_inside_of_urls_are_known_too() -> None:
    assert secrets_of({"X": f"http://me:{PROXY}@h", "Y": "plain"}) == {PROXY}
