# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a launch, and how much it matters."""

from __future__ import annotations

from dataclasses import asdict, dataclass

# What each kind of finding means for the launch. An error ends the engine's start, or a start that
# nobody can want; a warning lets it go on.
SEVERITIES = {
    "unknown": "error",
    "removed": "error",
    "renamed": "error",
    "ambiguous": "error",
    "refused": "error",
    "bad_choice": "error",
    "bad_value": "error",
    "missing_value": "error",
    "unexpected_value": "error",
    "missing": "error",
    "second_spelling": "error",
    "fatal": "error",
    "wrong_results": "error",
    "abbreviated": "warn",
    "deprecated": "warn",
    "no_op": "warn",
    "advice": "warn",
    "uncertain": "warn",
}
# The release's own parser stops at these.
STOPS_THE_PARSER = ("unknown", "removed", "renamed", "ambiguous", "refused")


@dataclass(frozen=True)
class Finding:
    """One thing about a launch that its operator should know.

    Attributes:
        argument: `--name`, or `NAME=value` of an environment variable.
        kind: A key of `SEVERITIES`.
        reason: What happens, in a sentence.
        where: Evidence: file and line in the release, or the source of the rule.
        remedy: What to do.
        rule: Id of the rule that says so; empty for what the release's parser says.
    """

    argument: str
    kind: str
    reason: str
    where: str = ""
    remedy: str = ""
    rule: str = ""

    @property
    def severity(self) -> str:
        """`error` or `warn`."""
        return SEVERITIES[self.kind]

    def as_dict(self) -> dict[str, str]:
        """The finding with its severity."""
        return {**asdict(self), "severity": self.severity}
