# SPDX-License-Identifier: Apache-2.0
"""Findings for people: which variable, what happens, where that is written, what to do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

# Variables of the role `engine` behind its own arguments.
OWN_VARIABLES = {
    "host": "engine_host",
    "port": "engine_port",
    "tp-size": "engine_tp_size",
    "served-model-name": "engine_served_model_name",
    "context-length": "engine_context_length",
    "mem-fraction-static": "engine_mem_fraction_static",
    "model-path": "model_store_target",
    "speculative-algorithm": "engine_speculation_settings.algorithm",
    "speculative-draft-model-path": "model_store_draft",
    "speculative-num-steps": "engine_speculation_settings.num_steps",
    "speculative-eagle-topk": "engine_speculation_settings.eagle_topk",
    "speculative-num-draft-tokens": "engine_speculation_settings.num_draft_tokens",
    "enable-torch-symm-mem": "engine_torch_symm_mem",
    "nnodes": "engine_group",
    "node-rank": "engine_group",
    "dist-init-addr": "engine_group",
}


def variable_of(argument: str, given: Collection[str]) -> str:
    """The inventory's variable behind an argument.

    Args:
        argument: `--name`, or `NAME=value`.
        given: Names in `engine_arguments`, in either spelling.

    Returns:
        Such as `engine_arguments.page-size`, or `engine_tp_size` for what the role gives itself.
    """
    if not argument.startswith("-"):
        return f"engine_environment.{argument.partition('=')[0]}"
    name = argument.lstrip("-").partition("=")[0]
    if name in {one.replace("_", "-") for one in given}:
        return f"engine_arguments.{name}"
    return OWN_VARIABLES.get(name, f"the role's own argument --{name}")


def overrides(given: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """What an operator's arguments replace of the role's own.

    Args:
        given: `engine_arguments`, names with dashes.
        own: The role's own arguments; None and empty are not set.

    Returns:
        A line for each that differs, with both values.
    """
    found = []
    for name, value in sorted(given.items()):
        before = own.get(name)
        if before in (None, "") or str(before) == str(value):
            continue
        owner = f"{variable_of(f'--{name}', ())} {before}"
        what = "leaves out" if value in (None, False) else f"{value} wins over"
        found.append(f"engine_arguments.{name} {what} {owner}")
    return found


def without_accepted(
    findings: Iterable[Mapping[str, Any]], accept: Collection[str]
) -> list[dict[str, Any]]:
    """The findings, where those that the operator accepts are warnings.

    Args:
        findings: As `Finding.as_dict` gives them.
        accept: Ids of rules, or names of arguments and variables without dashes.

    Returns:
        The findings with their `severity`.
    """
    result = []
    for finding in findings:
        name = str(finding["argument"]).lstrip("-").partition("=")[0]
        accepted = bool({name, str(finding["rule"])} & set(accept))
        result.append({**finding, **({"severity": "warn"} if accepted else {})})
    return result


def line(finding: Mapping[str, Any], release: str, given: Collection[str]) -> str:
    """One finding in a line.

    Args:
        finding: As `Finding.as_dict` gives it.
        release: SGLang's version.
        given: Names in `engine_arguments`.

    Returns:
        Variable, cause, evidence and remedy.
    """
    kind = str(finding["kind"]).replace("_", " ")
    where = str(finding["where"])
    if where.startswith("srt/"):
        where = f"SGLang {release} {where}"
    text = f"{variable_of(str(finding['argument']), given)}: {kind}: {finding['reason']}"
    text += f" ({where})" if where else ""
    text += f". Remedy: {finding['remedy']}" if finding["remedy"] else ""
    return text
