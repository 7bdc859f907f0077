# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._pass_on import commands, plan, words
from hypothesis import given
from hypothesis import strategies as st

OWN = Path("/run/x")


@pytest.mark.parametrize(
    ("megabytes", "streams", "expected"),
    [(0, 2, 0), (-1, 2, 0), (100, 1, 781250), (100, 2, 390625), (1e-9, 4, 1)],
)
def test_a_limit_is_shared_by_the_streams(megabytes: float, streams: int, expected: int) -> None:
    assert commands.kbits(megabytes, streams) == expected


@given(st.floats(0.001, 1e5), st.integers(1, 8))
def test_the_streams_together_stay_below_the_limit(megabytes: float, streams: int) -> None:
    bits = commands.kbits(megabytes, streams) * 1024
    assert bits * streams <= max(megabytes * 8e6, 1024 * streams)


def test_the_limit_is_sftps_own_option() -> None:
    assert commands.sftp([], 390625, "node")[:6] == ["sftp", "-q", "-b", "-", "-l", "390625"]
    assert "-l" not in commands.sftp([], 0, "node")


@given(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"])))
def test_a_name_is_one_word_of_a_batch(name: str) -> None:
    quoted = commands.quote(name)
    assert shlex.split(quoted.replace("$", "").replace("`", ""), posix=True) == [
        name.replace("$", "").replace("`", "")
    ]


@pytest.mark.parametrize("name", ["a\nrm *", "a\r"])
def test_a_line_break_cannot_become_a_second_command(name: str) -> None:
    with pytest.raises(ValueError, match="line break"):
        commands.quote(name)


def test_each_key_counts_from_its_own_address_and_for_nothing_else() -> None:
    text = commands.authorized([{"key": "ssh-ed25519 AAAA", "address": "10.0.0.2"}])
    assert text == 'restrict,from="10.0.0.2" ssh-ed25519 AAAA\n'


def test_the_server_shows_one_folder_to_nobody_read_only() -> None:
    lines = commands.server(OWN, "10.0.0.1", 22730).splitlines()
    for line in (
        "ListenAddress 10.0.0.1",
        "AllowUsers nobody",
        "ChrootDirectory /run/x/root",
        "ForceCommand internal-sftp -R",
        "DisableForwarding yes",
        "AuthenticationMethods publickey",
        "AuthorizedKeysFile /run/x/authorized",
    ):
        assert line in lines


def test_the_unit_cannot_outlive_its_program_and_writes_nowhere_else() -> None:
    command = commands.unit(["prog"], ["/var/lib/m"], ["10.0.0.2"])
    assert command[-2:] == ["--", "prog"]
    for setting in (
        "RuntimeDirectory=sglang-pass-on",
        "ProtectSystem=strict",
        "ReadWritePaths=/var/lib/m",
        "IPAddressDeny=any",
        "IPAddressAllow=10.0.0.2",
        "PrivateMounts=yes",
    ):
        assert setting in command


# What OpenSSH 9.2's sftp wrote in each case.
@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (1, 'remote open "/0/hidden": Permission denied', "denied"),
        (1, 'File "/0/none" not found.', "denied"),
        (255, "Connection closed", "lost"),
        (255, "nobody@10.0.0.1: Permission denied (publickey).\r\nConnection closed", "lost"),
        (255, "ssh: connect to host 10.0.0.1 port 22730: Connection refused", "lost"),
        (153, "File size limit exceeded", "corrupt"),
        (-25, "", "corrupt"),
        (1, 'write local "/x/y": No space left on device', "local"),
        (-9, "", "lost"),
        (0, "", ""),
    ],
)
def test_what_a_transfer_failed_of(status: int, text: str, expected: str) -> None:
    assert commands.why(status, text) == expected


def test_a_plan_and_its_outcome_are_a_line_a_node() -> None:
    pieces = {0: plan.Piece(0, ("a",), 3_000_000_000), 1: plan.Piece(1, ("b",), 500_000)}
    waves = [
        [plan.Transfer("n1", "", 0)],
        [plan.Transfer("n2", "n1", 0), plan.Transfer("n1", "", 1)],
        [plan.Transfer("n2", "n1", 1)],
    ]
    assert words.planned(waves, pieces) == [
        "n1 would take 3.0 GB in waves 1 to 2 of 3: 3.0 GB from the controller",
        "n2 would take 3.0 GB in waves 2 to 3 of 3: 3.0 GB from n1",
    ]
    brought = {("n2", "n1"): 4_000_000, ("n2", ""): 1_000_000_000, ("n1", ""): 5}
    assert words.done(brought, {"n2": 3_000_000, "n1": 0}) == [
        "n1 took 0.0 MB: 0.0 MB from the controller",
        (
            "n2 took 1.0 GB: 1.0 GB from the controller, 4.0 MB from n1; "
            "3.0 MB of it were there already"
        ),
    ]
