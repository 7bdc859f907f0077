# SPDX-License-Identifier: Apache-2.0
"""Filters: the decisions of `_launch`, `_stack` and `_decide` for use in roles."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.sm120.sglang.plugins.module_utils import (
    _changes,
    _decide,
    _decide_own,
    _going_back,
    _launch,
    _lifecycle,
    _patch,
    _screens,
    _stack,
    _unforeseen,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import PatchError


def _errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn the deciders' own errors into messages of the play, without a traceback."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (_launch.LaunchError, _stack.StackError, PatchError) as error:
            raise AnsibleFilterError(str(error)) from None  # its own message is whole

    return wrapped


def _stack_of(stack: Mapping[str, Any]) -> _stack.Stack:
    known = {key: value for key, value in stack.items() if key != "locks"}
    return _stack.Stack(**{**known, "python": tuple(known["python"])})


def context_decision(
    target: Mapping[str, Any], draft: Mapping[str, Any] | None, wanted: int | None = None
) -> dict[str, Any]:
    """`_launch.decide_context` as a mapping."""
    decision = _launch.decide_context(target, draft, wanted)
    return {
        "target": decision.target,
        "draft": decision.draft,
        "override": decision.override,
        "reason": decision.reason,
    }


def launch_environment(
    environment: Mapping[str, Any], decision: Mapping[str, Any]
) -> dict[str, str]:
    """`_launch.render_environment` for a mapping that `context_decision` gave."""
    return _launch.render_environment(environment, _launch.ContextDecision(**decision))


def release_ids(stack: Mapping[str, Any], patches: str, local: Mapping[str, str]) -> dict[str, str]:
    """Release id for each Python of a stack (`_stack.release_id`)."""
    parsed = _stack_of(stack)
    return {
        python: _stack.release_id(parsed, python, lock["sha256"], patches, local)
        for python, lock in stack["locks"].items()
    }


def choose_python(
    stack: Mapping[str, Any], pythons: Mapping[str, str], wanted: str = "auto"
) -> dict[str, str]:
    """`_stack.choose_python` as `version` and `path`, or `error` when there is none."""
    try:
        version, path = _stack.choose_python(_stack_of(stack), pythons, wanted)
    except _stack.StackError as error:
        return {"version": "", "path": "", "error": str(error)}
    return {"version": version, "path": path, "error": ""}


def systemd_command(words: Sequence[str]) -> str:
    """An ExecStart= command line, one argument group a line for readable diffs."""
    lines: list[str] = []
    for word in words:
        if word.startswith("--") or not lines:
            lines.append(_launch.quote_systemd(word))
        else:
            lines[-1] += " " + _launch.quote_systemd(word)
    return " \\\n  ".join(lines)


def model_configs(
    models: Sequence[Mapping[str, Any]], on_node: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Each model's parsed config.json: the controller's copy, or what the node has."""
    return [model["config"] or on_node[model["name"]]["config"] or {} for model in models]


def with_digests(files: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Files with `content` and the content's `sha256`."""
    return [
        {**entry, "sha256": hashlib.sha256(str(entry["content"]).encode()).hexdigest()}
        for entry in files
    ]


def without_digest(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A file of `with_digests` as `engine_switch` takes it."""
    return {key: value for key, value in entry.items() if key != "sha256"}


def file_descriptions(entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Only what `upload` takes of each entry: name, sha256, size."""
    return [{key: entry[key] for key in ("name", "sha256", "size")} for entry in entries]


def patch_line(patch: Mapping[str, Any]) -> str:
    """One patch's outcome for people: state, whether it changed something, and why."""
    return f"{patch['state']}{' (edited)' if patch['changed'] else ''}: {patch['reason']}"


def patch_remedies(catalogue: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """For each method that a catalogue's patches supply: the error without it, and the remedy.

    Args:
        catalogue: Catalogue entries.

    Returns:
        Mappings of `pattern` (a regular expression over the error) and `remedy`.
    """
    return [
        {
            "pattern": f"has no attribute '{re.escape(str(method).partition('(')[0])}'",
            "remedy": f"apply the patch {entry['id']}: add it to source_patches_ids and run again",
        }
        for entry in catalogue
        for method in entry["rule"].get("methods", [])
    ]


def launch_changes(
    node: Mapping[str, Any], files: Iterable[Mapping[str, Any]], release: str
) -> list[str]:
    """What a launch would change of the arguments and variables on a node (`_changes`).

    Args:
        node: The reading.
        files: The wanted configuration files, with `path` and `content`.
        release: The wanted release.

    Returns:
        Phrases without secrets; none on a node that has no configuration yet.
    """
    before = node["configured"]
    if not before["arguments"]:
        return []
    wanted = {str(file["path"]): file for file in files}
    now = _changes.read({path: str(file["content"]) for path, file in wanted.items()})
    found = _changes.differences(before, now, (node["releases"]["current"], release))
    for path, seen in node["files"].items():
        other = seen.get("sha256") != wanted.get(path, {}).get("sha256")
        if path.endswith("/secrets.yaml") and other:
            found.append("the API key changed (secret)")
    return found


def root_folders(paths: Iterable[str]) -> list[dict[str, Any]]:
    """Folders of root's that all may read, as `folder_differences` takes them, each once."""
    common = {"owner": "root", "group": "root", "mode": "0755", "optional": False}
    return [{"path": path, **common} for path in dict.fromkeys(paths)]


def restart_reasons(differences: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[str]:
    """The differences for which the engine has to restart, as sentences."""
    return [
        f"{entry['item']} {entry['reason']}"
        for entries in differences.values()
        for entry in entries
        if entry["restart"]
    ]


def filters() -> dict[str, Callable[..., Any]]:
    """Name to function."""
    plain: dict[str, Callable[..., Any]] = {
        "catalogue_digest": _patch.catalogue_digest,
        "patch_line": patch_line,
        "patch_remedies": patch_remedies,
        "dash_names": _launch.dash_names,
        "model_configs": model_configs,
        "with_digests": with_digests,
        "without_digest": without_digest,
        "file_descriptions": file_descriptions,
        "render_arguments": _launch.render_arguments,
        "context_decision": context_decision,
        "launch_environment": launch_environment,
        "launch_digest": _launch.launch_digest,
        "quote_environment": _launch.quote_environment,
        "systemd_command": systemd_command,
        "release_ids": release_ids,
        "choose_python": choose_python,
        "release_differences": _decide.release,
        "release_builds": _decide_own.builds,
        "model_differences": _decide.models,
        "file_differences": _decide.files,
        "launch_changes": launch_changes,
        "engine_differences": _decide.engine,
        "folder_differences": _decide_own.folders,
        "account_differences": _decide_own.account,
        "override_differences": _decide_own.overrides,
        "process_differences": _decide_own.process,
        "previous_differences": _decide_own.previous,
        "package_differences": _decide.packages,
        "unknown_variables": _decide.unknown_variables,
        "plan_summary": _decide.summary,
        "unproved_launch": _lifecycle.unproved,
        "prune_differences": _lifecycle.prune,
        "interrupted_benchmark": _lifecycle.interrupted_benchmark,
        "expected_downtime": _lifecycle.downtime,
        "launch_remarks": _lifecycle.remarks,
        "rollback_target": _lifecycle.automatic_target,
        "choose_rollback": _going_back.choose,
        "rollback_leaves": _going_back.left,
        "rollback_plan": _going_back.rollback_plan,
        "rollback_reaches": _going_back.reaches,
        "gate_changes": _lifecycle.gate_changes,
        "with_reason": _unforeseen.with_reason,
        "untouched_screen": _screens.untouched_screen,
        "serving_screen": _screens.serving_screen,
        "failure_notice": _screens.failure_notice,
        "failure_screen": _screens.failure_screen,
        "restart_reasons": restart_reasons,
        "root_folders": root_folders,
    }
    return {name: _errors(function) for name, function in plain.items()}
