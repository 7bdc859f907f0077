# SPDX-License-Identifier: Apache-2.0
"""Rules about launches that no parser knows: what an accepted argument does on the hardware.

The rules are data (`roles/engine/files/launch_rules.yml`). Each one names its releases, what it
looks at, what happens, and where that is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._arguments import ArgumentsError
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.findings import Finding
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.releases import Range

VERDICTS = ("fatal", "wrong_results", "no_op", "advice")
HARDWARE = ("any", "sm120")
_REQUIRED = ("id", "verdict", "reason", "source", "remedy")
_OPTIONAL = (
    "argument", "environment", "values", "above", "not_values", "releases", "hardware", "with",
    "unless", "without_patch",
)  # fmt: skip
_TRUE = frozenset({"1", "true", "yes", "y", "on", "t"})
_FALSE = frozenset({"0", "false", "no", "n", "off", "f", ""})


@dataclass(frozen=True)
class Condition:
    """What the value of an argument or variable must be; with nothing set: that it is given.

    Attributes:
        values: One of these; True and False stand for any word that means it.
        not_values: None of these.
        above: A number larger than this.
    """

    values: tuple[str | bool, ...] = ()
    not_values: tuple[str, ...] = ()
    above: float | None = None

    def holds(self, given: Sequence[str] | None) -> bool:
        """Whether it holds for the values that are given; None where it is not given at all."""
        if given is None:
            return False
        if self.values and not any(_is(value, word) for value in self.values for word in given):
            return False
        if self.not_values and any(word in self.not_values for word in given):
            return False
        return self.above is None or any(_number(word) > self.above for word in given)


def _is(value: str | bool, word: str) -> bool:
    if isinstance(value, bool):
        return word.lower() in (_TRUE if value else _FALSE)
    return word == value


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return float("-inf")


@dataclass(frozen=True)
class Rule:
    """One rule; the fields are the keys of the file (`docs/launch.md`)."""

    id: str
    verdict: str
    reason: str
    source: str
    remedy: str
    names: tuple[str, ...]
    condition: Condition
    releases: Range = field(default_factory=Range)
    hardware: str = "any"
    also: Mapping[str, Condition] = field(default_factory=dict)
    unless: Mapping[str, Condition] = field(default_factory=dict)
    without_patch: str = ""


@dataclass(frozen=True)
class Launch:
    """A launch as the rules see it.

    Attributes:
        release: SGLang's version; empty where it is not known.
        options: Argument without dashes to its values; a bare flag has none.
        environment: The engine's variables.
        sm120: Whether the GPUs have compute capability 12.
        patches: Ids of the source patches that the release gets.
    """

    release: str
    options: Mapping[str, Sequence[str]]
    environment: Mapping[str, str] = field(default_factory=dict)
    sm120: bool = True
    patches: frozenset[str] = frozenset()

    def given(self, name: str) -> Sequence[str] | None:
        """Values of an argument, or of a variable when the name is one; None where not given."""
        if name.isupper():
            return [str(self.environment[name])] if name in self.environment else None
        return self.options.get(name)


def options_of(words: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Read an argument list without a parser: every `--name` with the words behind it."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for word in words:
        if word.startswith("--") and len(word) > 2:
            name, has_value, value = word[2:].partition("=")
            current = found[name] = [value] if has_value else []
        elif current is not None:
            current.append(word)
    return {name: tuple(values) for name, values in found.items()}


def judge(rules: Iterable[Rule], launch: Launch) -> list[Finding]:
    """Apply the rules.

    Args:
        rules: The rules.
        launch: The launch.

    Returns:
        One finding a rule and name that it applies to, in the order of the rules.
    """
    found = []
    for rule in rules:
        if rule.hardware == "sm120" and not launch.sm120:
            continue
        if rule.releases.text and (not launch.release or launch.release not in rule.releases):
            continue
        if rule.without_patch and rule.without_patch in launch.patches:
            continue
        if not all(condition.holds(launch.given(n)) for n, condition in rule.also.items()):
            continue
        if any(condition.holds(launch.given(n)) for n, condition in rule.unless.items()):
            continue
        found += [
            Finding(
                _label(name, launch), rule.verdict, rule.reason, rule.source, rule.remedy, rule.id
            )
            for name in rule.names
            if rule.condition.holds(launch.given(name))
        ]
    return found


def _label(name: str, launch: Launch) -> str:
    if name.isupper():
        return f"{name}={launch.environment[name]}"
    return f"--{name}"


def parse_rules(raw: object, where: str = "launch_rules.yml") -> tuple[Rule, ...]:
    """Check the rules and make them usable.

    Args:
        raw: The parsed YAML.
        where: The file's name, for messages.

    Returns:
        The rules.

    Raises:
        ArgumentsError: A rule has a wrong, missing or unknown key; says which rule and key.
    """
    if not isinstance(raw, Sequence) or isinstance(raw, str):
        raise ArgumentsError(f"{where}: the rules are a list, found {type(raw).__name__}")
    rules: list[Rule] = []
    for index, entry in enumerate(raw):
        place = f"{where}: rule {index + 1}"
        if not isinstance(entry, Mapping):
            raise ArgumentsError(f"{place}: a rule is a mapping, found {type(entry).__name__}")
        place += f" ({entry.get('id', 'without id')})"
        rules.append(_rule(entry, place))
    ids = [rule.id for rule in rules]
    for one in ids:
        if ids.count(one) > 1:
            raise ArgumentsError(f"{where}: two rules have the id {one}")
    return tuple(rules)


def _rule(entry: Mapping[str, Any], place: str) -> Rule:
    unknown = sorted(str(key) for key in set(entry) - set(_REQUIRED) - set(_OPTIONAL))
    if unknown:
        raise ArgumentsError(f"{place}: unknown key {', '.join(unknown)}")
    for key in _REQUIRED:
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise ArgumentsError(f"{place}: {key} must be a text")
    if entry["verdict"] not in VERDICTS:
        raise ArgumentsError(f"{place}: verdict is one of {', '.join(VERDICTS)}")
    hardware = entry.get("hardware", "any")
    if hardware not in HARDWARE:
        raise ArgumentsError(f"{place}: hardware is one of {', '.join(HARDWARE)}")
    if ("argument" in entry) == ("environment" in entry):
        raise ArgumentsError(f"{place}: name either 'argument' or 'environment'")
    try:
        releases = Range(str(entry.get("releases", "")))
    except ValueError as error:
        raise ArgumentsError(f"{place}: releases: {error}") from error
    plain = {key: entry[key] for key in ("values", "not_values", "above") if key in entry}
    return Rule(
        id=entry["id"],
        verdict=entry["verdict"],
        reason=" ".join(entry["reason"].split()),
        source=" ".join(entry["source"].split()),
        remedy=" ".join(entry["remedy"].split()),
        names=_names(entry, place),
        condition=_condition(plain, place),
        releases=releases,
        hardware=hardware,
        also=_conditions(entry.get("with", {}), f"{place}: with"),
        unless=_conditions(entry.get("unless", {}), f"{place}: unless"),
        without_patch=str(entry.get("without_patch", "")),
    )


def _names(entry: Mapping[str, Any], place: str) -> tuple[str, ...]:
    key = "argument" if "argument" in entry else "environment"
    found = entry[key] if isinstance(entry[key], list) else [entry[key]]
    for name in found:
        wrong = not isinstance(name, str) or not name or name.startswith("-")
        if wrong or name.isupper() != (key == "environment"):
            raise ArgumentsError(f"{place}: {key}: {name!r} is not a name without dashes")
    return tuple(found)


def _conditions(raw: object, place: str) -> dict[str, Condition]:
    if not isinstance(raw, Mapping):
        raise ArgumentsError(f"{place}: a mapping of names to conditions")
    return {str(name): _condition(value, f"{place}.{name}") for name, value in raw.items()}


def _condition(raw: object, place: str) -> Condition:
    if isinstance(raw, list):
        raw = {"values": raw}
    if not isinstance(raw, Mapping):
        raise ArgumentsError(f"{place}: a list of values, or values, not_values and above")
    unknown = set(raw) - {"values", "not_values", "above"}
    if unknown:
        raise ArgumentsError(f"{place}: unknown key {', '.join(sorted(map(str, unknown)))}")
    above = raw.get("above")
    if above is not None and (isinstance(above, bool) or not isinstance(above, (int, float))):
        raise ArgumentsError(f"{place}: above must be a number")
    texts: dict[str, tuple[Any, ...]] = {}
    for key in ("values", "not_values"):
        found = raw.get(key, [])
        if not isinstance(found, list):
            raise ArgumentsError(f"{place}: {key} must be a list")
        texts[key] = tuple(item if isinstance(item, bool) else str(item) for item in found)
    return Condition(texts["values"], texts["not_values"], above)
