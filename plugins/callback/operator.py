# SPDX-License-Identifier: Apache-2.0
"""What an operator reads: the plan, what changed, progress, and a failure once."""

from __future__ import annotations

DOCUMENTATION = r"""
name: operator
type: stdout
short_description: The default output, without what says nothing, and each failure once
description:
  - P(ansible.builtin.default#callback) with four differences, none of them with C(-v) or more.
  - A task that changed nothing and says nothing is not shown, nor is a play that shows nothing.
  - A failure is shown as its message, once. The default output shows the same message as an error
    with the place in the roles, and again with the whole result. What only ends a node as failed,
    after it was told (M(sm120.sglang.end_failed)), is counted and not shown.
  - A node that cannot be reached any more is named with what to do about it.
  - A message is shown as text, not as a quoted YAML string.
  - The playbooks run under any other callback too; it only says more.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
requirements:
  - C(stdout_callback = sm120.sglang.operator) in ansible.cfg
author:
  - The sm120.sglang maintainers
"""

import gc
import pkgutil
import re
import sys
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ansible.plugins.callback.default import CallbackModule as Default
from ansible.plugins.loader import filter_loader, lookup_loader, test_loader
from ansible_collections.sm120.sglang.plugins import lookup as lookups

if TYPE_CHECKING:
    from ansible.executor.task_result import CallbackTaskResult

_WIDEST = 116
_INDENT = " " * 4
# Between two columns of a table.
_GAP = re.compile(r"(?<=\S) {2,}(?=\S)")
# Results of these are their message; another module's may hold more (a command's output).
_TELLS_ALL = ("sm120.sglang.", "ansible.builtin.assert", "ansible.builtin.fail")
# How ansible-core leads to what a filter or lookup of ours said.
_CHAIN = re.compile(r"Task failed: .* plugin 'sm120\.sglang\.\w+' failed: ", re.DOTALL)
_CHECKS = "ansible.builtin.validate_argument_spec"
# Beside the message: what is shown apart from it, and what names a loop's item or another host.
_KEPT = {"msg", "warnings", "deprecations", "item", "ansible_loop_var", "_ansible_item_label"}
_KEPT |= {"_ansible_delegated_vars"}
# The mark of a result that only repeats that something failed: `end_failed`.
_TOLD = "told"
_LOST = (
    "This run got no further on that node; what it had begun there goes on, or is left half done "
    "and never used.\n"
    "Remedy: see that `ssh` reaches the node, then run the same command again: it finishes what is "
    "unfinished. playbooks/status.yml tells what serves now."
)


def as_text(message: Any, width: int) -> str | None:
    """A message as indented lines.

    Args:
        message: A text, or a list of texts.
        width: Columns to stay in; words are not cut, so that paths and commands can be copied, and
            neither is a line with columns of its own.

    Returns:
        The lines, or None for anything else, and for texts that hold nothing.
    """
    entries = [message] if isinstance(message, str) else message
    if not isinstance(entries, (list, tuple)) or not all(isinstance(e, str) for e in entries):
        return None
    mark = "- " if not isinstance(message, str) else ""
    lines: list[str] = []
    for entry in entries:
        for number, line in enumerate(entry.strip().splitlines()):
            inner = line[: len(line) - len(line.lstrip())]
            lead = _INDENT + (mark if number == 0 else " " * len(mark)) + inner
            if len(_GAP.findall(line)) > 1:  # a table's row
                lines.append(lead + line.strip())
                continue
            lines += textwrap.wrap(
                line.strip(),
                width,
                initial_indent=lead,
                # What goes on from the line before stands further in.
                subsequent_indent=_INDENT + " " * len(mark) + inner + "  ",
                break_long_words=False,
                break_on_hyphens=False,
            ) or [""]
    return "\n".join(lines) or None


def reduced(action: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """A failed result without what its message says already.

    Args:
        action: The task's action.
        result: The result.

    Returns:
        The message alone where it is the whole story, else all but the error that repeats it.
    """
    plain = {key: value for key, value in result.items() if key != "exception"}
    whole = action.startswith(_TELLS_ALL) or action == _CHECKS or result.get("unreachable")
    if "msg" in plain and whole:
        plain = {key: value for key, value in plain.items() if key in _KEPT}
    if isinstance(plain.get("msg"), str):
        plain["msg"] = _CHAIN.sub("", plain["msg"])
    return plain


class CallbackModule(Default):  # type: ignore[misc]
    """The callback; options are those of the default one."""

    CALLBACK_NAME = "sm120.sglang.operator"
    _unnamed: Any = None

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Import once what every worker, one for each task and node, would import for itself."""
        filter_loader.get("sm120.sglang.short_cause")
        test_loader.get("ansible.builtin.defined")
        own = [f"sm120.sglang.{module.name}" for module in pkgutil.iter_modules(lookups.__path__)]
        core = [f"ansible.builtin.{name}" for name in ("env", "file", "password", "varnames")]
        for name in own + core:
            lookup_loader.get(name, class_only=True)
        # Workers are forks: what was loaded until now is theirs too, and no garbage of theirs. To
        # look through it again and again took a sixth of a re-run's time.
        gc.freeze()
        super().v2_playbook_on_start(playbook)

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Name a play when there is something of it to show."""
        self._play = self._unnamed = play
        if self._display.verbosity:
            self._name_play()

    def v2_playbook_on_no_hosts_matched(self) -> None:
        """A play for nobody is no news."""
        if self._display.verbosity:
            super().v2_playbook_on_no_hosts_matched()

    def _print_task_banner(self, task: Any) -> None:
        self._name_play()
        super()._print_task_banner(task)

    def _name_play(self) -> None:
        play, self._unnamed = self._unnamed, None
        if play is not None:
            super().v2_playbook_on_play_start(play)

    def v2_runner_on_failed(self, result: CallbackTaskResult, ignore_errors: bool = False) -> None:
        """Show a failure as its message."""
        if not self._display.verbosity:
            if result.result.get(_TOLD) is True:
                return
            _reduce(result)
        super().v2_runner_on_failed(result, ignore_errors)

    def v2_runner_item_on_failed(self, result: CallbackTaskResult) -> None:
        """Show the failure of a loop's item in the same way."""
        if not self._display.verbosity:
            _reduce(result)
        super().v2_runner_item_on_failed(result)

    def v2_runner_on_unreachable(self, result: CallbackTaskResult) -> None:
        """Say what a lost connection means for the node."""
        if not self._display.verbosity:
            _reduce(result)
            result.result["msg"] = f"{str(result.result.get('msg', '')).strip()}\n{_LOST}"
        super().v2_runner_on_unreachable(result)

    def v2_runner_on_ok(self, result: CallbackTaskResult) -> None:
        """Show a result that changed something, or that says something."""
        if self._speaks(result):
            super().v2_runner_on_ok(result)

    def v2_runner_item_on_ok(self, result: CallbackTaskResult) -> None:
        """Show a loop's item under the same condition."""
        if self._speaks(result):
            super().v2_runner_item_on_ok(result)

    def v2_playbook_on_include(self, included_file: Any) -> None:
        """Show which files are included only when asked for more."""
        if self._display.verbosity:
            super().v2_playbook_on_include(included_file)

    def _speaks(self, result: CallbackTaskResult) -> bool:
        return bool(
            self._display.verbosity
            or result.result.get("changed")
            or result.result.get("warnings")
            or self._run_is_verbose(result)
        )

    def _dump_results(self, result: Mapping[str, Any], *args: Any, **kwargs: Any) -> str:
        """Show a message that stands alone as text."""
        if not self._display.verbosity:
            ours = {key for key in result if not key.startswith("_ansible_")}
            if ours - _KEPT - {"changed", "failed", "unreachable"} == set() and "msg" in ours:
                text = as_text(result["msg"], self._width())
                if text is not None:
                    return f"\n{text}"
        dumped: str = super()._dump_results(result, *args, **kwargs)
        return dumped

    def _width(self) -> int:
        columns: int = self._display.columns if sys.stdout.isatty() else _WIDEST
        return min(columns, _WIDEST)


def _reduce(result: CallbackTaskResult) -> None:
    """Shorten a result in place, as the default callback does with what it has shown."""
    short = reduced(str(result.task.action), result.result)
    for key in set(result.result) - set(short):
        del result.result[key]
    result.result.update(short)
