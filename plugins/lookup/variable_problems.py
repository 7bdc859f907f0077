# SPDX-License-Identifier: Apache-2.0
"""Lookup of what is wrong with the values of roles' public variables."""

from __future__ import annotations

DOCUMENTATION = r"""
name: variable_problems
short_description: What is wrong with the values of roles' public variables, a sentence each
description:
  - Judges as Ansible does when a role begins (types, choices, keys of mappings), but for all roles
    at once, before the first one acts, and without showing whole argument specs.
  - Stricter in one thing. Ansible takes a text for a number, as C(-e port=1500) gives it, and then
    leaves it a text wherever the variable is used. It is refused, with how to give the value.
options:
  _terms:
    description: Role names.
    required: true
  folder:
    description: The folder that holds the roles.
    type: path
    required: true
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Show what is wrong
  ansible.builtin.debug:
    msg: "{{ q('sm120.sglang.variable_problems', 'engine', folder='roles') }}"
"""

RETURN = r"""
_raw:
  description: Sentences with variable, value and what is wanted.
  type: list
  elements: str
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.lookup import LookupBase
from ansible_collections.sm120.sglang.plugins.lookup.role_variables import role_options

_LONGEST = 80
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "dict": "a mapping",
}
_WORDS |= {"str": "a text", "list": "a list"}
# What a text is not, although Ansible takes one for it.
_NO_TEXT = ("int", "float", "bool", "list", "dict")


def problems(name: str, option: Mapping[str, Any], value: Any) -> list[str]:
    """What is wrong with one variable.

    Args:
        name: The variable.
        option: Its argument specification.
        value: What was given.

    Returns:
        Sentences; none when the value fits. A secret's value is in none of them.
    """
    if isinstance(value, str) and option.get("type") in _NO_TEXT:
        return [_text(name, option, value)]
    if not _refused(name, option, value):
        return _texts(name, option, value)
    shallow = {key: option[key] for key in ("type", "elements", "choices") if key in option}
    if _refused(name, shallow, value):
        given = "a secret" if option.get("no_log") else _shown(value)
        return [f"{name}: {given} was given, {_wanted(option)} is wanted"]
    if isinstance(value, Mapping):
        return _inside(name, option["options"], value)
    if isinstance(value, list):
        return _elements(name, option, value)
    return _refused(name, option, value)


def _elements(name: str, option: Mapping[str, Any], value: list[Any]) -> list[str]:
    """What is wrong with the elements of a list."""
    inner = {key: entry for key, entry in option.items() if key != "elements"}
    inner["type"] = option.get("elements", "raw")
    return [
        sentence
        for number, entry in enumerate(value)
        for sentence in problems(f"{name}[{number}]", inner, entry)
    ]


def _texts(name: str, option: Mapping[str, Any], value: Any) -> list[str]:
    """The texts inside a value that Ansible would accept."""
    if isinstance(value, list):
        return _elements(name, option, value)
    if isinstance(value, Mapping):
        return [
            sentence
            for key, inner in option.get("options", {}).items()
            if key in value
            for sentence in problems(f"{name}.{key}", inner, value[key])
        ]
    return []


def _text(name: str, option: Mapping[str, Any], value: str) -> str:
    """That a text was given where none is wanted, and how to give what it means."""
    given = "a secret" if option.get("no_log") else _shown(value)
    plain = {key: option[key] for key in ("type", "elements") if key in option}
    read = ArgumentSpecValidator({name: plain}).validate({name: value})
    sentence = f"{name}: {given} was given, {_wanted(option)} is wanted"
    if read.error_messages:
        return sentence
    meant = "..." if option.get("no_log") else json.dumps(read.validated_parameters[name])
    top = name.partition(".")[0].partition("[")[0]
    if top != name:
        return f"{sentence}: write {meant}, without quotes"
    return (
        f"{sentence}. On the command line only JSON has such values: -e '{{\"{name}\": {meant}}}'; "
        "in the inventory write it without quotes"
    )


def _refused(name: str, option: Mapping[str, Any], value: Any) -> list[str]:
    said: list[str] = (
        ArgumentSpecValidator({name: dict(option)}).validate({name: value}).error_messages
    )
    return said


def _inside(
    name: str, options: Mapping[str, Mapping[str, Any]], value: Mapping[str, Any]
) -> list[str]:
    """What is wrong with the keys of a mapping."""
    known = ", ".join(options)
    found = [f"{name}.{key}: no such key; known: {known}" for key in value if key not in options]
    for key, option in options.items():
        if key in value:
            found += problems(f"{name}.{key}", option, value[key])
        elif option.get("required"):
            found.append(f"{name}.{key}: is missing; {_wanted(option)} is wanted")
    return found


def _wanted(option: Mapping[str, Any]) -> str:
    kind = str(option.get("type", "str"))
    if choices := option.get("choices"):
        return f"one of {', '.join(str(choice) for choice in choices)}"
    words = _WORDS.get(kind, f"a {kind}")
    return f"{words} of {option['elements']}" if "elements" in option else words


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


class LookupModule(LookupBase):
    """The lookup."""

    def run(
        self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[str]:
        """Judge every variable of roles.

        Args:
            terms: Role names.
            variables: The host's variables.
            **kwargs: The options.

        Returns:
            Sentences; none when everything fits.
        """
        self.set_options(var_options=variables, direct=kwargs)
        folder = Path(self.get_option("folder"))
        given = variables or {}
        found: list[str] = []
        for role in terms:
            for name, option in role_options(folder, role).items():
                if name not in given:
                    if option.get("required"):
                        found.append(f"{name}: is not set; {_wanted(option)} is wanted")
                    continue
                try:
                    value = self._templar.template(given[name])
                except AnsibleError as error:
                    found.append(f"{name}: cannot be resolved: {error}")
                    continue
                found += problems(name, option, value)
        return found
