# SPDX-License-Identifier: Apache-2.0
"""The engine's launch command: from one dict to argv and environment.

Everything here is pure. The dict is the inventory's `engine_arguments` over the role's own
arguments; the result is what systemd starts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Scalar = str | int | float | bool
Value = Scalar | Sequence[Scalar] | Mapping[str, object] | None

CONTEXT_OVERRIDE = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"

# SGLang looks for the context length under these keys, in this order
# (0.5.9 utils/hf_transformers_utils.py:444, 0.5.23 utils/hf_transformers/common.py).
_CONTEXT_KEYS = (
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "max_position_embeddings",
)
# Where a multimodal config keeps the language model's own config (0.5.9 :132-174).
_TEXT_CONFIGS = ("text_config", "llm_config", "language_config")
_DEFAULT_CONTEXT = 2048  # what SGLang assumes when no key is there (0.5.9 :470)
_ARGUMENT = re.compile(r"^[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*$")


_KEYS = ("api-key", "admin-api-key")


class LaunchError(ValueError):
    """The wanted launch cannot be rendered; the message names argument, cause and remedy."""


@dataclass(frozen=True)
class ContextDecision:
    """Whether the context override is needed.

    Attributes:
        target: The target's effective context length in tokens.
        draft: The draft's own context length in tokens, None without a draft.
        override: True when the draft is shorter, so that SGLang refuses without the variable.
        reason: One sentence for the operator, with both numbers.
    """

    target: int
    draft: int | None
    override: bool
    reason: str


def render_arguments(arguments: Mapping[str, Value]) -> list[str]:
    """Render a dict of server arguments as an argument list.

    Args:
        arguments: Name without dashes (`tp-size` or `tp_size`) to value. True gives the bare
            flag; False and None leave the argument out; a list gives one flag with several
            values; a mapping is passed as JSON.

    Returns:
        The argument list, sorted by name, so that the order in an inventory does not matter.

    Raises:
        LaunchError: A name is not a server argument's name, or given in both spellings, or a
            list is empty.
    """
    rendered: dict[str, list[str]] = {}
    for name, value in dash_names(arguments).items():
        if not _ARGUMENT.match(name):
            raise LaunchError(
                f"launch argument {name!r}: not a name; write it without leading dashes, "
                "as in 'tp-size'"
            )
        flag = f"--{name}"
        if value is None or value is False:
            continue
        rendered[flag] = [flag, *_render_value(flag, value)]
    return [word for flag in sorted(rendered) for word in rendered[flag]]


def dash_names(arguments: Mapping[str, Value]) -> dict[str, Value]:
    """Spell argument names with dashes, so that two dicts can be combined.

    Args:
        arguments: Names in either spelling.

    Returns:
        The same values under the dashed names.

    Raises:
        LaunchError: A name is there in both spellings.
    """
    dashed: dict[str, Value] = {}
    for name, value in arguments.items():
        spelled = name.replace("_", "-")
        if spelled in dashed:
            raise LaunchError(f"launch argument --{spelled}: given twice, with '-' and with '_'")
        dashed[spelled] = value
    return dashed


def secret_arguments(arguments: Mapping[str, Value]) -> list[str]:
    """Names of arguments that would put a key where everybody on the node can read it.

    Args:
        arguments: As for `render_arguments`; a name may be one that is refused there.

    Returns:
        The names, also where argparse would take one as an abbreviation; never a value, nor what
        stands behind `=` in a name.
    """
    found = []
    for written in arguments:
        name = str(written).partition("=")[0]
        spelled = name.strip().replace("_", "-").lstrip("-").lower()
        if len(spelled) > 1 and any(key.startswith(spelled) for key in _KEYS):
            found.append(name)
    return found


def _render_value(flag: str, value: Value) -> list[str]:
    if value is True:
        return []
    if isinstance(value, Mapping):
        return [json.dumps(value, sort_keys=True, separators=(",", ":"))]
    if isinstance(value, Sequence) and not isinstance(value, str):
        if not value:
            raise LaunchError(f"launch argument {flag}: an empty list; leave it out instead")
        return [str(item) for item in value]
    return [str(value)]


def context_length(config: Mapping[str, object]) -> int:
    """The context length that SGLang derives from a model's config.

    Args:
        config: A parsed `config.json`; a multimodal one keeps the numbers in `text_config`.

    Returns:
        Tokens, as SGLang's `get_context_length` computes them (0.5.9
        utils/hf_transformers_utils.py:453-470).
    """
    text: Mapping[str, object] = config
    for key in _TEXT_CONFIGS:
        inner = config.get(key)
        if isinstance(inner, Mapping):
            text = inner
            break
    factor = 1.0
    scaling = text.get("rope_scaling")
    if isinstance(scaling, Mapping) and "original_max_position_embeddings" not in scaling:
        wanted = scaling.get("factor", 1)
        if scaling.get("rope_type") != "llama3" and isinstance(wanted, (int, float)):
            factor = float(wanted)
    for key in _CONTEXT_KEYS:
        length = text.get(key)
        if isinstance(length, (int, float)):
            return int(factor * length)
    return _DEFAULT_CONTEXT


def decide_context(
    target: Mapping[str, object],
    draft: Mapping[str, object] | None,
    wanted: int | None = None,
) -> ContextDecision:
    """Decide whether the engine must be allowed to overwrite the draft's context length.

    SGLang gives the draft the target's effective context and refuses when the draft's own is
    shorter, unless the variable is set (0.5.9 configs/model_config.py:359-389; unchanged in
    0.5.23). The override stretches the draft's positions; acceptance past its own context may
    fall (sglang#6783), and sglang#3574 reports a crash there.

    Args:
        target: The target's parsed `config.json`.
        draft: The draft's, None without speculation.
        wanted: The operator's `context-length`, None to take the target's own.

    Returns:
        The decision with both numbers.

    Raises:
        LaunchError: `wanted` is longer than the target itself supports: the variable would
            lift that check too, so it is never set for that.
    """
    own = context_length(target)
    if wanted is not None and wanted > own:
        raise LaunchError(
            f"context-length {wanted} is longer than the target model's own {own} tokens "
            f"(its config.json); use {own} or less"
        )
    effective = own if wanted is None else wanted
    if draft is None:
        return ContextDecision(effective, None, False, "no draft model, no override needed")
    short = context_length(draft)
    if short < effective:
        return ContextDecision(
            effective,
            short,
            True,
            f"the draft's context ({short}) is shorter than the target's ({effective}): "
            f"{CONTEXT_OVERRIDE}=1 is set; to do without it, cap context-length at {short}",
        )
    return ContextDecision(
        effective,
        short,
        False,
        f"the draft's context ({short}) covers the target's ({effective}): no override needed",
    )


def render_environment(
    environment: Mapping[str, Scalar], decision: ContextDecision
) -> dict[str, str]:
    """The engine's environment with the context override decided.

    Args:
        environment: Wanted variables; numbers and booleans become `1`/`0` and digits.
        decision: See `decide_context`.

    Returns:
        Variables as strings, sorted by name.

    Raises:
        LaunchError: The operator sets the override by hand (it is decided from the two
            configs), or a name or value cannot stand in a systemd environment file.
    """
    if CONTEXT_OVERRIDE in environment:
        raise LaunchError(
            f"{CONTEXT_OVERRIDE} is decided from the two config.json files; remove it from "
            "engine_environment"
        )
    result: dict[str, str] = {}
    for name, value in environment.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise LaunchError(f"environment variable {name!r}: not a valid name")
        text = str(int(value)) if isinstance(value, bool) else str(value)
        if "\n" in text:
            raise LaunchError(f"environment variable {name}: its value holds a line break")
        result[name] = text
    if decision.override:
        result[CONTEXT_OVERRIDE] = "1"
    return dict(sorted(result.items()))


def quote_systemd(word: str) -> str:
    r"""Quote one word for an ExecStart= line.

    Args:
        word: Any text without NUL or line break.

    Returns:
        The word, in double quotes where needed, with `%`, `$`, `"` and `\` kept literal
        (systemd.service(5), "Command lines").
    """
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    if word and re.fullmatch(r"[A-Za-z0-9_@:,./=+\-%$\\]+", word):
        return escaped
    return f'"{escaped}"'


def quote_environment(value: str) -> str:
    """Quote a value for a systemd EnvironmentFile= (systemd.exec(5)): always double quotes."""
    for character in ("\\", '"', "`", "$"):
        value = value.replace(character, "\\" + character)
    return f'"{value}"'


def launch_digest(command: Sequence[str], environment: Mapping[str, str], release: str) -> str:
    """Name one launch: the same digest means that a running engine needs no restart.

    Args:
        command: The argument list without secrets.
        environment: The rendered environment.
        release: The release's id.

    Returns:
        16 hexadecimal digits.
    """
    text = json.dumps([list(command), dict(environment), release], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
