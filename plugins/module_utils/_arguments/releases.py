# SPDX-License-Identifier: Apache-2.0
"""Order of SGLang's releases, and ranges of them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

_VERSION = re.compile(
    r"v?(?P<numbers>\d+(?:\.\d+)*)(?:\.?(?P<pre>a|b|rc|dev)\d*)?(?:\.?post(?P<post>\d+))?", re.ASCII
)
_BOUND = re.compile(r"(?P<sign><=|>=|==|<|>)\s*(?P<version>\S+)")
_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}

Key = tuple[tuple[int, ...], int, int]


def release_key(version: str) -> Key:
    """Sort key of a release: `0.5.13` < `0.5.13.post1` < `0.5.14rc1` < `0.5.14`.

    Raises:
        ValueError: It is not a version.
    """
    match = _VERSION.match(version)
    if match is None:
        raise ValueError(f"'{version}' is not a version such as 0.5.14 or 0.5.13.post1")
    numbers = tuple(int(part) for part in match["numbers"].split("."))
    post = int(match["post"]) if match["post"] else 0
    return numbers, -1 if match["pre"] else 0, post


@dataclass(frozen=True)
class Range:
    """A range of releases, as `>=0.5.9,<0.5.14`; an empty text means every release."""

    text: str = ""

    def __post_init__(self) -> None:
        for part in self._parts():
            match = _BOUND.fullmatch(part)
            if match is None:
                raise ValueError(f"'{part}' is not a bound such as >=0.5.14")
            release_key(match["version"])

    def _parts(self) -> Iterable[str]:
        return (part.strip() for part in self.text.split(",") if part.strip())

    def __contains__(self, version: str) -> bool:
        key = release_key(version)
        bounds = (_BOUND.fullmatch(part) for part in self._parts())
        return all(
            _SIGNS[bound["sign"]](key, release_key(bound["version"])) for bound in bounds if bound
        )
