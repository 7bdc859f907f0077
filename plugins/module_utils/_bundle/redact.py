# SPDX-License-Identifier: Apache-2.0
"""Takes secrets out of text that leaves the node.

Two nets: secrets that are known because the node keeps them (credentials, environment, the engine's
process), wherever they stand and however they are quoted; and whatever stands where a secret
usually stands.
"""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from collections.abc import Iterable, Mapping

from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import (
    HIDDEN,
    is_code,
    redact,
)

_SHORTEST = 6  # a shorter value stands in too many other places
_NAME = re.compile(
    r"(?:api|access|private|secret|encryption)[-_]?key|[-_]key$|passw(?:or)?d|secret|token|credential"
    r"|auth",
    re.IGNORECASE,
)
# Names that hold one of those words and no secret.
_HARMLESS_NAME = re.compile(
    r"tokenize|tokens?[-_](?:per|usage|num|length|ids?)|num[-_]|max[-_]|tokens\b|tokens$"
    r"|credentials?[-_]directory"
    # The tokens of a language model.
    r"|(?:bos|eos|pad|unk|sep|mask|image|audio|video|media|start|end|stop|special|next|last|first"
    r"|prev|bonus|draft|sampled|think)_token$",
    re.IGNORECASE,
)
# The other names with "token" in them are an engine's variables more often than secrets
# (`self.token_to_kv_pool = pool`): there the value decides.
_CREDENTIAL = re.compile(
    r"passw|secret|credential|key|(?:^|\.)tokens?$"
    r"|(?:hf|hub|face|api|auth|access|bearer|refresh|session|git\w*|ngc|wandb|bot|client"
    r"|service|admin|login|jwt|csrf)[-_]?token$",
    re.IGNORECASE,
)
_EXPRESSION = re.compile(
    r"[(\[{].*|[A-Za-z_][\w.]*[\[(].*|[A-Za-z]*(?:[_.][A-Za-z]+)+|(?:[A-Z]+[a-z]+){2,}"
)
_LIKE_A_SECRET = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9+=_-]{16,}")
_SNAKE_WORDS = 3  # underscores of a function's name
_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^\s/@:'\"]*:[^\s/@'\"]+@", re.IGNORECASE)
_HEADER = re.compile(
    r"(?P<name>\b(?:Proxy-)?Authorization['\"]?\s*[:=]\s*['\"]?(?:Basic|Bearer|Token)?\s*)"
    r"[\w.~+/=-]{6,}",
    re.IGNORECASE,
)
_HEADER_KEY = re.compile(
    r"(?P<name>\bX-[\w-]*(?:Key|Token)['\"]?\s*[:=]\s*['\"]?)[^\s'\"]+", re.IGNORECASE
)
_SHAPES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}"
    r"|github_pat_\w{20,}|AKIA[0-9A-Z]{16}|nvapi-[\w-]{16,}"
    r"|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)"
)
_PEM = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_ASSIGNED = re.compile(
    r"""(?P<name>['"]?(?P<bare>[\w.-]*(?:token|secret|passw(?:or)?d|credential|api[-_]?key
    |access[-_]?key|private[-_]?key)[\w.-]*)['"]?)(?P<sep>\s*[=:](?!=)\s*)
    (?P<value>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s,;'")}\]&]+)""",
    re.IGNORECASE | re.VERBOSE,
)
_PROSE = re.compile(r"credentials?: [A-Z]?[a-z]+")  # "user credentials: No such process"
_NUMBER = re.compile(r"['\"]?[\d.]+['\"]?|true|false|null|none|''|\"\"", re.IGNORECASE)


def sensitive(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    return _NAME.search(name) is not None and _HARMLESS_NAME.search(name) is None


def hide_assigned(line: str) -> str:
    """Hide the value in a line `NAME=value`, or `+NAME=value` of a diff, of a secret's name."""
    name, equals, value = line.partition("=")
    if equals and sensitive(name.lstrip(" +-")) and re.fullmatch(r"[ +-]?\w+", name):
        return f"{name}={HIDDEN}{value[len(value.rstrip()) :]}"
    return _URL.sub(rf"\g<scheme>{HIDDEN}@", line)


def secrets_of(environment: Mapping[str, str]) -> set[str]:
    """Values of an environment that are secrets, those inside of URLs among them."""
    found = {value for name, value in environment.items() if sensitive(name)}
    for value in environment.values():
        for match in re.finditer(r"://([^\s/@:]*):([^\s/@]+)@", value):
            found.add(match[2])
    return {value for value in found if len(value) >= _SHORTEST}


def spellings(secret: str) -> set[str]:
    """A secret as it may stand in text: as it is, in JSON, in a URL, in base64."""
    whole = {
        secret,
        json.dumps(secret)[1:-1],
        repr(secret)[1:-1],
        urllib.parse.quote(secret, safe=""),
        urllib.parse.quote_plus(secret),
        base64.b64encode(secret.encode()).decode(),
        secret.replace("%", "%%").replace("$", "$$"),
    }
    return {text for text in whole if len(text) >= _SHORTEST}


def clean(text: str, secrets: Iterable[str] = ()) -> str:
    """Take every secret out of a text.

    Args:
        text: Any text.
        secrets: Values that are known to be secret.

    Returns:
        The text with `HIDDEN` in their places.
    """
    known = sorted({form for one in secrets for form in spellings(one)}, key=len, reverse=True)
    for form in known:
        text = text.replace(form, HIDDEN)
    text = _PEM.sub(HIDDEN, text)
    text = _URL.sub(rf"\g<scheme>{HIDDEN}@", text)
    text = _HEADER.sub(rf"\g<name>{HIDDEN}", text)
    text = _HEADER_KEY.sub(rf"\g<name>{HIDDEN}", text)
    text = redact(text)
    text = _ASSIGNED.sub(_hide, text)
    return _SHAPES.sub(HIDDEN, text)


def _hide(match: re.Match[str]) -> str:
    if HIDDEN in match["value"] or _harmless(match["bare"], match["sep"], match["value"]):
        return match[0]
    return f"{match['name']}{match['sep']}{HIDDEN}"


def _harmless(name: str, separator: str, value: str) -> bool:
    if _HARMLESS_NAME.search(name) or _NUMBER.fullmatch(value) or is_code(value):
        return True
    if _PROSE.fullmatch(f"{name}{separator}{value}"):
        return True
    if name.isupper() or _CREDENTIAL.search(name):
        return False
    if name.lower().endswith("token"):
        return _EXPRESSION.fullmatch(value) is not None
    bare = value.strip("'\"")
    code = "token" in bare.lower() or bare.count("_") >= _SNAKE_WORDS
    return code or _LIKE_A_SECRET.fullmatch(bare) is None
