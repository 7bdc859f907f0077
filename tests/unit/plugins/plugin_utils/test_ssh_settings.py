# SPDX-License-Identifier: Apache-2.0
"""The inventory's SSH settings, as the real `ssh -G` resolves them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.plugin_utils._ssh_settings import (
    SshSettingsError,
    parse_effective,
    resolve,
    ssh_arguments,
)


def effective(config: Path, text: str, *arguments: str, host: str = "node-1") -> object:
    config.write_text(text)
    return resolve("ssh", ["-F", str(config), *arguments], host)


def test_arguments_stand_in_ansibles_order() -> None:
    options = {
        "ssh_args": "-o ControlMaster=auto -o 'ProxyCommand=nc %h %p'",
        "port": 22120,
        "private_key_file": "~/.ssh/lab key",
        "remote_user": "operator",
        "timeout": 20,
        "ssh_common_args": "-o UserKnownHostsFile=/k",
        "ssh_extra_args": "-4",
    }
    assert ssh_arguments(options) == [
        *("-o", "ControlMaster=auto"),
        *("-o", "ProxyCommand=nc %h %p"),
        *("-o", "Port=22120"),
        *("-o", f'IdentityFile="{Path.home()}/.ssh/lab key"'),
        *("-o", 'User="operator"'),
        *("-o", "ConnectTimeout=20"),
        *("-o", "UserKnownHostsFile=/k"),
        "-4",
    ]


@pytest.mark.parametrize("nothing", [None, ""])
def test_what_is_not_set_is_left_to_ssh(nothing: str | None) -> None:
    names = ("ssh_args", "port", "private_key_file", "remote_user", "timeout", "ssh_common_args")
    assert ssh_arguments(dict.fromkeys(names, nothing)) == []


def test_everything_that_a_configuration_file_can_say(tmp_path: Path) -> None:
    key, known, agent = tmp_path / "key", tmp_path / "known hosts", tmp_path / "agent"
    key.write_text("")
    known.write_text("")
    settings = effective(
        tmp_path / "config",
        f"Host node-1\n HostName 127.120.8.77\n Port 2222\n User someone\n"
        f" IdentityFile {key}\n IdentityFile {tmp_path / 'missing'}\n"
        f' UserKnownHostsFile "{known}"\n GlobalKnownHostsFile none\n'
        f" IdentityAgent {agent}\n ConnectTimeout 7\n",
    )
    assert settings == parse_effective("", "x").__class__(
        alias="node-1",
        hostname="127.120.8.77",
        port=2222,
        user="someone",
        identity_files=(str(key),),
        known_hosts=(str(known),),
        host_key_name="[127.120.8.77]:2222",
        identity_agent=str(agent),
        connect_timeout=7.0,
    )


def test_the_inventory_wins_over_the_file(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host *\n User file\n Port 1\n")
    arguments = ["-F", str(config), *ssh_arguments({"remote_user": "inventory", "port": 2})]
    settings = resolve("ssh", arguments, "node-1")
    assert (settings.user, settings.port) == ("inventory", 2)


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ("hostname h\nport 22\nhostkeyalias none", "h"),
        ("hostname h\nport 22120", "[h]:22120"),
        ("hostname h\nport 22120\nhostkeyalias lab-1", "lab-1"),
        ("hostname ::1\nport 22", "::1"),
    ],
)
def test_under_which_name_the_host_key_is_looked_up(lines: str, name: str) -> None:
    assert parse_effective(lines, "alias").host_key_name == name


def test_the_agent() -> None:
    assert parse_effective("identityagent none", "x").use_agent is False
    default = parse_effective("identityagent SSH_AUTH_SOCK", "x")
    assert (default.use_agent, default.identity_agent) == (True, "")


def test_several_known_hosts_files(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("")
    two.write_text("")
    text = f"userknownhostsfile {one} {tmp_path / 'missing'} {two}\nglobalknownhostsfile none"
    assert parse_effective(text, "x").known_hosts == (str(one), str(two))


@pytest.mark.parametrize(
    ("jump", "words"),
    [
        ("gate", "-- gate"),
        ("me@gate:2200", "-l me -p 2200 -- gate"),
        ("ssh://me@gate:2200", "-l me -p 2200 -- gate"),
        ("[::1]:2200", "-p 2200 -- ::1"),
        ("a,b@c:1,gate", "-J a,b@c:1 -- gate"),
    ],
)
def test_a_jump_is_the_command_that_ssh_itself_would_run(jump: str, words: str) -> None:
    text = f"hostname inside\nport 2201\nproxyjump {jump}"
    command = parse_effective(text, "x", ["-F", "/my config"], "/usr/bin/ssh").proxy_command
    got = shlex.split(command)
    assert got[:3] == ["/usr/bin/ssh", "-F", "/my config"]
    rest = [word for word in got[3:] if word not in ("-o", "BatchMode=yes", "-W")]
    assert rest == _with_address(words)


def _with_address(words: str) -> list[str]:
    before, _, after = words.partition("-- ")
    return [*before.split(), "[inside]:2201", "--", after]


def test_the_jump_of_the_real_ssh(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host node-1\n ProxyJump me@gate:2200\n")
    settings = resolve("ssh", [f"-F{config}"], "node-1")
    assert "-l me -p 2200" in settings.proxy_command
    assert f"-F {config}" in settings.proxy_command


def test_a_proxy_command_gets_its_names_filled_in() -> None:
    text = "hostname h\nport 1\nuser u\nproxycommand nc -x %n %h %p %r %% %z"
    assert parse_effective(text, "alias").proxy_command == "nc -x alias h 1 u % %z"
    assert parse_effective("proxycommand none\nproxyjump none", "x").proxy_command == ""


def test_what_ssh_does_not_accept_is_passed_on() -> None:
    with pytest.raises(SshSettingsError) as raised:
        resolve("ssh", ["-F", "none", "-o", "NoSuchOption=1"], "node-1")
    assert "node-1" in str(raised.value)
    assert "nosuchoption" in str(raised.value).lower()


def test_ssh_is_not_there() -> None:
    with pytest.raises(SshSettingsError, match="cannot run '/no/ssh'"):
        resolve("/no/ssh", [], "node-1")
