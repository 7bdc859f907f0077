# SPDX-License-Identifier: Apache-2.0
"""What is shown of a play, by running one under the callback and under Ansible's own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.sm120.sglang.plugins.callback import operator
from hypothesis import given
from hypothesis import strategies as st

REPOSITORY = Path(__file__).parents[4]
CAUSE = "n1: release r2 did not prove itself.\nCause: no 'method' in x.py\n  at /a/x.py:1"


def play(folder: Path, tasks: list[dict[str, Any]], *words: str, **environment: str) -> str:
    """The output of a play over tasks on this machine, with the product's ansible.cfg."""
    written = folder / "play.yml"
    document = [{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]
    written.write_text(yaml.safe_dump(document))
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("ansible-playbook")),
            "--inventory=localhost,",
            "--connection=local",
            f"--extra-vars=ansible_python_interpreter={sys.executable}",
            *words,
            str(written),
        ],
        cwd=folder,
        env={**os.environ, "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout + done.stderr
    assert "Callback dispatch" not in output, output  # how Ansible says that a callback broke
    return output


def task(name: str, action: str, **options: Any) -> dict[str, Any]:
    arguments = options.pop("arguments", {})
    return {"name": name, f"ansible.builtin.{action}": arguments, **options}


DONE = {"cmd": "true"}
EACH = {"that": "item == 1", "fail_msg": "item {{ item }} is bad", "quiet": True}
SPEC = {"argument_spec": {"wanted": {"type": "int", "description": "a long story"}}}
TASKS = [
    task("Ask", "command", arguments=DONE, changed_when=False),
    task("Ask each", "command", arguments=DONE, changed_when=False, loop=[1, 2]),
    task("Leave out", "command", arguments=DONE, when=False),
    task("Hide", "fail", arguments={"msg": "hidden"}, failed_when=False),
    task("Do", "command", arguments=DONE),
    task("Do each", "command", arguments=DONE, changed_when="item == 2", loop=[1, 2]),
    task("Say", "debug", arguments={"msg": ["a: 'b'", "c"]}),
    task("Refuse each", "assert", arguments=EACH, loop=[1, 2], ignore_errors=True),
    task("Look", "command", arguments={"cmd": "ls /nowhere/at/all"}, ignore_errors=True),
    task(
        "Check", "validate_argument_spec", arguments=SPEC, vars={"wanted": "x"}, ignore_errors=True
    ),
    task(
        "Reach",
        "ping",
        vars={"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1},
        ignore_unreachable=True,
    ),
    task("Decide", "fail", arguments={"msg": CAUSE}),
]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    return play(tmp_path_factory.mktemp("play"), TASKS)


def test_a_failure_is_told_once_as_text(shown: str) -> None:
    end = shown[shown.rindex("fatal: ") :]
    assert textwrap.indent(CAUSE, "    ") in end
    assert shown.count("Cause:") == 1
    assert "[ERROR]" not in shown
    assert "play.yml" not in shown  # nor where in the roles it stands


@pytest.mark.parametrize(
    ("words", "environment"), [(("-v",), {}), ((), {"ANSIBLE_STDOUT_CALLBACK": "default"})]
)
def test_everything_is_there_for_who_asks(
    tmp_path: Path, words: tuple[str, ...], environment: dict[str, str]
) -> None:
    everything = play(tmp_path, [TASKS[0], TASKS[-1]], *words, **environment)
    assert everything.count("Cause: no 'method' in x.py") == 2
    assert "[ERROR]: Task failed: Action failed: n1: release r2" in everything
    assert "play.yml:" in everything
    assert "TASK [Ask]" in everything


def test_what_says_nothing_is_not_shown(shown: str) -> None:
    banners = [line.split("[")[1].split("]")[0] for line in shown.splitlines() if "TASK" in line]
    assert banners == ["Do", "Do each", "Say", "Refuse each", "Look", "Check", "Reach", "Decide"]
    assert "changed: [localhost] => (item=2)" in shown
    assert "=> (item=1)" not in shown
    assert "    - a: 'b'\n    - c\n" in shown


def test_a_node_that_is_lost_is_told_with_what_to_do(tmp_path: Path) -> None:
    away = {"ansible_connection": "ssh", "ansible_ssh_retries": 0, "ansible_port": 1}
    lost = play(tmp_path, [task("Ask", "command", arguments=DONE, vars=away)])
    end = lost[lost.index("UNREACHABLE!") :]
    assert "Connection refused" in end
    assert "[ERROR]" not in lost
    assert "    Remedy: see that `ssh` reaches the node, then run the same command again" in end
    assert "{" not in end


def test_a_loops_item_keeps_its_name(shown: str) -> None:
    assert "failed: [localhost] (item=2) => \n    item 2 is bad\n" in shown
    assert "assertion" not in shown


def test_a_command_that_fails_keeps_its_output(shown: str) -> None:
    assert "cannot access '" in shown.replace("''", "'")


def test_a_node_that_cannot_be_reached_is_one_message(shown: str) -> None:
    (end,) = (part for part in shown.split("fatal: ") if part.startswith("[localhost]: UNREACH"))
    assert "Connection refused" in end.partition("...ignoring")[0]
    assert "unreachable: true" not in end


def test_a_wrong_variable_is_one_line_not_a_specification(shown: str) -> None:
    assert "argument 'wanted' is of type str" in shown
    assert "a long story" not in shown


@given(
    st.one_of(st.text(), st.lists(st.text())),
    st.integers(40, 116),
)
def test_text_keeps_its_words_and_stays_within_the_width(message: Any, width: int) -> None:
    text = operator.as_text(message, width)
    words = (message if isinstance(message, str) else "\n".join(message)).split()
    if text is None:
        assert not words
        return
    marks = 0 if isinstance(message, str) else len(message)
    shown = text.split()
    assert len(words) <= len(shown) <= len(words) + marks
    for line in text.splitlines():
        assert len(line) <= width or len(line.split()) <= 2 or line.count("  ") > 1, line


def test_one_wide_gap_is_no_table() -> None:
    # As pip prints two digests.
    said = operator.as_text(f"Expected {'0' * 50} {'words ' * 20}Got        {'1' * 50}", 80)
    assert said is not None
    assert max(len(line) for line in said.splitlines()) <= 80


def test_a_tables_row_stays_one_line() -> None:
    rows = [
        "node   state   release",
        f"n1     ready   {'r' * 60}  and more words than fit in a line",
    ]
    assert operator.as_text(rows, 60) == "\n".join(f"    - {row}" for row in rows)


@pytest.mark.parametrize("message", [None, 1, {"a": "b"}, [1], ["a", {"b": "c"}]])
def test_what_is_no_text_is_left_to_yaml(message: Any) -> None:
    assert operator.as_text(message, 80) is None


def test_a_play_without_anything_to_show_is_not_named(tmp_path: Path) -> None:
    quiet = task("Ask", "command", arguments=DONE, changed_when=False)
    assert "PLAY [" not in play(tmp_path, [quiet]).replace("PLAY RECAP", "")
    assert "PLAY [localhost]" in play(tmp_path, [quiet], "-v")
    assert "PLAY [localhost]" in play(tmp_path, [quiet, task("Do", "command", arguments=DONE)])


def test_what_only_ends_a_node_as_failed_is_counted_and_not_shown(tmp_path: Path) -> None:
    said = "n1: failed, as told above"
    end = {"name": "End", "sm120.sglang.end_failed": {"msg": said}}
    output = play(tmp_path, [end])
    assert said not in output
    assert "failed=1" in output
    assert said in play(tmp_path, [end], "-v")
    assert said in play(tmp_path, [end], ANSIBLE_STDOUT_CALLBACK="default")
    # Words alone hide nothing: a failure is not told because it says so.
    assert said in play(tmp_path, [task("End", "fail", arguments={"msg": said})])
