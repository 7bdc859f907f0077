# SPDX-License-Identifier: Apache-2.0
"""Filters: whether target and draft fit together and into the GPUs, for use in roles."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.sm120.sglang.plugins.module_utils import _launch
from ansible_collections.sm120.sglang.plugins.module_utils._pairing import check, memory

# They place weights or KV otherwise than plain tensor parallelism does.
_NOT_IN_THE_SUM = ("enable-dp-attention", "dp-size", "pp-size", "cpu-offload-gb")


def _errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn an unusable config or value into a message of the play, without a traceback."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except _launch.LaunchError as error:
            raise AnsibleFilterError(str(error)) from None  # its own message is whole
        except (KeyError, TypeError, ValueError) as error:
            raise AnsibleFilterError(
                f"{function.__name__}: a config.json or an argument has an unexpected value: "
                f"{type(error).__name__} {error}"
            ) from error

    return wrapped


def _weights(model: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    """The controller's reading of a model's weights, or the node's."""
    seen = node.get("models", {}).get(model["name"], {})
    return model.get("weights") or seen.get("weights") or {"groups": [], "problem": "not read"}


def drafting(
    settings: Mapping[str, Any],
    drafts: Sequence[Mapping[str, Any]],
    on_node: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """How to draft, with an algorithm in the place of `auto` (`check.with_algorithm`).

    Args:
        settings: `engine_speculation_settings`.
        drafts: The draft as the lookup `model` gives it, or none.
        on_node: The node's reading of models; empty before it is read.
    """
    return check.with_algorithm(settings, _draft_config(drafts, on_node))


def drafting_remarks(
    settings: Mapping[str, Any],
    drafts: Sequence[Mapping[str, Any]],
    on_node: Mapping[str, Mapping[str, Any]],
) -> list[str]:
    """That the algorithm of `drafting`, of the same arguments, is assumed; else nothing."""
    if not check.assumed(settings, _draft_config(drafts, on_node)):
        return []
    said = (
        f"speculation: algorithm {check.ASSUMED} is assumed until the draft {drafts[0]['name']} is "
        "on the node; its config.json tells which one it was made for"
    )
    return [said]


def _draft_config(
    drafts: Sequence[Mapping[str, Any]], on_node: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The draft's `config.json`, empty where it is not read yet; None without a draft."""
    if not drafts:
        return None
    read = on_node.get(drafts[0]["name"], {}).get("config")
    return drafts[0].get("config") or read or {}


def pairing_verdicts(node: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
    """`check.check` for a target and its draft; nothing without a draft or without configs.

    Args:
        node: The reading of `node_facts`.
        wanted: `models` (as the lookup `model` gives them, the target first), `configs`,
            `release` (of SGLang), `algorithm`, and `arguments`, the engine's.
    """
    models, configs = wanted["models"], wanted["configs"]
    if len(models) < 2 or not all(configs):
        return []
    names = [f"{model['name']} {model['source']['path']}" for model in models]
    found = check.check(
        configs[0],
        configs[1],
        release=wanted["release"],
        algorithm=wanted["algorithm"],
        names=(names[0], names[1]),
        tensors=_weights(models[1], node)["groups"],
        arguments=_launch.dash_names(wanted["arguments"]),
    )
    return [{**verdict} for verdict in found]


def memory_plan(node: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """`memory.plan` as a mapping: `verdict`, `fraction`, `tokens`, `lines`.

    Args:
        node: The reading of `node_facts`.
        wanted: As for `pairing_verdicts`, with `ranks` (tensor parallel size), `fraction`
            (`auto` or a number; `mem-fraction-static` among the arguments wins), and `others`, the
            readings of the engine's other nodes.
    """
    given: dict[str, Any] = dict(_launch.dash_names(wanted["arguments"]))
    fraction = given.get("mem-fraction-static") or wanted["fraction"]
    if wrong := memory.fraction_problem(fraction):
        raise _launch.LaunchError(f"mem_fraction_static: {wrong}")
    configs, weights = wanted["configs"], [_weights(model, node) for model in wanted["models"]]
    sizes = [size for one in (node, *wanted.get("others", ())) for size in _gpu_sizes(one)]
    problem = next((entry["problem"] for entry in weights if entry["problem"]), "")
    if given.get("device") == "cpu" or not sizes:
        return _planned(memory.plan(None, fraction, 0, why="no GPU"))
    if odd := [name for name in _NOT_IN_THE_SUM if str(given.get(name) or 0) not in {"0", "1"}]:
        why = f"the sum does not cover {', '.join(odd)}"
        return _planned(memory.plan(None, fraction, 0, why=why))
    if problem or not all(configs):
        why = f"the models' files are not all there ({problem or 'config.json'})"
        return _planned(memory.plan(None, fraction, 0, why=why))
    draft = configs[1] if len(configs) > 1 else None
    need = memory.measure(
        configs[0],
        draft,
        (weights[0]["groups"], weights[1]["groups"] if draft else []),
        memory=min(sizes),
        ranks=int(given.get("tp-size") or wanted["ranks"]),
        release=wanted["release"],
        arguments=given,
    )
    length, cap = given.get("context-length"), given.get("max-total-tokens")
    context = _launch.decide_context(configs[0], draft, int(length) if length else None).target
    return _planned(memory.plan(need, fraction, context, cap=int(cap) if cap else None))


def _gpu_sizes(node: Mapping[str, Any]) -> list[int]:
    gpus = ((node.get("host") or {}).get("smi") or {}).get("gpus") or []
    return [gpu["memory_mib"] for gpu in gpus if gpu.get("memory_mib")]


def _planned(plan: memory.MemoryPlan) -> dict[str, Any]:
    return {**asdict(plan), "lines": list(plan.lines)}


def pairing_problems(verdicts: Iterable[Mapping[str, str]], verdict: str = "fail") -> list[str]:
    """The checks with a verdict, each with its remedy, as sentences."""
    return [
        f"{entry['id']}: {entry['read']}. Remedy: {entry['remedy']}"
        for entry in verdicts
        if entry["verdict"] == verdict
    ]


def filters() -> dict[str, Callable[..., Any]]:
    """Name to function."""
    plain: dict[str, Callable[..., Any]] = {
        "drafting": drafting,
        "drafting_remarks": drafting_remarks,
        "pairing_verdicts": pairing_verdicts,
        "memory_plan": memory_plan,
        "pairing_problems": pairing_problems,
        "fraction_problem": memory.fraction_problem,
    }
    return {name: _errors(function) for name, function in plain.items()}
