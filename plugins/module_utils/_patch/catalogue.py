# SPDX-License-Identifier: Apache-2.0
"""Read the patch catalogue: plain data in, typed entries out, every mistake named by its place."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._patch.constants import (
    NotConstant,
    literal,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import CatalogueError
from ansible_collections.sm120.sglang.plugins.module_utils._patch.rules import (
    DelegationRule,
    DictEntryRule,
    DiffRule,
    Key,
    Method,
    Patch,
    Rule,
    SymmMemProof,
    parse_method,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.unified import (
    DiffError,
    parse_diff,
)

Place = tuple[str | int, ...]

_ID = re.compile(r"[a-z][a-z0-9_]*\Z")
_REQUIRED = ("id", "title", "file", "rule")
_OPTIONAL = ("proof", "does", "does_not", "obsolete", "releases", "remedy")
_RULE_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "ensure_dict_entry": (("table", "key"), ("like", "value", "lookups")),
    "ensure_delegating_methods": (("class", "target", "methods"), ()),
    "unified_diff": (("diff",), ()),
}


def parse_catalogue(entries: object, place: Place = ()) -> tuple[Patch, ...]:
    """Check and type a whole catalogue.

    Args:
        entries: a list of mappings, as YAML gives it.
        place: where the list stands, for messages.

    Raises:
        CatalogueError: the first entry that is not usable, with its place.
    """
    if isinstance(entries, (str, bytes)) or not isinstance(entries, Sequence):
        raise CatalogueError(place, "is not a list of entries", "see docs/patches.md")
    patches: list[Patch] = []
    for index, entry in enumerate(entries):
        patch = parse_entry(entry, (*place, index))
        if any(patch.id == other.id for other in patches):
            raise CatalogueError((*place, index, "id"), f"{patch.id!r} is there twice")
        patches.append(patch)
    return tuple(patches)


def parse_entry(entry: object, place: Place) -> Patch:
    """Check and type one entry.

    Raises:
        CatalogueError: it is not usable.
    """
    fields = _mapping(entry, place, _REQUIRED, _OPTIONAL)
    identifier = _text(fields, "id", place)
    if not _ID.match(identifier):
        raise CatalogueError((*place, "id"), f"{identifier!r} is not lower_case_with_underscores")
    return Patch(
        id=identifier,
        title=_text(fields, "title", place),
        file=_path(fields["file"], (*place, "file")),
        rule=_rule(fields["rule"], (*place, "rule")),
        proof=_proof(fields["proof"], (*place, "proof")) if "proof" in fields else None,
        does=_text(fields, "does", place, required=False),
        does_not=_text(fields, "does_not", place, required=False),
        obsolete=_text(fields, "obsolete", place, required=False),
        releases=_notes(fields.get("releases", {}), (*place, "releases")),
        remedy=_text(fields, "remedy", place, required=False),
    )


def merge(shipped: Sequence[Patch], extra: Sequence[Patch]) -> tuple[Patch, ...]:
    """Put the operator's entries behind the shipped ones.

    Raises:
        CatalogueError: an entry takes the id of a shipped one.
    """
    known = {patch.id for patch in shipped}
    for index, patch in enumerate(extra):
        if patch.id in known:
            raise CatalogueError(
                (index, "id"),
                f"{patch.id!r} is the id of a shipped patch",
                "give your entry an id of its own, and leave the shipped one out of 'patches'",
            )
    return (*shipped, *extra)


def _mapping(
    value: object, place: Place, required: Sequence[str], optional: Sequence[str]
) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise CatalogueError(place, f"is not a mapping with {', '.join(required)}")
    known = [*required, *optional]
    for key in value:
        if key not in known:
            raise CatalogueError((*place, str(key)), f"unknown; known here: {', '.join(known)}")
    for key in required:
        if value.get(key) is None:
            raise CatalogueError((*place, key), "is missing")
    return value


def _text(fields: Mapping[str, Any], key: str, place: Place, *, required: bool = True) -> str:
    value = fields.get(key, "" if not required else None)
    if not isinstance(value, str) or (required and not value.strip()):
        raise CatalogueError((*place, key), f"is not text: {value!r}")
    return str(value).strip()


def _path(value: object, place: Place) -> str:
    if (
        not isinstance(value, str)
        or value.startswith("/")
        or "\\" in value
        or any(part in {"", ".", ".."} for part in value.split("/"))
    ):
        raise CatalogueError(place, f"{value!r} is not a path inside the sglang package")
    return str(value)


def _notes(value: object, place: Place) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping):
        raise CatalogueError(place, "is not a mapping of release ranges to notes")
    for key, note in value.items():
        if not isinstance(key, str) or not isinstance(note, str):
            raise CatalogueError(
                (*place, str(key)), "range and note must both be text", "put them in quotes"
            )
    return tuple((str(key), str(note).strip()) for key, note in value.items())


def _rule(value: object, place: Place) -> Rule:
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if kind not in _RULE_KEYS:
        raise CatalogueError(
            (*place, "kind"), f"{kind!r} is no rule; there are: {', '.join(_RULE_KEYS)}"
        )
    required, optional = _RULE_KEYS[kind]
    fields = _mapping(value, place, ("kind", *required), optional)
    if kind == "ensure_dict_entry":
        return _dict_rule(fields, place)
    if kind == "ensure_delegating_methods":
        return DelegationRule(
            class_name=_identifier(fields["class"], (*place, "class")),
            target=_identifier(fields["target"], (*place, "target")),
            methods=_methods(fields["methods"], (*place, "methods")),
        )
    try:
        _text(fields, "diff", place)
        return DiffRule(parse_diff(fields["diff"]))
    except DiffError as error:
        raise CatalogueError(
            (*place, "diff"), f"line {error.line} of the diff: {error.problem}"
        ) from error


def _dict_rule(fields: Mapping[str, Any], place: Place) -> DictEntryRule:
    table = fields["table"]
    for part in table.split(".") if isinstance(table, str) else [table]:
        _identifier(part, (*place, "table"))
    if "like" not in fields and "value" not in fields:
        raise CatalogueError((*place, "value"), "is missing, and so is 'like'")
    key = _key(fields["key"], (*place, "key"))
    like = _key(fields["like"], (*place, "like")) if "like" in fields else None
    if "like" in fields and like == key:
        raise CatalogueError((*place, "like"), "is the key itself")
    lookups = fields.get("lookups", [])
    if isinstance(lookups, str) or not isinstance(lookups, Sequence):
        raise CatalogueError((*place, "lookups"), "is not a list of files")
    return DictEntryRule(
        table=str(table),
        key=key,
        like=like,
        has_like="like" in fields,
        value=_value(fields["value"], (*place, "value")) if "value" in fields else None,
        lookups=tuple(
            _path(item, (*place, "lookups", index)) for index, item in enumerate(lookups)
        ),
    )


def _identifier(value: object, place: Place) -> str:
    if not isinstance(value, str) or not value.isidentifier() or keyword.iskeyword(value):
        raise CatalogueError(place, f"{value!r} is not a Python name")
    return str(value)


def _key(value: object, place: Place) -> Key:
    if isinstance(value, (bool, int, float)) or value is None:
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Sequence) and value:
        return tuple(_key(item, place) for item in value)
    raise CatalogueError(place, f"{value!r} cannot be the key of a table")


def _value(value: object, place: Place) -> str:
    """The value as canonical Python text; text from YAML is Python text already."""
    if isinstance(value, str):
        try:
            return repr(literal(value))
        except NotConstant as error:
            raise CatalogueError(
                place,
                f"{value!r} is not a Python literal",
                'write text with its own quotes inside, a mapping as "{2: 64 * 1024}"',
            ) from error
    return repr(plain(value, place))


def plain(value: object, place: Place) -> object:
    """Copy YAML data into plain Python containers.

    Raises:
        CatalogueError: something that a Python literal cannot hold.
    """
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {plain(key, place): plain(item, place) for key, item in value.items()}
    if isinstance(value, (Sequence, set, frozenset)):
        return [plain(item, place) for item in value]
    raise CatalogueError(place, f"{value!r} cannot be written as a Python literal")


def _methods(value: object, place: Place) -> tuple[Method, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise CatalogueError(place, "is not a list of signatures such as 'name(a, b=None)'")
    methods: list[Method] = []
    for index, item in enumerate(value):
        try:
            method = parse_method(str(item))
        except ValueError as error:
            raise CatalogueError((*place, index), str(error)) from error
        if any(method.name == other.name for other in methods):
            raise CatalogueError((*place, index), f"{method.name!r} is there twice")
        methods.append(method)
    return tuple(methods)


def _proof(value: object, place: Place) -> SymmMemProof:
    needed = ("kind", "communicator", "tables", "capability", "world_size")
    fields = _mapping(value, place, needed, ())
    if fields["kind"] != "symm_mem_communicator":
        raise CatalogueError(
            (*place, "kind"), f"{fields['kind']!r} is no proof; there is: symm_mem_communicator"
        )
    for key in ("capability", "world_size"):
        if isinstance(fields[key], bool) or not isinstance(fields[key], int) or fields[key] < 1:
            raise CatalogueError((*place, key), f"{fields[key]!r} is not a positive whole number")
    return SymmMemProof(
        communicator=_path(fields["communicator"], (*place, "communicator")),
        tables=_path(fields["tables"], (*place, "tables")),
        capability=int(fields["capability"]),
        world_size=int(fields["world_size"]),
    )
