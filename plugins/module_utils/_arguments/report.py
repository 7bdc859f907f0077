# SPDX-License-Identifier: Apache-2.0
"""What a launch means on one release, for reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._arguments import Reads
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.check import (
    check_launch,
    parse_history,
    unread_variables,
)
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.findings import (
    STOPS_THE_PARSER,
    Finding,
)
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.read import read_parser
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.rules import (
    Launch,
    parse_rules,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import Modules

# Where the rules and the history are, below the collection's root.
RULES = "roles/engine/files/launch_rules.yml"
HISTORY = "roles/engine/files/argument_history.json"

# The arguments that the role `engine` gives by default for Kimi-K2.5 with an EAGLE-3 draft (a test
# compares).
ROLE_LAUNCH = (
    "--model-path", "/var/lib/sglang/models/kimi-k2.5/1",
    "--served-model-name", "kimi-k2.5",
    "--host", "127.0.0.1",
    "--port", "30000",
    "--tp-size", "8",
    "--trust-remote-code",
    "--tool-call-parser", "kimi_k2",
    "--reasoning-parser", "kimi_k2",
    "--attention-backend", "triton",
    "--speculative-algorithm", "EAGLE3",
    "--speculative-draft-model-path", "/var/lib/sglang/models/kimi-k2.5-eagle3/1",
    "--speculative-num-steps", "3",
    "--speculative-eagle-topk", "1",
    "--speculative-num-draft-tokens", "4",
)  # fmt: skip
# The two all-reduce flags of the command that this product took over. It gives neither by itself,
# but for the first where GPUs have multicast (`engine_allreduce`).
ORIGINAL_FLAGS = ("--enable-torch-symm-mem", "--enable-flashinfer-allreduce-fusion")
DEFAULT_LAUNCH = (*ROLE_LAUNCH, *ORIGINAL_FLAGS)


def launch_report(
    tree: Reads,
    release: str,
    raw_rules: object,
    argv: Sequence[str] | None = None,
    *,
    raw_history: object = None,
    environment: Mapping[str, str] | None = None,
    patches: Sequence[str] = (),
    modules: Modules | None = None,
) -> dict[str, Any]:
    """Judge a launch on SM120 by a release's source and the rules.

    Args:
        tree: The release.
        release: Its version; empty where it is not known.
        raw_rules: The parsed `RULES`.
        argv: The arguments; `DEFAULT_LAUNCH` where None.
        raw_history: The parsed `HISTORY`; without it nothing is said about other releases.
        environment: The engine's variables.
        patches: Ids of the source patches that the release gets.
        modules: The release's modules, where they are parsed already.

    Returns:
        `unknown`, `deprecated` and `fatal_on_sm120` (arguments), `findings` (all, as mappings),
        `original_command` (arguments that are judged with the others although the product does
        not launch them), and `arguments` (`count`, `deprecated`, `gaps` of the reading).

    Raises:
        ArgumentsError: The release's arguments, the rules or the history cannot be read.
    """
    parser = read_parser(tree, modules)
    words = DEFAULT_LAUNCH if argv is None else tuple(argv)
    variables = dict(environment or {})
    launch = Launch(release, {}, variables, sm120=True, patches=frozenset(patches))
    history = None if raw_history is None else parse_history(raw_history)
    findings = check_launch(
        parser, parse_rules(raw_rules), words, launch, history=history, complete=argv is None
    )
    judged = {finding.argument.partition("=")[0] for finding in findings}
    findings += unread_variables(tree, set(variables) - judged)
    return {
        "unknown": _arguments(findings, STOPS_THE_PARSER),
        "deprecated": _arguments(findings, ("deprecated",)),
        "fatal_on_sm120": _arguments(findings, ("fatal", "wrong_results")),
        "findings": [finding.as_dict() for finding in findings],
        "original_command": list(ORIGINAL_FLAGS) if argv is None else [],
        "arguments": {
            "count": len(parser.arguments),
            "deprecated": sum(argument.deprecated for argument in parser.arguments),
            "gaps": list(parser.gaps),
        },
    }


def _arguments(findings: Sequence[Finding], kinds: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(f.argument for f in findings if f.kind in kinds))
